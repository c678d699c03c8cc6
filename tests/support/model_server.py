"""A model server that lists its models, and rejects requests for others, as Ollama and vLLM do."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from support.gateways import CHAT
from support.samples import dump, reply

ASKED: web.AppKey[list[tuple[str, str]]] = web.AppKey("asked", list)
"""The requests: the path, and the model or the `authorization`."""


def model_server(*models: str, status: int = 200, **fields: Any) -> web.Application:
    """An application that lists `models`, each with the further `fields`; with another `status`, an error instead."""
    app = web.Application()
    app[ASKED] = asked = []
    listed = [{"id": name, "object": "model", "created": 9, **fields} for name in models]

    def failed(code: int) -> web.Response:
        error = {"message": f"status {code}", "type": "x", "code": "model_not_found" if code == 404 else None}
        return web.json_response({"error": error}, status=code)

    async def list_models(request: web.Request) -> web.Response:
        asked.append((request.path, request.headers.get("authorization", "")))
        return web.json_response({"object": "list", "data": listed}) if status == 200 else failed(status)

    async def answer(request: web.Request) -> web.Response:
        model = (await request.json())["model"]
        asked.append((request.path, model))
        if status in (401, 403) or (models and model not in models):
            return failed(404)
        return web.Response(body=dump({**reply(CHAT), "model": model}), content_type="application/json")

    app.router.add_get("/v1/models", list_models)
    app.router.add_post("/v1/chat/completions", answer)
    return app

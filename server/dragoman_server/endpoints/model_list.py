"""`GET /v1/models` and `GET /v1/models/{name}`."""

from __future__ import annotations

from aiohttp import web

from dragoman import DragomanError
from dragoman.wire import json_dumps
from dragoman_server.endpoints.codex_catalogue import codex_models
from dragoman_server.endpoints.models import anthropic_model, anthropic_models, openai_model, openai_models
from dragoman_server.proxy.error_response import OWN_ID, error_response, infer_dialect
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.steps.admit import admit_request

_CODEX = "client_version"
"""Parameter of Codex's requests for its catalogue."""
_CHATGPT = "chatgpt-account-id"
"""Header of a client that is logged in with ChatGPT. Its models are OpenAI's, and Codex has their entries itself: it
keeps them if the list is not a catalogue."""


class ModelList:
    """The two endpoints of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._services = gateway.services

    async def get(self, request: web.Request) -> web.Response:
        """Return the models that the client's key may use, or the one that the path names.

        The dialect is that of the request's headers. A list for Codex has the form of its catalogue.
        """
        services, client, name = self._services, infer_dialect(request), request.match_info.get("name")
        headers, loaded, messages = request.headers, services.loaded, client.facts.vendor == "anthropic"
        try:
            caller = await admit_request(services, request)
            await services.count(caller.key, client)
            if name:
                caller.require_model(name)
                model = services.known_models.one(loaded, name, client, headers)
                body = anthropic_model(model) if messages else openai_model(model)
            else:
                owner = caller.owner or request.remote or ""
                models = await services.known_models.all(loaded, client, headers, owner)
                if (key := caller.key) is not None and key.models:
                    models = [model for model in models if key.permits(model.name)]
                if messages:
                    body = anthropic_models(models, request.query)
                else:
                    catalogue = _CODEX in request.query and _CHATGPT not in headers
                    body = (codex_models if catalogue else openai_models)(models)
        except DragomanError as error:
            return error_response(client, error.failure, services.new_id())
        return web.Response(body=json_dumps(body), content_type="application/json", headers={OWN_ID: services.new_id()})

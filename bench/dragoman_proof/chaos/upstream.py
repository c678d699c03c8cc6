"""An upstream of Chat Completions whose streams wait for an order, over HTTP or HTTPS."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

HELD = "held"
"""The model whose streams send one delta and wait for `Upstream.go`."""
ONCE = "once"
"""The model whose replies close their connection."""
_USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


@dataclass(slots=True)
class Upstream:
    """A listening upstream."""

    port: int = 0
    secure: bool = False
    requests: list[web.Request] = field(default_factory=list)
    """All requests that came."""
    streaming: int = 0
    """Number of streams that wait."""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    accepts: Callable[[str], bool] = bool
    """Returns True for a value of `Authorization` that is accepted; by default each one is."""
    refused: int = 0
    """Number of requests that got a 401."""

    def url(self, host: str = "127.0.0.1") -> str:
        """The base URL."""
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}/v1"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request with the text `Hello`."""
        self.requests.append(request)
        if not self.accepts(request.headers.get("authorization", "none")):
            self.refused += 1
            return web.json_response({"error": {"message": "expired"}}, status=401)
        body = await request.json()
        head = {"id": "c-1", "created": 1, "model": body["model"]}
        if not body.get("stream"):
            message = {"role": "assistant", "content": "Hello"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            whole = web.json_response({**head, "object": "chat.completion", "choices": [choice], "usage": _USAGE})
            if body["model"] == ONCE:
                whole.force_close()
            return whole
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        head["object"] = "chat.completion.chunk"
        await reply.write(_frame(head, {"role": "assistant", "content": "Hel"}, None))
        if body["model"] == HELD:
            self.streaming += 1
            await self.go.wait()
            self.streaming -= 1
        usage = json.dumps({**head, "choices": [], "usage": _USAGE})
        rest = _frame(head, {"content": "lo"}, None) + _frame(head, {}, "stop") + f"data: {usage}\n\n".encode()
        with suppress(ConnectionError):  # the gateway was killed
            await reply.write(rest + b"data: [DONE]\n\n")
        return reply


def _frame(head: dict[str, Any], delta: dict[str, str], finish: str | None) -> bytes:
    return (
        b"data: %b\n\n"
        % json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode()
    )


@asynccontextmanager
async def upstream(
    tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Upstream]:
    """Serve on a free port."""
    found = Upstream(secure=tls is not None)
    app = web.Application(client_max_size=2**30)
    app.router.add_post("/v1/chat/completions", found.answer)
    app.router.add_get("/v1/models", _models)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls, backlog=1024)
        await site.start()
        found.port = runner.addresses[0][1]
        yield found
    finally:
        found.go.set()
        await runner.cleanup()


async def _models(request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})

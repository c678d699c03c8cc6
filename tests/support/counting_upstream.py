"""An upstream of the Chat and the Messages API that counts by itself what it reported of each request."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

WORDS = ("Hello", " there", " and", " good", " bye")


@dataclass(slots=True)
class CountingUpstream:
    """Behaves as the model's name states: `KIND-NUMBER`.

    The kinds are `good`, `refused` (429), `broken` (500), `cut` (the connection ends within the stream), `slow` (the
    stream stays open after its first text), `busy` (503 to the first request, then good) and `lost` (the connection of
    the first request ends before any event, then good). `reported` has input and output tokens by model, of replies
    whose counts were sent to the end, and `produced` those of streams that were not; `requests` has the models in the
    order of their arrival.
    """

    reported: dict[str, tuple[int, int]] = field(default_factory=dict)
    produced: dict[str, tuple[int, int]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    """The number of requests of each model."""

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/messages", self._messages)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body, model, (prompt, completion) = await self._received(request)
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        failed = await self._failure(request, model, lambda text: {"error": {"message": text, "type": "x"}})
        if failed is not None:
            return failed
        if not body.get("stream"):
            message = {"role": "assistant", "content": "".join(WORDS), "refusal": None}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.reported[model] = prompt, completion
            head = {"id": "c", "object": "chat.completion", "created": 1, "model": model}
            return web.json_response({**head, "choices": [choice], "usage": usage})

        counted = bool((body.get("stream_options") or {}).get("include_usage"))

        def chunk(delta: dict[str, Any] | None, reason: str | None = None, **more: Any) -> bytes:
            choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
            more = {"usage": None, **more} if counted else more
            head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices}
            return b"data: " + json.dumps({**head, **more}).encode() + b"\n\n"

        frames = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": word}) for word in WORDS)]
        end = [chunk({}, "stop")]
        if counted:
            end.append(chunk(None, usage=usage))
        return await self._stream(request, model, frames, [*end, b"data: [DONE]\n\n"], counted)

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body, model, (prompt, completion) = await self._received(request)
        failed = await self._failure(
            request, model, lambda text: {"type": "error", "error": {"type": "x", "message": text}}
        )
        if failed is not None:
            return failed
        message: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": model}
        if not body.get("stream"):
            self.reported[model] = prompt, completion
            message["content"] = [{"type": "text", "text": "".join(WORDS)}]
            message |= {"stop_reason": "end_turn", "stop_sequence": None}
            return web.json_response({**message, "usage": {"input_tokens": prompt, "output_tokens": completion}})

        def event(kind: str, **fields: Any) -> bytes:
            return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()

        message |= {"content": [], "stop_reason": None, "stop_sequence": None}
        message["usage"] = {"input_tokens": prompt, "output_tokens": 1}
        frames = [
            event("message_start", message=message),
            event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            *(event("content_block_delta", index=0, delta={"type": "text_delta", "text": word}) for word in WORDS),
        ]
        delta = {"stop_reason": "end_turn", "stop_sequence": None}
        end = [
            event("content_block_stop", index=0),
            event("message_delta", delta=delta, usage={"output_tokens": completion}),
            event("message_stop"),
        ]
        return await self._stream(request, model, frames, end, True)

    async def _received(self, request: web.Request) -> tuple[dict[str, Any], str, tuple[int, int]]:
        body = await request.json()
        model: str = body["model"]
        self.requests.append(model)
        self.seen[model] += 1
        number = int(model.rpartition("-")[2])
        return body, model, (100 + number, 10 + number % 7)

    async def _failure(self, request: web.Request, model: str, envelope: Any) -> web.StreamResponse | None:
        kind = model.partition("-")[0]
        first = self.seen[model] == 1
        if kind == "lost" and first:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            assert request.transport is not None
            request.transport.abort()
            return response
        status = {"refused": 429, "broken": 500, "busy": 503 if first else None}.get(kind)
        return web.json_response(envelope("not now"), status=status) if status is not None else None

    async def _stream(
        self, request: web.Request, model: str, frames: list[bytes], end: list[bytes], counted: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        kind = model.partition("-")[0]
        number = int(model.rpartition("-")[2])
        if kind in ("cut", "slow"):
            self.produced[model] = 100 + number, 4
            await response.write(b"".join(frames[:4]))
            if kind == "cut":
                assert request.transport is not None
                request.transport.abort()
            else:
                await asyncio.sleep(3600)  # cancelled when the client leaves
            return response
        await response.write(b"".join([*frames, *end]))
        if counted:
            self.reported[model] = 100 + number, 10 + number % 7
        return response

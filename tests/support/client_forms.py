"""Every form in which a client can use a gateway: the three APIs, WebSocket, background, counts, other endpoints."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp

from support.gateways import Gate
from support.websockets import speaking

Answer = tuple[int, str]
Form = Callable[[Gate, Mapping[str, str]], Awaitable[Answer]]
"""Sends a request with these headers, and returns status, and headers and body as text."""
TURN = [{"role": "user", "content": "Hi"}]


def posted(path: str, **fields: Any) -> Form:
    """A request of JSON. No encoder would write its numbers so."""
    body = json.dumps({"model": "m", **fields}).removesuffix("}") + ', "top_p" : 0.90, "temperature":1.0e0}'

    async def send(entrance: Gate, headers: Mapping[str, str]) -> Answer:
        sent = {"content-type": "application/json", **headers}
        async with entrance.session.post(entrance.url + path, data=body, headers=sent) as response:
            return response.status, f"{dict(response.headers)} {await response.text()}"

    return send


async def uploaded(entrance: Gate, headers: Mapping[str, str]) -> Answer:
    """A form with a file."""
    form = aiohttp.FormData()
    form.add_field("model", "m")
    form.add_field("file", b"RIFF", filename="a.wav")
    url = f"{entrance.url}/v1/audio/transcriptions"
    async with entrance.session.post(url, data=form, headers=dict(headers)) as response:
        return response.status, f"{dict(response.headers)} {await response.text()}"


async def on_websocket(entrance: Gate, headers: Mapping[str, str]) -> Answer:
    """A turn on a WebSocket."""
    async with speaking(entrance.url, headers=dict(headers)) as client:
        events = await client.turn(top_p=0.9, temperature=1.0)
        return int(events[-1].get("status", 200)), json.dumps(events)


async def listed(entrance: Gate, headers: Mapping[str, str]) -> Answer:
    """The list of models."""
    async with entrance.session.get(f"{entrance.url}/v1/models", headers=dict(headers)) as response:
        return response.status, f"{dict(response.headers)} {await response.text()}"


MAIN: dict[str, Form] = {
    "chat": posted("/v1/chat/completions", messages=TURN),
    "chat stream": posted("/v1/chat/completions", messages=TURN, stream=True),
    "messages": posted("/v1/messages", messages=TURN, max_tokens=9),
    "messages stream": posted("/v1/messages", messages=TURN, max_tokens=9, stream=True),
    "responses": posted("/v1/responses", input="Hi", store=False),
    "responses stored": posted("/v1/responses", input="Hi"),
    "responses stream": posted("/v1/responses", input="Hi", stream=True),
    "background stream": posted("/v1/responses", input="Hi", background=True, stream=True),
    "websocket": on_websocket,
}
"""Those that are sent to the endpoint of the provider's dialect."""
COUNTS: dict[str, Form] = {
    "count": posted("/v1/messages/count_tokens", messages=TURN),
    "input_tokens": posted("/v1/responses/input_tokens", input="Hi"),
}
OTHERS: dict[str, Form] = {
    "embeddings": posted("/v1/embeddings", input="Hi"),
    "form": uploaded,
    "models": listed,
}

"""Requests to the simulated upstream, and its replies as they come over HTTP."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

WEATHER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "kelvin"]}, "days": {"type": "integer"}},
    "required": ["city", "unit"],
}
WEATHER_ARGS = {"city": "Oslo", "unit": "celsius"}
CHAT_TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER_SCHEMA}},
    {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}},
]
MESSAGES_TOOLS: list[Any] = [
    {"name": "get_weather", "input_schema": WEATHER_SCHEMA},
    {"name": "get_time", "input_schema": {"type": "object", "properties": {}}},
]
USER: list[Any] = [{"role": "user", "content": "Hi ✨"}]
VERSION = {"anthropic-version": "2023-06-01"}


async def post(
    raw: aiohttp.ClientSession, path: str, body: Any, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """The status of a reply and its JSON."""
    async with raw.post(path, json=body, headers=headers) as response:
        return response.status, await response.json()


async def lines(raw: aiohttp.ClientSession, path: str, body: Any) -> list[Any]:
    """The data of each frame of a stream, parsed where it is JSON."""
    async with raw.post(path, json={**body, "stream": True}, headers=VERSION) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        text = await response.text()
    datas = [part.partition("data: ")[2] for part in text.split("\n\n") if part]
    return [json.loads(data) if data.startswith("{") else data for data in datas]

"""Requests to Gemini, judged by Google's SDK: from its types, it sends the same body over a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from google import genai
from google.genai import types

from conversations.session import play
from dragoman import direction, translate
from dragoman_server.simulator.vendors.gemini import VENDOR
from support.gateways import served
from support.generate import judge
from support.paths import FIXTURES

# The SDK's session is a subclass of aiohttp's.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

Json = dict[str, Any]
CLIENTS = {"anthropic": "messages", "chat": "chat", "responses": "responses"}
_BY_URL = str.maketrans("+/", "-_")
_OWN_FIELDS = ("contents", "generationConfig")


@dataclass
class Recorder:
    """Google's SDK, and the bodies that it sent."""

    sdk: genai.Client
    sent: list[Json] = field(default_factory=list)

    async def rebuilt(self, body: Json) -> Json:
        """The body that the SDK sends for the types of a body."""
        config = {**body.get("generationConfig", {}), **{key: body[key] for key in body if key not in _OWN_FIELDS}}
        contents: Any = [types.Content.model_validate(content) for content in body["contents"]]
        await self.sdk.aio.models.generate_content(
            model="m", contents=contents, config=types.GenerateContentConfig.model_validate(config)
        )
        rebuilt: Json = VENDOR.canonical(self.sent.pop())
        # The SDK's own additions, which state nothing.
        rebuilt.get("systemInstruction", {}).pop("role", None)
        if not rebuilt["generationConfig"]:
            del rebuilt["generationConfig"]
        return rebuilt


def by_url(value: Any, name: str = "") -> Any:
    """A body with its bytes in the alphabet for URLs, as the SDK writes them."""
    if isinstance(value, list):
        return [by_url(each) for each in value]
    if isinstance(value, dict):
        return {key: by_url(each, key) for key, each in value.items()}
    return value.translate(_BY_URL) if name in ("data", "thoughtSignature") else value


@pytest.fixture
async def recorder() -> AsyncIterator[Recorder]:
    async def answer(request: web.Request) -> web.Response:
        made.sent.append(await request.json())
        return web.json_response({"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]})

    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/{path:.+}", answer)
    async with served(app) as (url, _):
        options = types.HttpOptions(base_url=url, api_version="v1beta")
        made = Recorder(genai.Client(api_key="k", http_options=options))
        yield made
        await made.sdk.aio.aclose()


async def test_the_sdk_sends_recorded_requests_of_clients_as_they_are_translated(recorder: Recorder) -> None:
    found = 0
    for path in sorted(FIXTURES.glob("*.json")):
        recorded = json.loads(path.read_text("utf-8"))
        asked, client = recorded["request"]["body"], CLIENTS[recorded["dialect"]]
        counts = "count_tokens" in recorded["request"]["path"]
        if counts or asked.get("type") == "response.create" or "previous_response_id" in asked:
            continue
        sent = json.loads(translate(direction(client, "generate"), json.dumps(asked).encode()).body)
        judge(sent)
        assert await recorder.rebuilt(sent) == by_url(sent), path.name
        found += 1
    assert found == 132


@pytest.mark.whole
@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
async def test_the_sdk_sends_a_long_session_as_it_is_translated(recorder: Recorder, client: str) -> None:
    """With signatures, failed calls, and pictures in results."""
    turns = [turn for turn in play(client, "generate") if turn.last]
    [sent] = [json.loads(turn.translation.body) for turn in turns]
    judge(sent)
    assert await recorder.rebuilt(sent) == by_url(sent)

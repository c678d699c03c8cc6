"""No client of Messages is given a block with nothing in it: its API refuses it when it comes back (T-40)."""

from __future__ import annotations

import json

import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam

from dragoman.dialects import Dialect
from regressions.dialect_bodies import Part
from regressions.live import RESPONSES, whole_stream
from support.gateways import config_for, gate
from support.sockets import ScriptedServer, answer, stream

CALL: Part = ("call", "call_a", "look", '{"city":"Köln"}')
ANSWER: dict[str, list[Part]] = {
    "an empty message": [("text", ""), CALL],
    "empty messages around a text": [("text", ""), ("text", "Hm."), ("text", ""), CALL],
    "reasoning without text": [("reasoning", ""), ("text", "Hm."), CALL],
    "nothing but an empty message": [("text", "")],
}
ASKED: MessageParam = {"role": "user", "content": "Hi"}


def whole(frames: list[bytes]) -> bytes:
    """The body that the last event of a Responses stream holds."""
    return json.dumps(json.loads(frames[-1].partition(b"data: ")[2])["response"]).encode()


@pytest.mark.parametrize("parts", ANSWER.values(), ids=ANSWER)
async def test_T40_the_sdk_holds_the_same_blocks_of_a_stream_and_of_a_whole_reply(parts: list[Part]) -> None:
    """Empty blocks, once given to a client, come back and are refused (NousResearch/hermes-agent#11906)."""
    frames = whole_stream(RESPONSES, *parts)
    scripts = stream(frames), answer(200, whole(frames))
    async with (
        ScriptedServer(*scripts) as server,
        gate(config_for(server.url, Dialect.RESPONSES)) as entrance,
        AsyncAnthropic(base_url=entrance.url, api_key="x", max_retries=0) as client,
    ):
        async with client.messages.stream(model="m", max_tokens=9, messages=[ASKED]) as streaming:
            streamed = await streaming.get_final_message()
        answered = await client.messages.create(model="m", max_tokens=9, messages=[ASKED])
    noted = [block.model_dump(exclude_none=True) for block in streamed.content]
    assert noted == [block.model_dump(exclude_none=True) for block in answered.content]
    assert all(block.get("text") or block.get("signature") or block["type"] == "tool_use" for block in noted)
    assert len(noted) == sum(part != ("text", "") for part in parts)
    assert streamed.stop_reason == answered.stop_reason

"""Calls of a Chat upstream reach Messages clients one at a time, and Responses clients as soon as they are whole."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import openai

from dragoman.aio.timeouts import Timeouts
from oracles.grammar import messages
from support.accumulators import by_last_block, by_open_block
from support.gateways import CHAT, MESSAGES, Gate, config_for, gate, with_limits
from support.samples import chat_frame, request
from support.sockets import LAST_CHUNK, Pause, ScriptedServer, Send, Stall, Step, Wait, chunk, sse_head, stream

BOTH_LOOPS = TAKEN = True
HI: Any = [{"role": "user", "content": "Hi"}]
DONE = b"data: [DONE]\n\n"


def opening(index: int) -> bytes:
    call = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": "look", "arguments": ""}}
    return chat_frame({"tool_calls": [call]})


def more(index: int, text: str) -> bytes:
    return chat_frame({"tool_calls": [{"index": index, "function": {"arguments": text}}]})


ANSWER = chat_frame({"role": "assistant", "content": "Looking."})
FIRST = [opening(0), more(0, '{"city": '), more(0, '"Oslo"}')]
SECOND = [opening(1), more(1, '{"city": '), more(1, '"Rome"}')]
END = [chat_frame({}, "tool_calls"), DONE]
OVERLAPPING = [FIRST[0], SECOND[0], FIRST[1], SECOND[1], SECOND[2], FIRST[2]]
INPUTS = [{"city": "Oslo"}, {"city": "Rome"}]


async def streamed(entrance: Gate) -> Any:
    async with (
        anthropic.AsyncAnthropic(base_url=entrance.url, api_key="key", max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=64, messages=HI) as events,
    ):
        open_now: int | None = None
        async for event in events:
            if event.type == "content_block_start":
                assert open_now is None
                open_now = event.index
            elif event.type == "content_block_stop":
                assert open_now == event.index
                open_now = None
        return await events.get_final_message()


async def test_two_calls_one_after_the_other_arrive_whole() -> None:
    for calls in ([*FIRST, *SECOND], OVERLAPPING):
        script = stream([ANSWER, *calls, *END])
        async with ScriptedServer(script) as server, gate(config_for(server.url, CHAT)) as entrance:
            final = await streamed(entrance)
            assert [block.type for block in final.content] == ["text", "tool_use", "tool_use"]
            assert [block.input for block in final.content[1:]] == INPUTS
            assert final.stop_reason == "tool_use"
            data = await entrance.stream(MESSAGES)
            for blocks in (by_open_block(data), by_last_block(data)):
                assert [json.loads(stated) for kind, _, stated in blocks if kind == "tool_use"] == INPUTS


async def test_the_first_call_is_closed_before_the_upstream_ends_its_reply() -> None:
    """The upstream stalls behind the opening of its second call, or behind the text that follows the first."""
    for then in ([SECOND[0]], [chat_frame({"content": "And"})]):
        released = asyncio.Event()
        tail: list[Step] = [Wait(released), Send(chunk(b"".join([*SECOND, *END]))), Send(LAST_CHUNK)]
        script: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in [*FIRST, *then]), *tail]
        async with ScriptedServer(script) as server, gate(config_for(server.url, CHAT)) as entrance:
            body = request(MESSAGES, stream=True)
            async with asyncio.timeout(30), entrance.post(MESSAGES, body) as response:
                got = b""
                while b'"content_block_stop","index":0' not in got or b'"content_block_start","index":1' not in got:
                    got += await response.content.readany()
                released.set()


async def test_a_responses_client_may_run_the_first_call_while_the_second_is_written() -> None:
    released = asyncio.Event()
    tail: list[Step] = [Wait(released), Send(chunk(b"".join([*SECOND[1:], *END]))), Send(LAST_CHUNK)]
    script: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in [ANSWER, *FIRST, SECOND[0]]), *tail]
    async with (
        asyncio.timeout(30),
        ScriptedServer(script) as server,
        gate(config_for(server.url, CHAT)) as entrance,
        openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="key") as client,
        client.responses.stream(model="m", input="Hi") as events,
    ):
        async for event in events:
            if event.type == "response.output_item.done" and event.item.type == "function_call":
                assert json.loads(event.item.arguments) in INPUTS
                assert event.item.status == "completed"
                released.set()  # only now does the upstream go on
        final = await events.get_final_response()
    assert [json.loads(item.arguments) for item in final.output if item.type == "function_call"] == INPUTS


async def test_the_client_is_kept_awake_while_blocks_are_held_back_and_nothing_stalls() -> None:
    """The second call moves on for longer than an upstream may be silent, and the client is shown none of it."""
    moving: list[Step] = []
    for _ in range(40):
        moving += [Pause(0.04), Send(chunk(more(1, "[")))]
    whole = [more(1, "]" * 40 + "}"), FIRST[1], FIRST[2], *END]
    begun = [FIRST[0], SECOND[0], more(1, '{"a":')]
    script = [
        Send(sse_head()),
        Send(chunk(b"".join(begun))),
        *moving,
        *(Send(chunk(frame)) for frame in whole),
        Stall(),
    ]
    timeouts = Timeouts(heartbeat=0.05, idle=1.0, tool_stall=1.0)
    async with ScriptedServer(script) as server, gate(config_for(server.url, CHAT, timeouts=timeouts)) as entrance:
        data = await entrance.stream(MESSAGES)
    result = messages.check(data)
    assert result.error is None
    assert [call.arguments for call in result.calls] == ['{"city": "Oslo"}', '{"a":' + "[" * 40 + "]" * 40 + "}"]
    assert data.index(b"event: ping") < data.index(b'"input_json_delta"')


async def test_what_is_held_back_has_a_limit() -> None:
    script = stream([FIRST[0], SECOND[0], *([more(1, "x" * 100)] * 20), *END])
    async with ScriptedServer(script) as server:
        config = with_limits(config_for(server.url, CHAT), reply_body=1000)
        async with gate(config) as entrance:
            result = messages.check(await entrance.stream(MESSAGES))
    assert result.error is not None
    assert "reply_body = 1000" in result.error["message"]
    assert result.finish is None


async def test_a_call_that_was_cut_is_not_closed() -> None:
    """Half a call is in the way of a whole one, and then the connection ends."""
    script = stream([FIRST[0], FIRST[1], *SECOND], end=True)
    async with ScriptedServer(script) as server, gate(config_for(server.url, CHAT)) as entrance:
        data = await entrance.stream(MESSAGES)
    result = messages.check(data)
    assert result.error is not None
    assert b"content_block_stop" not in data
    assert by_open_block(data) == []

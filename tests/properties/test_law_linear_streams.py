"""The work on a frame grows with its size, also where it comes in small pieces or is all of one call's arguments.

Counted as in `test_law_linear_requests`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.meter import Metered
from support.samples import chat_frame, messages_frame

SMALL = 100
MOST = 4.9
PIECE = 64
KNOBS: dict[str, dict[str, Any]] = {"defaults": {}, "stripped": {"null_arguments": "strip"}}


def _chat(arguments: str, *fragments: str) -> bytes:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    more = [chat_frame({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}) for text in fragments]
    start = chat_frame({"role": "assistant", "tool_calls": [call]})
    return start + b"".join(more) + chat_frame({}, "tool_calls") + b"data: [DONE]\n\n"


def _messages(arguments: str) -> bytes:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    message |= {"stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    block: dict[str, Any] = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    return b"".join([
        messages_frame("message_start", message=message),
        messages_frame("content_block_start", index=0, content_block=block),
        messages_frame("content_block_delta", index=0, delta=delta),
        messages_frame("content_block_stop", index=0),
        messages_frame("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={}),
        messages_frame("message_stop"),
    ])  # fmt: skip


UPSTREAMS = {"chat": _chat, "messages": _messages}


@pytest.mark.parametrize("knobs", KNOBS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
def test_arguments_four_times_as_long_are_about_four_times_the_work(
    metered: Metered, client: str, upstream: str, knobs: str
) -> None:
    body: dict[str, Any] = {
        "model": "m",
        "stream": True,
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "u"}],
    }
    if client == "responses":
        body = {"model": "m", "stream": True, "input": "u"}
    direction = metered.count(metered["dialects.directions"].direction, client, upstream)[1]
    chosen = metered["knobs"].Knobs(**KNOBS[knobs])
    # Pieces that are looked at together have a fixed length, beyond which the work is linear.
    metered["stages.null_arguments"]._PIECE = 256

    def work(count: int, piece: int) -> int:
        arguments = "{" + ",".join(f'"key{number:06}":{number:06}' for number in range(count)).replace(":0", ":1") + "}"
        data = UPSTREAMS[upstream](arguments)

        def run() -> None:
            translation = metered["translate_request"].translate(direction, json.dumps(body).encode(), knobs=chosen)
            machine = translation.stream_machine()
            for at in range(0, len(data), piece):
                machine.feed(data[at : at + piece])
            machine.finish()

        return metered.count(run)[0]

    for piece in (PIECE, 10**9):
        assert work(4 * SMALL, piece) / work(SMALL, piece) < MOST, piece


@pytest.mark.parametrize("fragment", ["{", "{}", '{"a":'])
@pytest.mark.parametrize("client", ["chat", "messages"])
def test_fragments_that_may_repeat_those_before(metered: Metered, client: str, fragment: str) -> None:
    body = {"model": "m", "stream": True, "max_tokens": 9, "messages": [{"role": "user", "content": "u"}]}
    direction = metered.count(metered["dialects.directions"].direction, client, "chat")[1]

    def work(count: int) -> int:
        data = _chat('{"b":', *[fragment] * count)

        def run() -> None:
            machine = metered["translate_request"].translate(direction, json.dumps(body).encode()).stream_machine()
            for at in range(0, len(data), PIECE):
                machine.feed(data[at : at + PIECE])
            machine.finish()

        return metered.count(run)[0]

    assert work(4 * SMALL) / work(SMALL) < MOST

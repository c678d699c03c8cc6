"""Gemini as an upstream of the clients of all dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Dialect, direction, translate
from dragoman.dialects import CLIENT_DIALECTS
from dragoman.dialects.all_codecs import CODECS
from dragoman.errors import UpstreamStatusError
from dragoman.wire.json_codec import dumps
from support.generate import chunk, judge, sse

ASK: dict[str, Any] = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
BODIES = {"chat": ASK, "messages": ASK, "responses": {"model": "m", "input": "Hi"}}


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_and_its_reply(client: Dialect, stream: bool) -> None:
    body = {**BODIES[client], "stream": stream}
    translation = translate(direction(client, "generate"), dumps(body), upstream_model="gemini-3-pro")
    judge(json.loads(translation.body))
    reply = chunk([{"text": "Hello"}], "STOP", usage=(3, 1))
    if stream:
        machine = translation.stream_machine()
        data = b"".join(filter(None, [machine.feed(sse([reply])), machine.finish()]))
    else:
        data = translation.reply(dumps(reply))
    assert b"Hello" in data
    assert translation.context.usage is not None
    assert translation.context.usage.input_total == 3


def test_the_stop_sequences_that_were_sent_are_known() -> None:
    body = {**ASK, "stop_sequences": ["a", "b"]}
    translation = translate(direction("messages", "generate"), dumps(body))
    assert translation.context.sent_stops == ("a", "b")
    assert translation.context.stops == ()


def test_no_client_has_it() -> None:
    with pytest.raises(ValueError, match="generate"):
        direction("generate", "chat")
    codec = CODECS[Dialect.GENERATE]
    with pytest.raises(TypeError):
        codec.write_reply({})


def test_the_end_of_a_complete_reply() -> None:
    check = CODECS[Dialect.GENERATE].check_end
    assert check is not None
    for sound in ({}, {"candidates": 5}, {"candidates": [5]}, chunk([], "SAFETY")):
        check(sound)
    with pytest.raises(UpstreamStatusError, match="oops"):
        check(chunk([], "MALFORMED_FUNCTION_CALL", finishMessage="oops"))

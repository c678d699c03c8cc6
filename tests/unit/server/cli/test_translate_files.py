"""`dragoman translate` where one side uses Responses: requests, whole replies and streams, known by their content."""

from __future__ import annotations

import json

import pytest

from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from dragoman.losses import LossCode
from dragoman.profiles.profile import builtin_profile
from dragoman_server.cli.translate_files import convert, kind_of
from support.samples import TEXT, dump, judge, reply, request, text_stream

CHAT, MESSAGES, RESPONSES, *_ = Dialect
CROSS = pytest.mark.parametrize(
    ("source", "target"), [(RESPONSES, CHAT), (RESPONSES, MESSAGES), (CHAT, RESPONSES), (MESSAGES, RESPONSES)]
)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_the_kind_is_recognised_by_the_content(dialect: Dialect) -> None:
    assert kind_of(dump(request(dialect))) == "request"
    assert kind_of(dump(reply(dialect))) == "reply"
    assert kind_of(b"".join(text_stream(dialect))) == "stream"


@CROSS
def test_a_request(source: Dialect, target: Dialect) -> None:
    limit = {} if source is MESSAGES else {"max_output_tokens" if source is RESPONSES else "max_completion_tokens": 99}
    data = dump(request(source, stream=True) | limit)
    out, losses, _ = convert(
        data, source, target, kind="request", model="other", profile=builtin_profile(target), knobs=Knobs()
    )
    body = json.loads(out)
    assert (body["model"], body["stream"]) == ("other", True)
    assert not losses


@CROSS
def test_a_whole_reply(source: Dialect, target: Dialect) -> None:
    data = dump(reply(source))
    out, _, _ = convert(data, source, target, kind="reply", profile=builtin_profile(source), knobs=Knobs())
    assert kind_of(out) == "reply"
    assert TEXT in out.decode()


@CROSS
def test_a_stream(source: Dialect, target: Dialect) -> None:
    data = b"".join(text_stream(source))
    out, _, _ = convert(data, source, target, kind="stream", profile=builtin_profile(source), knobs=Knobs())
    assert judge(target, out, include_usage=True).text == TEXT


def test_wrapped_reasoning_is_wrapped_as_a_gateway_would() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    data = dump({**reply(RESPONSES), "output": [item, *reply(RESPONSES)["output"]]})
    out, losses, _ = convert(data, RESPONSES, MESSAGES, kind="reply", profile=builtin_profile(RESPONSES), knobs=Knobs())
    assert b"dgm1." in out
    assert LossCode.REASONING_SIGNATURE not in losses.counts

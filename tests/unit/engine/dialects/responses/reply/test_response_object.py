"""The JSON of a Response object that is formatted against the one that is encoded."""

from __future__ import annotations

from typing import Any

import pytest
from orjson import Fragment

from dragoman.dialects.responses.reply import response_object
from dragoman.dialects.responses.reply.response_object import ResponseObject
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext, StoredReply
from dragoman.wire.json_codec import dumps

USAGE = {"input_tokens": 3, "total_tokens": 3}
ECHOES: list[dict[str, Any]] = [
    {},
    {"max_output_tokens": 1024},
    {"temperature": 1, "top_p": 1.0},
    {"temperature": 1.0, "top_p": 1},
    {"parallel_tool_calls": False, "max_tool_calls": 2, "top_logprobs": 1, "truncation": "auto"},
    {"instructions": "Say %d.", "temperature": 0.5},
    {"service_tier": "flex"},
    {"prompt_cache_retention": "24h"},
]


def context(**settings: Any) -> ReplyContext:
    return ReplyContext("client-model %b", 1, "req_1", **settings)


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("clock", [None, lambda: 12.7])
def test_formatted_and_encoded_objects_are_equal(echo: dict[str, Any], clock: Any) -> None:
    one = ResponseObject(context(echo=echo, clock=clock), "chatcmpl-%d", "other", None)
    assert one.started_json() == dumps(one.started())
    for status, reason in (("completed", None), ("incomplete", "max_output_tokens")):
        for usage in (None, USAGE):
            ended = one.ended(status, Fragment(b'[{"id":1}]'), usage=usage, reason=reason)
            assert one.ended_json(status, b'{"id":1}', usage=usage, reason=reason) == dumps(ended)


def test_a_stored_reply_has_its_own_fields() -> None:
    stored = StoredReply({"store": True, "previous_response_id": "resp_0"})
    one = ResponseObject(context(stored=stored), "", "", 2)
    assert b'"previous_response_id":"resp_0","store":true' in one.started_json()
    assert b'"previous_response_id":"resp_0","store":true' in one.ended_json("completed", b"", usage=None, reason=None)


def test_a_tier_that_was_not_sent_is_not_repeated() -> None:
    into = context(echo={"service_tier": "flex"})
    into.losses.add(LossCode.SERVICE_TIER, "service_tier")
    assert b'"service_tier":"default"' in ResponseObject(into, "", "", None).started_json()


def test_few_settings_are_kept_and_none_with_text() -> None:
    known = response_object._ENCODED
    for cap in range(1, 2 * response_object._ENCODED_MAX):
        ResponseObject(context(echo={"max_output_tokens": cap}), "", "", None).started_json()
        assert len(known) <= response_object._ENCODED_MAX
    for echo in ({"instructions": "secret"}, {"user": "secret"}, {"metadata": {"a": "secret"}}, {"tools": ["secret"]}):
        ResponseObject(context(echo=echo), "", "", None).started_json()
    assert not any(b"secret" in key + value for key, value in known.items())

"""Token counts that are requested in the client's own bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Dialect, Profile, translate
from dragoman.dialects.chat.request.request_usage import request_usage
from dragoman.gateway import DIRECTIONS, ReplyOptions

REQUEST = {"model": "m", "messages": [{"role": "user", "content": 'a "stream_options": {} }'}], "stream": True}
ABSENT = object()


def body_of(options: Any = ABSENT, **style: Any) -> bytes:
    return json.dumps(REQUEST if options is ABSENT else {**REQUEST, "stream_options": options}, **style).encode()


@pytest.mark.parametrize("style", [{}, {"indent": 2}, {"separators": (",", ":")}])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ABSENT, {"include_usage": True}),
        (None, {"include_usage": True}),
        ({}, {"include_usage": True}),
        ({"include_usage": False}, {"include_usage": True}),
        ({"include_usage": None}, {"include_usage": True}),
        ({"include_obfuscation": False}, {"include_usage": True, "include_obfuscation": False}),
        ({"include_obfuscation": True, "include_usage": False}, {"include_usage": True, "include_obfuscation": True}),
    ],
)
def test_counts_are_requested(options: Any, expected: Any, style: Any) -> None:
    body = body_of(options, **style) + b" \n"
    changed = request_usage(body, json.loads(body))
    assert changed is not None
    assert json.loads(changed) == {**REQUEST, "stream_options": expected}
    assert changed.startswith(body[:60])


@pytest.mark.parametrize(
    "options",
    [
        {"include_usage": True},
        {"include_usage": 1},
        {"continuous_usage_stats": True},
        {"include_usage": False, "continuous_usage_stats": True},
        {"include_obfuscation": "no"},
        [],
        "include_usage",
        False,
    ],
)
def test_a_request_with_counts_or_with_other_options_is_not_changed(options: Any) -> None:
    body = body_of(options)
    assert request_usage(body, json.loads(body)) is None


def sent(body: bytes, *, request: bool = True, profile: Profile | None = None) -> Any:
    translation = translate(
        DIRECTIONS[Dialect.CHAT, Dialect.CHAT], body, options=ReplyOptions(request_usage=request), profile=profile
    )
    return json.loads(translation.body).get("stream_options"), translation.context.remove_usage


def test_only_streams_to_upstreams_that_count_are_changed() -> None:
    counted = {"include_usage": True}
    assert sent(body_of()) == (counted, True)
    assert sent(body_of(), request=False) == (None, False)
    assert sent(body_of(counted)) == (counted, False)
    assert sent(body_of(), profile=Profile(stream_usage=False)) == (None, False)
    whole = json.dumps({**REQUEST, "stream": False}).encode()
    assert sent(whole) == (None, False)


def test_a_renamed_model_is_renamed_too() -> None:
    direction = DIRECTIONS[Dialect.CHAT, Dialect.CHAT]
    translation = translate(direction, body_of(), options=ReplyOptions(request_usage=True), upstream_model="other")
    assert json.loads(translation.body) == {**REQUEST, "model": "other", "stream_options": {"include_usage": True}}

"""Calls of the history with broken arguments, in every direction: what the model wrote reaches the upstream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.directions import direction
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode
from dragoman.profiles.profile import builtin_profile
from dragoman.translate_request import Translation, translate
from oracles.requests import check
from support.directions import Json

DIALECTS = ("chat", "messages", "responses")
BROKEN = (
    '{"cmd": "ls',
    '{"a":1}{"b":2}',
    "null",
    "{'a': 1}",
    "[1]",
    '"text"',
    "ls -l",
    '{"a": NaN}',
    "{",
    "\ud83d",
    '{"a":' * 2000,
)
SOUND = (' {"b": 1.0, "a": 12345678901234567890123}', '{"a":"é"}', "{}")
EMPTY = ("", "  ", "\n")
HEADERS = {"anthropic-version": "2023-06-01"}


def history(client: str, arguments: Any) -> Json:
    """A conversation with one call and its result."""
    if client == "responses":
        call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments}
        result = {"type": "function_call_output", "call_id": "c1", "output": "It failed."}
        return {"max_output_tokens": 99, "input": [{"role": "user", "content": "Go"}, call, result]}
    if client == "chat":
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        stated = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "c1", "content": "It failed."}
        return {"max_tokens": 99, "messages": [{"role": "user", "content": "Go"}, stated, result]}
    stated = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": arguments}]}
    results = [{"type": "tool_result", "tool_use_id": "c1", "content": "It failed."}]
    asked, answered = ({"role": "user", "content": content} for content in ("Go", results))
    return {"max_tokens": 99, "messages": [asked, stated, answered]}


def sent(client: str, upstream: str, arguments: Any, **knobs: Any) -> tuple[Any, Translation]:
    """The arguments that the upstream gets. Its own dialect's requests are rewritten."""
    profile = builtin_profile(upstream).replace({"rewrite": True})
    body = json.dumps({"model": "m", **history(client, arguments)}).encode()
    translation = translate(direction(client, upstream), body, profile=profile, knobs=Knobs(**knobs))
    written = json.loads(translation.body)
    check(upstream, written, HEADERS)
    if upstream == "responses":
        return next(item for item in written["input"] if item["type"] == "function_call")["arguments"], translation
    stated = next(message for message in written["messages"] if message["role"] == "assistant")
    if upstream == "chat":
        return stated["tool_calls"][0]["function"]["arguments"], translation
    return stated["content"][0]["input"], translation


@pytest.mark.parametrize("arguments", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("client", DIALECTS)
def test_a_messages_upstream_gets_them_as_one_text(client: str, arguments: str) -> None:
    """T-06: one broken call in the history ended the session."""
    got, translation = sent(client, "messages", arguments)
    assert got == {"invalid_arguments": arguments}
    assert translation.losses.counts[LossCode.CALL_ARGUMENTS] == 1
    assert translation.losses.rows[0].path.endswith("input" if client == "messages" else "arguments")
    with pytest.raises(Unsupported):
        sent(client, "messages", arguments, on_loss="reject")


@pytest.mark.parametrize("arguments", [*BROKEN, *SOUND], ids=range(len(BROKEN) + len(SOUND)))
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_other_upstreams_get_them_as_they_were(client: str, upstream: str, arguments: str) -> None:
    got, translation = sent(client, upstream, arguments)
    assert got == arguments
    assert LossCode.CALL_ARGUMENTS not in translation.losses.counts


@pytest.mark.parametrize("arguments", [*SOUND, *EMPTY])
@pytest.mark.parametrize("client", DIALECTS)
def test_sound_and_empty_ones_stay_objects(client: str, arguments: str) -> None:
    got, translation = sent(client, "messages", arguments)
    assert got == json.loads(arguments.strip() or "{}")
    assert LossCode.CALL_ARGUMENTS not in translation.losses.counts


@pytest.mark.parametrize(("given", "text"), [({"a": [1]}, '{"a":[1]}'), ([1], "[1]"), (7, "7"), (True, "true")])
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_clients_may_send_them_parsed(client: str, upstream: str, given: Any, text: str) -> None:
    got, _ = sent(client, upstream, given)
    if upstream != "messages":
        assert got == text
    else:
        assert got == (given if type(given) is dict else {"invalid_arguments": text})


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_null_is_no_arguments(client: str, upstream: str) -> None:
    got, translation = sent(client, upstream, None)
    assert got in ({}, "{}", "")
    assert LossCode.CALL_ARGUMENTS not in translation.losses.counts

"""Keys in snake_case: those of the reply are read, those of a tool's arguments are the tool's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import DragomanError, LossCode, direction
from dragoman.dialects.generate.reply_fields import note_service
from dragoman.dialects.generate.snake_case import in_camel_case
from dragoman.losses import Losses
from regressions.repaired import replied, restored
from support.directions import translated
from support.generate import new_context, sse

Json = dict[str, Any]
REPAIR = "the keys of the reply were in snake_case"
COUNTS = {"prompt_token_count": 9, "candidates_token_count": 3, "total_token_count": 12}
HEAD = {"model_version": "up", "response_id": "r1"}
CALL = {"function_call": {"name": "read", "args": {"file_path": "a"}}, "thought_signature": "c2ln"}
every = pytest.mark.parametrize("client", ["chat", "messages", "responses"])


def candidate(*parts: Json, **more: Any) -> Json:
    return {"content": {"role": "model", "parts": list(parts)}, **more}


@every
def test_a_stream(client: str) -> None:
    chunks = [
        {**HEAD, "candidates": [candidate({"text": "Hi"})], "usage_metadata": {"prompt_token_count": 9}},
        {**HEAD, "candidates": [candidate(CALL, finish_reason="STOP")], "usage_metadata": COUNTS},
    ]
    held, done, _ = restored(client, "generate", sse(chunks))
    assert held.error is None
    assert held.text == "Hi"
    assert [(call.name, json.loads(call.arguments)) for call in held.calls] == [("read", {"file_path": "a"})]
    assert REPAIR in done


@every
def test_only_a_candidate_or_a_part_has_such_keys(client: str) -> None:
    chunks = [{"candidates": [candidate(CALL)]}, {"candidates": [candidate(finish_reason="STOP")]}]
    held, _, _ = restored(client, "generate", sse(chunks))
    assert held.error is None
    assert [call.name for call in held.calls] == ["read"]


@every
@pytest.mark.parametrize("renamed", ["counts", "picture", "call", "prompt"])
def test_some_keys_of_one_reply(client: str, renamed: str) -> None:
    """A relay that renames what it writes itself leaves the rest as it came."""
    usage: Json = {"promptTokenCount": 9, "candidatesTokenCount": 3}
    parts: list[Json] = [{"text": "Hi"}]
    if renamed == "counts":
        usage = {"promptTokenCount": 9, "candidates_token_count": 3}
    elif renamed == "picture":
        parts.append({"inlineData": {"mime_type": "image/png", "data": "iVBORw0KGgo="}})
    elif renamed == "call":
        parts.append({"functionCall": {"name": "read", "args": {"file_path": "a"}}, "thought_signature": "c2ln"})
    body: Json = {"modelVersion": "up", "candidates": [candidate(*parts, finishReason="STOP")], "usageMetadata": usage}
    if renamed == "prompt":
        body = {"modelVersion": "up", "promptFeedback": {"block_reason": "SAFETY"}, "usageMetadata": usage}
    got, translation = replied(client, "generate", body)
    held, done, _ = restored(client, "generate", sse([body]))
    assert held.error is None
    assert REPAIR in done
    assert translation.context.usage is not None
    assert translation.context.usage.output_total == 3
    assert [call.name for call in held.calls] == (["read"] if renamed == "call" else [])
    assert "SAFETY" in json.dumps(got) or renamed != "prompt"
    pictured = "iVBORw0KGgo=" in json.dumps(got) or LossCode.VENDOR_BLOCK in translation.losses.counts
    assert pictured == (renamed == "picture")


@every
def test_a_whole_reply_with_its_picture_and_counts(client: str) -> None:
    image = {"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo="}}
    body = {**HEAD, "candidates": [candidate({"text": "Hi"}, image, finish_reason="STOP")], "usage_metadata": COUNTS}
    got, translation = replied(client, "generate", body)
    assert "iVBORw0KGgo=" in json.dumps(got) or LossCode.VENDOR_BLOCK in translation.losses.counts
    assert translation.context.usage is not None
    assert translation.context.usage.input_total == 9


@every
def test_a_blocked_prompt(client: str) -> None:
    body = {**HEAD, "prompt_feedback": {"block_reason": "SAFETY"}, "usage_metadata": COUNTS}
    got, _ = replied(client, "generate", body)
    assert "SAFETY" in json.dumps(got)


@every
def test_the_message_of_an_error(client: str) -> None:
    broken = candidate(finish_reason="MALFORMED_FUNCTION_CALL", finish_message="no such tool")
    with pytest.raises(DragomanError, match="no such tool"):
        replied(client, "generate", {"candidates": [broken]})
    held, _, _ = restored(client, "generate", sse([{"candidates": [broken]}]))
    assert held.error is not None
    assert "no such tool" in held.error["message"]


def test_counts_of_a_reply_that_the_client_does_not_get() -> None:
    usage = note_service({"candidates": [], "usage_metadata": COUNTS}, new_context())
    assert usage is not None
    assert usage.output_total == 3


def test_unknown_keys_stay_unknown() -> None:
    losses = Losses()
    value = {"text": "Hi", "my_part": {"a_b": 1}}
    assert in_camel_case(value, losses) is value
    assert not losses.rows


def test_a_key_in_camel_case_counts_before_one_in_snake_case() -> None:
    value = {"functionCall": {"name": "a"}, "function_call": None, "thought_signature": "x"}
    assert in_camel_case(value, Losses()) == {"functionCall": {"name": "a"}, "thoughtSignature": "x"}


def test_usual_keys_have_no_row() -> None:
    translation = translated(direction("chat", "generate"))
    translation.reply(json.dumps({"candidates": [candidate({"text": "Hi"}, finishReason="STOP")]}).encode())
    assert not translation.losses.rows

"""Messages read in the compact form become, for each upstream, the same as those read block by block; a message that is
nearly of this form is read block by block, with its losses or its refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import DragomanError, builtin_profile, direction, translate
from dragoman.canonical.turn import Turn
from dragoman.dialects.messages.request.read_compact import read_compact_turns
from dragoman.reasoning.envelope import Envelope
from support.steps import without_steps

Json = dict[str, Any]

MARK = {"type": "ephemeral"}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
TEXT = {"type": "text", "text": "Hi"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}
CHAT_BLOCK = {"reasoning_content": "Hm"}


def reasoned(signature: Any, text: Any = "Hm") -> Json:
    return {"type": "thinking", "thinking": text, "signature": signature}


def wrapped(dialect: str, block: Json, family: str | None = None) -> str:
    return Envelope(family or builtin_profile(dialect).family or dialect, "m").wrap(dialect, block)


def stated(*content: Json) -> Json:
    return {"role": "assistant", "content": list(content)}


def given(*content: Json) -> Json:
    return {"role": "user", "content": list(content)}


def shown(*content: Any) -> Json:
    return {**RESULT, "content": list(content)}


SHORT: list[Json] = [
    stated(reasoned("c2ln"), TEXT, CALL),
    stated(reasoned(""), TEXT, CALL),
    stated(reasoned("", ""), CALL),
    stated(reasoned("no.envelope"), CALL),
    stated(reasoned("dgm1.damaged"), CALL),
    stated(reasoned(wrapped("responses", ITEM)), TEXT, CALL),
    stated(reasoned(wrapped("responses", ITEM, "another")), CALL),
    stated(reasoned(wrapped("chat", CHAT_BLOCK)), TEXT, CALL),
    stated(reasoned("c2ln"), reasoned(wrapped("responses", ITEM)), reasoned(""), CALL),
    stated(reasoned(wrapped("responses", ITEM))),
    stated({"type": "redacted_thinking", "data": "x"}, CALL),
    stated({"type": "redacted_thinking", "data": ""}, TEXT, CALL),
    stated({"type": "redacted_thinking", "data": wrapped("responses", ITEM)}, CALL),
    given(TEXT),
    given({**TEXT, "text": ""}),
    given(TEXT, IMAGE, TEXT),
    given(IMAGE),
    given(RESULT, TEXT),
    given(TEXT, RESULT, {**RESULT, "is_error": True}),
    given(shown(TEXT, IMAGE)),
    given(RESULT, shown(IMAGE), {**RESULT, "tool_use_id": "t2"}, TEXT),
    given({**shown(TEXT), "is_error": True}),
    given(shown()),
    {"role": "system", "content": "Be brief"},
    {"role": "user", "content": "Go on"},
    {"role": "assistant", "content": "Well"},
]

NEAR: list[Json] = [
    stated(reasoned("c2ln", 1)),
    stated(reasoned(1)),
    stated(TEXT, reasoned(wrapped("responses", ITEM))),
    stated({"type": "redacted_thinking", "data": 1}),
    stated({"type": "redacted_thinking"}),
    given(TEXT, {"type": "text"}),
    given({**TEXT, "text": 1}),
    given({**TEXT, "cache_control": MARK}),
    given({**TEXT, "novelty": 1}),
    given(TEXT, {"type": "video", "source": {}}),
    given({**IMAGE, "cache_control": MARK}),
    given({**IMAGE, "source": {"type": "url", "url": "https://a.example/i"}}),
    given({**IMAGE, "source": {"type": "base64", "media_type": "image/png"}}),
    given({**IMAGE, "source": {"type": "base64", "media_type": 1, "data": "aGk="}}),
    given({**IMAGE, "source": None}),
    given({"type": "image"}),
    given(RESULT, {"type": "tool_use", "id": "t1", "name": "f", "input": {}}),
    given(shown(1)),
    given(shown({"a": 1}, TEXT)),
    given(shown({**TEXT, "citations": None})),
    given(shown(RESULT)),
    given({**shown(TEXT), "novelty": 1}, {"type": "video"}),
    given({**RESULT, "content": {"a": 1}}),
    given({**RESULT, "is_error": True, "cache_control": MARK}, TEXT),
    given({**shown(TEXT), "is_error": True, "cache_control": MARK}),
    given({**RESULT, "cache_control": MARK}),
    given({**RESULT, "is_error": None}),
    given({**RESULT, "cache_control": MARK, "novelty": 1}),
    given({**RESULT, "is_error": True, "cache_control": None}),
    {"role": "system", "content": [TEXT]},
    {"role": "system", "content": "", "clear_at": "never"},
    {"role": "system", "content": "x", "clear_at": "next_user_message"},
    {"role": "system", "content": ""},
    {"role": "tool", "content": "x"},
    {"role": ["user"], "content": "x"},
]


def outcome(upstream: str, history: list[Json], flags: Json) -> Any:
    """All that a translation gives, or how it was refused."""
    first = {"role": "user", "content": "Do it"}
    tool = {"name": "f", "description": "", "input_schema": {"type": "object"}}
    body = {"model": "m", "max_tokens": 9, "tools": [tool], "messages": [first, *history]}
    profile = builtin_profile(upstream).replace(flags)
    try:
        made = translate(direction("messages", upstream), json.dumps(body).encode(), profile=profile)
    except DragomanError as error:
        return str(error)
    return made.body, made.losses.rows, made.context.input_estimate


def read(message: Json) -> int:
    """Return how many of one message are read in the compact form."""
    turns: list[Turn] = []
    other = read_compact_turns(iter([(0, message)]), turns)
    assert len(turns) == (other is None)
    return len(turns)


@pytest.mark.parametrize(
    ("upstream", "flags"),
    [("chat", {}), ("chat", {"reasoning_replay": True}), ("responses", {}), ("messages", {"rewrite": True})],
)
@pytest.mark.parametrize(("message", "short"), [*((m, 1) for m in SHORT), *((m, 0) for m in NEAR)])
def test_a_message_in_short_becomes_what_it_does_block_by_block(
    message: Json, short: int, upstream: str, flags: Json
) -> None:
    assert read(message) == short
    history = [stated(CALL, {**CALL, "id": "t2"}), message, stated(TEXT, CALL), given(RESULT)]
    found = outcome(upstream, history, flags)
    with without_steps():
        assert found == outcome(upstream, history, flags)

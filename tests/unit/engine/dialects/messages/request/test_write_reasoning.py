"""The reasoning that goes back, and its form where a turn was edited (mapping §5.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.parts import Json, Reasoning, Text
from dragoman.dialects import Dialect
from dragoman.dialects.directions import direction
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.policies import repair_history
from dragoman.profiles.profile import builtin_profile
from dragoman.reasoning.envelope import Envelope
from dragoman.translate_request import translate
from support.canonical_turns import assistant, call, reasoned, request, result, translated, user

SIGNED = {"type": "thinking", "thinking": "because", "signature": "EqQBCg=="}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}


def wrapped(family: str) -> Json:
    """A Responses item that carries the thinking of a Messages upstream of `family`."""
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": Envelope(family, "m").wrap("messages", SIGNED),
    }


def codex(family: str) -> Json:
    """A Responses client within a tool loop that such thinking began."""
    return {
        "model": "m",
        "max_output_tokens": 9000,
        "input": [
            {"role": "user", "content": "go"},
            wrapped(family),
            {"type": "function_call", "call_id": "toolu_1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "toolu_1", "output": "ok"},
        ],
    }


def kinds(message: Json) -> list[str]:
    return [block["type"] for block in message["content"]]


# --- orphans ----------------------------------------------------------------------------------------------------------


def test_seed_S2_24_strip_takes_out_both_kinds_of_orphans_and_makes_thinking_of_the_edited_turn_text() -> None:
    made = request(
        user("go"),
        assistant(reasoned("because"), "text", call("lost"), call("kept")),
        user(result("kept"), result("without a call")),
        assistant(reasoned("later"), call("whole")),
        user(result("whole")),
    )
    losses = Losses()
    repair_history(made, Knobs(orphans="strip"), losses)
    assert made.turns[1].parts == [Text("because"), Text("text"), call("kept")]
    assert made.turns[2].parts == [result("kept")]
    assert isinstance(made.turns[3].parts[0], Reasoning)
    assert losses.counts == {LossCode.ORPHAN_DROPPED: 2, LossCode.THINKING_INVALIDATED: 1}


@pytest.mark.parametrize(
    ("upstream", "profile", "left"),
    [
        ("messages", "anthropic", [("text", "because"), ("tool_use", None)]),
        ("messages", "deepseek", [("thinking", "because"), ("tool_use", None)]),
        ("messages", "compatible", [("tool_use", None)]),
        ("chat", "deepseek", "because"),
        ("chat", "openai", None),
    ],
)
def test_strip_makes_text_of_thinking_only_where_its_signature_is_checked(
    upstream: str, profile: str, left: Any
) -> None:
    """DeepSeek refuses a history without its own blocks, and others are not shown what was reasoning as an answer."""
    lost = {**CALL, "id": "toolu_lost"}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [SIGNED, lost, CALL]},
        {"role": "user", "content": [RESULT]},
    ]
    body, made = translated(
        "messages",
        upstream,
        {"model": "m", "max_tokens": 9000, "messages": messages},
        profile=profile,
        flags={"rewrite": True},
        orphans="strip",
    )
    stated = next(message for message in body["messages"] if message["role"] == "assistant")
    if upstream == "messages":
        blocks = [(block["type"], block.get(block["type"])) for block in stated["content"]]
        assert blocks == left
    else:
        assert (stated.get("reasoning_content"), stated["content"]) == (left, None)
    assert (LossCode.THINKING_INVALIDATED in made.losses.counts) is (profile == "anthropic")


def test_strip_leaves_no_message_where_nothing_is_left() -> None:
    redacted = Reasoning("", origin="messages", proof="sig", redacted=True)
    made = request(user("go"), assistant(redacted, call("lost")), user("on"))
    losses = Losses()
    repair_history(made, Knobs(orphans="strip"), losses)
    assert made.turns[1].parts == []
    assert losses.rows[0].done == "dropped"


# --- by kind of endpoint ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replay", "family", "expected", "code"),
    [
        ("verify", "up", ["thinking", "tool_use"], None),
        ("verify", "another", ["tool_use"], LossCode.REASONING_FOREIGN),
        ("own_required", "up", ["thinking", "tool_use"], None),
        ("own_required", "another", ["tool_use"], LossCode.REASONING_FOREIGN),
        ("drop", "up", ["tool_use"], LossCode.REASONING_FOREIGN),
        ("drop", "another", ["tool_use"], LossCode.REASONING_FOREIGN),
    ],
)
def test_seed_S2_25_signed_thinking_by_kind_of_endpoint(
    replay: str, family: str, expected: list[str], code: LossCode | None
) -> None:
    flags = {"thinking_replay": replay, "family": "up"}
    body, made = translated("responses", "messages", codex(family), flags=flags)
    assert kinds(body["messages"][1]) == expected
    assert set(made.losses.counts) == ({code} if code else set())


@pytest.mark.parametrize(
    ("replay", "expected", "code"),
    [
        ("own_required", ["thinking", "text"], None),
        ("verify", ["text"], LossCode.REASONING_UNSIGNED),
        ("drop", ["text"], LossCode.REASONING_UNSIGNED),
    ],
)
def test_seed_S2_25_unsigned_reasoning_goes_to_those_who_ask_for_it(
    replay: str, expected: list[str], code: LossCode | None
) -> None:
    """Kimi and DeepSeek want what came as `reasoning_content` back as unsigned thinking."""
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "done", "reasoning_content": "because"},
        {"role": "user", "content": "on"},
    ]
    body, made = translated("chat", "messages", {"model": "m", "messages": messages}, flags={"thinking_replay": replay})
    turn = body["messages"][1]
    assert (kinds(turn) if isinstance(turn["content"], list) else ["text"]) == expected
    assert set(made.losses.counts) == ({code} if code else set())


def test_T45_thinking_never_carries_a_cache_mark() -> None:
    marked = {**SIGNED, "cache_control": {"type": "ephemeral"}}
    item = {**wrapped("up"), "encrypted_content": Envelope("up", "m").wrap("messages", marked)}
    body = codex("up")
    body["input"][1] = item
    sent, _ = translated("responses", "messages", body, flags={"family": "up"})
    assert sent["messages"][1]["content"][0] == SIGNED


def test_seed_S2_22_a_merged_turn_has_no_thinking_twice() -> None:
    body = codex("up")
    body["input"][3:3] = [{"type": "message", "role": "user", "content": ""}, wrapped("up")]
    body["input"].insert(5, {"type": "function_call", "call_id": "toolu_2", "name": "f", "arguments": "{}"})
    body["input"].append({"type": "function_call_output", "call_id": "toolu_2", "output": "ok"})
    sent, made = translated("responses", "messages", body, flags={"family": "up"})
    assert kinds(sent["messages"][1]) == ["thinking", "tool_use", "tool_use"]
    assert made.losses.counts == {LossCode.THINKING_INVALIDATED: 1}


# --- a running tool loop that loses its thinking ----------------------------------------------------------------------


def looping(family: str, thinking: Any, *, after: tuple[Json, ...] = (), **fields: Any) -> Json:
    """A Messages client that brings thinking back which a gateway had sealed for `family`."""
    envelope = Envelope(family, "m").wrap("messages", SIGNED)
    return {
        "model": "m",
        "max_tokens": 9000,
        "thinking": thinking,
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{**SIGNED, "signature": envelope}, CALL]},
            {"role": "user", "content": [RESULT]},
            *after,
        ],
        **fields,
    }


BUDGET = {"type": "enabled", "budget_tokens": 2000}
EDITS = [{"type": "clear_thinking_20251015", "keep": "all"}, {"type": "clear_tool_uses_20250919"}]


def passed(body: Json) -> tuple[Json, Losses]:
    row = direction(Dialect.MESSAGES, Dialect.MESSAGES)
    made = translate(row, json.dumps(body).encode(), profile=builtin_profile("messages").replace({"family": "up"}))
    sent: Json = json.loads(made.body)
    return sent, made.losses


def test_a_running_loop_that_began_with_foreign_thinking_is_finished_without() -> None:
    body, losses = passed(looping("another", BUDGET, context_management={"edits": EDITS}))
    assert kinds(body["messages"][1]) == ["tool_use"]
    assert "thinking" not in body
    assert body["context_management"] == {"edits": EDITS[1:]}
    assert set(losses.counts) == {LossCode.REASONING_FOREIGN, LossCode.THINKING_DISABLED, LossCode.CONTEXT_MANAGEMENT}


def test_nothing_else_is_left_where_thinking_was_all_that_is_managed() -> None:
    body, _ = passed(looping("another", BUDGET, context_management={"edits": EDITS[:1]}))
    assert "context_management" not in body


@pytest.mark.parametrize(
    "body",
    [
        looping("up", BUDGET),
        looping("another", {"type": "adaptive"}),
        looping("another", BUDGET, after=({"role": "user", "content": "?"},)),
    ],
    ids=["its own", "no budget", "the loop is over"],
)  # fmt: skip
def test_thinking_stays_on_where_it_may(body: Json) -> None:
    sent, losses = passed(body)
    assert sent["thinking"] == body["thinking"]
    assert LossCode.THINKING_DISABLED not in losses.counts

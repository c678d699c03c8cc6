"""Sealed thinking on its way to a Messages upstream: passed through, and restored from other clients (mapping §5.2)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Knobs, LossCode, builtin_profile, direction, translate
from dragoman.canonical.parts import Part, Reasoning, Text, ToolCall, ToolResult
from dragoman.canonical.request import Request, Thinking, Tool
from dragoman.canonical.turn import Turn
from dragoman.dialects.messages.request.restore_reasoning import restore_reasoning
from dragoman.dialects.messages.request.write import write_request
from dragoman.errors import ClientRequestError, Path
from dragoman.losses import Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.envelope import TAG, Envelope, OpenedEnvelope, unwrap
from dragoman.tools.names import NameTable
from dragoman.wire.json_codec import dumps

Json = dict[str, Any]
ROW = direction("messages", "messages")
CLAUDE = builtin_profile("messages").replace({"family": "claude"})
OWN = {"type": "thinking", "thinking": "Größer  than\n", "signature": "EqQBCkYIBxgCKkDD/+=="}
UNSIGNED = {"type": "thinking", "thinking": "Hm", "signature": ""}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgB"}
TEXT = {"type": "text", "text": "Yes"}
CALL = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "y"}]}
USER = {"role": "user", "content": "x"}


def envelope(block: Json, family: str = "claude", dialect: str = "messages") -> str:
    return Envelope(family, "m").wrap(dialect, block)


def carried(block: Json, family: str = "claude", dialect: str = "messages") -> Json:
    """The block as a Messages client holds it."""
    if block["type"] == "redacted_thinking":
        return {"type": "redacted_thinking", "data": envelope(block, family, dialect)}
    return {"type": "thinking", "thinking": "trimmed", "signature": envelope(block, family, dialect)}


def stated(*content: Json) -> Json:
    return {"role": "assistant", "content": list(content)}


def passed(*messages: Any, knobs: Knobs | None = None, **fields: Any) -> tuple[Json, Losses]:
    body = json.dumps({"model": "m", "max_tokens": 5, "messages": list(messages), **fields}).encode()
    translation = translate(ROW, body, profile=CLAUDE, knobs=knobs or Knobs())
    return json.loads(translation.body), translation.losses


# --- passed through ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        [OWN, REDACTED, TEXT, CALL],
        [TEXT | {"text": f"the text of an envelope begins with {TAG}"}],
        [{**OWN, "thinking": f"{TAG}x"}],
        [{**OWN, "signature": f" {TAG}x"}],
        [{"type": "tool_use", "id": "t", "name": "n", "input": {"type": "thinking", "signature": TAG}}],
    ],
)
def test_T10_without_an_envelope_no_byte_is_touched(content: list[Json]) -> None:
    """ "Invalid signature in thinking block": any touch of the block breaks it (router-for-me/CLIProxyAPI#2172)."""
    raw = json.dumps({"max_tokens": 5, "model": "m", "messages": [USER, stated(*content), RESULT], "n": 1e3}, indent=1)
    assert translate(ROW, raw.encode(), profile=CLAUDE).body == raw.encode()


def test_own_thinking_is_restored_and_foreign_thinking_left_out() -> None:
    foreign = carried({"type": "thinking", "thinking": "secret", "signature": "s"}, "deepseek")
    item = carried(
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret"}, dialect="responses"
    )
    first = stated(carried(OWN), carried(REDACTED), OWN, TEXT)
    second = stated(foreign, TEXT, item, CALL)
    body, losses = passed(USER, first, USER, second, RESULT, metadata={"a": 1})
    assert body["messages"] == [USER, stated(OWN, REDACTED, OWN, TEXT), USER, stated(TEXT, CALL), RESULT]
    assert body["metadata"] == {"a": 1}
    assert [row[:2] for row in losses.rows] == [
        (LossCode.REASONING_FOREIGN, "messages[3].content[0]"),
        (LossCode.REASONING_FOREIGN, "messages[3].content[2]"),
    ]


def test_a_message_left_empty_goes_with_its_thinking() -> None:
    body, _ = passed(USER, stated(carried(OWN, "deepseek")), USER)
    assert body["messages"] == [USER, USER]


def test_a_message_that_was_empty_before_is_the_upstreams_to_judge() -> None:
    body, _ = passed(USER, stated(), stated(carried(OWN)), USER)
    assert body["messages"] == [USER, stated(), stated(OWN), USER]


@pytest.mark.parametrize(("replay", "kept"), [("verify", [TEXT]), ("own_required", [UNSIGNED, TEXT])])
def test_unsigned_thinking_beside_envelopes_stays_behind_where_signatures_are_verified(
    replay: str, kept: list[Json]
) -> None:
    """A Chat model made it: Claude answers "Invalid `signature` in `thinking` block"."""
    messages = [USER, stated(carried(OWN, "deepseek"), CALL), RESULT, stated(UNSIGNED, TEXT), USER, stated(UNSIGNED)]
    body: Json = {"messages": messages}
    losses = Losses()
    assert restore_reasoning(body, CLAUDE.replace({"thinking_replay": replay}), losses)
    assert body["messages"][3]["content"] == kept
    assert len(body["messages"]) == (5 if replay == "verify" else 6), "a message of nothing else is left out"
    assert losses.counts.get(LossCode.REASONING_UNSIGNED, 0) == (2 if replay == "verify" else 0)


@pytest.mark.parametrize("indent", [None, 1])
def test_T11_a_session_that_began_at_a_chat_model_goes_on_at_claude_without_envelopes(indent: int | None) -> None:
    """Its thinking has no signature: a 400 for each request (MoonshotAI/kimi-code#331). As a text, Claude refuses it
    as reasoning of another (can1357/oh-my-pi#7241)."""
    messages = [USER, stated(UNSIGNED, TEXT, CALL), RESULT, stated(OWN, TEXT), USER]
    raw = json.dumps({"model": "m", "max_tokens": 5, "messages": messages}, indent=indent).encode()
    sent = translate(ROW, raw, profile=CLAUDE)
    assert json.loads(sent.body)["messages"] == [USER, stated(TEXT, CALL), RESULT, stated(OWN, TEXT), USER]
    assert [row[:2] for row in sent.losses.rows] == [(LossCode.REASONING_UNSIGNED, "messages[1].content[0]")]
    lenient = CLAUDE.replace({"thinking_replay": "own_required"})
    assert translate(ROW, raw, profile=lenient).body == raw


def test_a_strict_request_is_refused() -> None:
    with pytest.raises(ClientRequestError, match=r"messages\[1\].content\[0\].*reasoning_foreign"):
        passed(USER, stated(carried(OWN, "deepseek")), USER, knobs=Knobs(on_loss="reject"))


def test_the_callers_body_stays_as_it_is() -> None:
    """It may be asked of another upstream next, whose reasoning must not have gone with the first one's."""
    payload: Json = {"model": "m", "messages": [USER, stated(carried(OWN, "deepseek"), TEXT)]}
    before = copy.deepcopy(payload)
    raw = dumps(payload)
    for family, content in (("claude", [TEXT]), ("deepseek", [OWN, TEXT])):
        profile = CLAUDE.replace({"family": family})
        body = json.loads(translate(ROW, raw, payload=payload, profile=profile).body)
        assert body["messages"][1]["content"] == content
        assert payload == before


@pytest.mark.parametrize(
    "messages",
    [
        None,
        "x",
        {},
        [None, 5, "x", []],
        [{"content": None}, {"content": "x"}, {"content": [None, 5, []]}, {}],
        [stated({"type": ["thinking"], "signature": TAG})],
        [stated({"type": "thinking", "signature": 5}, {"type": "thinking"}, {"signature": TAG})],
    ],
)
def test_a_body_of_any_shape_is_the_upstreams_to_judge(messages: Any) -> None:
    body = {"messages": messages}
    assert not restore_reasoning(body, CLAUDE, Losses())
    assert body == {"messages": messages}


def test_a_body_nested_too_deeply_is_the_clients_error() -> None:
    nested = b"[" * 1000 + b"]" * 1000
    raw = b'{"model":"m","messages":[%b],"x":%b}' % (dumps(stated(carried(OWN))), nested)
    sent, noted = b"{}", ""
    try:
        sent = translate(ROW, raw, profile=CLAUDE).body
    except ClientRequestError as error:
        noted = str(error)
    # Later Pythons can write what they can read.
    whole = b'{"model":"m","messages":[%b],"x":%b}' % (dumps(stated(OWN)), nested)
    assert "nested too deeply" in noted or json.loads(sent) == json.loads(whole)


@given(st.lists(st.sampled_from((OWN, TEXT, CALL, carried(OWN), carried(OWN, "other"))), max_size=4), st.integers(1, 5))
def test_a_longer_history_extends_the_shorter_one(content: list[Json], turns: int) -> None:
    history = [message for _ in range(turns) for message in (USER, stated(*content), RESULT)]
    longer, _ = passed(*history, USER)
    shorter, _ = passed(*history)
    assert longer["messages"][: len(shorter["messages"])] == shorter["messages"]


# --- restored from a client of another dialect ------------------------------------------------------------------------


def brought(block: Json, family: str = "claude", dialect: str = "messages", at: Path = ("input", 1)) -> Reasoning:
    """Return what the request reader of another dialect makes of an envelope."""
    proof = envelope(block, family, dialect)
    opened = unwrap(proof)
    assert opened is not None
    assert opened != OpenedEnvelope()
    redacted = block["type"] == "redacted_thinking"
    return Reasoning("as shown", at, opened.dialect, proof, redacted, opened.block, opened.family)


def write(*parts: Part, profile: Profile = CLAUDE, losses: Losses | None = None, **knobs: Any) -> Json:
    """The body for a running tool loop whose assistant turn has these parts and a call."""
    request = Request("responses", "m", [])
    request.turns = [
        Turn("user", [Text("x")]),
        Turn("assistant", [*parts, ToolCall("t", "read", "{}")]),
        Turn("user", [ToolResult("t", "y")]),
    ]
    request.tools = [Tool("function", "read")]
    request.thinking = Thinking("high", ("reasoning", "effort"))
    request.max_tokens = 30_000
    ledger = Losses() if losses is None else losses
    names = NameTable(128)
    body = write_request(request, model="m", profile=profile, knobs=Knobs(**knobs), losses=ledger, names=names)
    written: Json = json.loads(dumps(body))
    return written


@pytest.mark.parametrize("block", [OWN, REDACTED])
def test_restored_thinking_is_the_block_that_was_made(block: Json) -> None:
    losses = Losses()
    assert write(brought(block), losses=losses)["messages"][1]["content"] == [block, CALL]
    assert not losses.counts


@pytest.mark.parametrize("block", [OWN, REDACTED])
def test_a_running_tool_loop_may_think_on_if_it_began_with_restored_thinking(block: Json) -> None:
    """With a thinking budget Claude refuses a loop whose assistant turn begins otherwise."""
    budget = CLAUDE.replace({"thinking": "budget"})
    losses = Losses()
    assert write(brought(block), profile=budget, losses=losses)["thinking"]["type"] == "enabled"
    assert not losses.counts
    for parts in ([], [brought(block, "other")], [Text("a"), brought(block)]):
        losses = Losses()
        assert "thinking" not in write(*parts, profile=budget, losses=losses)
        assert losses.counts[LossCode.THINKING_DISABLED] == 1


def test_thinking_of_another_family_is_left_out_or_demoted() -> None:
    losses = Losses()
    body = write(brought(OWN, "other"), losses=losses)
    assert body["messages"][1]["content"] == [CALL]
    assert losses.rows == [(LossCode.REASONING_FOREIGN, "input[1]", "dropped")]
    body = write(brought(OWN, "other"), demote_reasoning="on")
    assert body["messages"][1]["content"] == [{"type": "text", "text": "as shown"}, CALL]


@pytest.mark.parametrize("replay", ["verify", "own_required", "drop"])
def test_foreign_reasoning_never_becomes_a_thinking_block(replay: str) -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "secret"}
    body = write(brought(item, dialect="responses"), profile=CLAUDE.replace({"thinking_replay": replay}))
    assert body["messages"][1]["content"] == [CALL]


def test_a_server_that_signs_nothing_gets_its_blocks_back_and_claude_does_not() -> None:
    own_required = CLAUDE.replace({"thinking_replay": "own_required"})
    assert write(brought(UNSIGNED), profile=own_required)["messages"][1]["content"] == [UNSIGNED, CALL]
    losses = Losses()
    assert write(brought(UNSIGNED), losses=losses)["messages"][1]["content"] == [CALL]
    assert losses.counts == {LossCode.REASONING_UNSIGNED: 1}

"""Group B, where a session changes its provider: reasoning that only its maker may be given back."""

from __future__ import annotations

import json
from typing import Any

from dragoman import Direction, LossCode, Profile, builtin_profile, direction, translate
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    begin,
    block,
    calls,
    chat_reply,
    chunk,
    delta,
    end,
    events_of,
    start_call,
    stop,
    tool,
)
from support.directions import Json, ask, stream_through

CLAUDE = builtin_profile(MESSAGES).replace({"family": "claude"})
DEEPSEEK = builtin_profile(CHAT, "compatible").replace({"family": "deepseek"})
KIMI = builtin_profile(CHAT, "compatible").replace({"family": "kimi"})
SIGNED = {"type": "thinking", "thinking": "signed thoughts", "signature": "EqQBCkYIBxgCKkD/+=="}
ASKED = {"role": "user", "content": "x"}
TO_CLAUDE, TO_CHAT = direction(MESSAGES, MESSAGES), direction(MESSAGES, CHAT)


def stated(*content: Any) -> Json:
    return {"role": "assistant", "content": list(content)}


def result(call_id: str = "t") -> Json:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "y"}]}


def sent(row: Direction, profile: Profile, *messages: Json) -> tuple[Json, dict[LossCode, int]]:
    translation = translate(row, json.dumps(ask(MESSAGES, messages=list(messages))).encode(), profile=profile)
    return json.loads(translation.body), translation.losses.counts


def received(profile: Profile, *frames: bytes) -> list[Json]:
    """The content blocks that a Messages client accumulates of a Chat stream."""
    out = stream_through(translate(TO_CHAT, json.dumps(ask(MESSAGES)).encode(), profile=profile), frames)
    content: list[Json] = []
    for payload in events_of(out):
        if payload["type"] == "content_block_start":
            content.append(payload["content_block"])
        elif payload["type"] == "content_block_delta" and payload["delta"]["type"] != "input_json_delta":
            key = payload["delta"]["type"].removesuffix("_delta")
            content[payload["index"]][key] += payload["delta"][key]
    return content


REASONING = (ROLE, chunk({"reasoning_content": "deep "}), chunk({"reasoning_content": "thoughts"}))
TURN = received(DEEPSEEK, *REASONING, calls(start_call(0, "t", "read", "{}")), chunk({}, "tool_calls"), DONE)
"""A turn that a client holds after a reply of DeepSeek: thinking and a call."""


def test_T10_a_session_that_comes_back_to_claude_brings_its_signatures_untouched() -> None:
    """ "Invalid signature in thinking block" (router-for-me/CLIProxyAPI#2172, lbjlaq/Antigravity-Manager#3478): its own
    blocks stay what they were, though blocks of another provider stand between them."""
    own = stated(SIGNED, {"type": "text", "text": "one"})
    body, losses = sent(TO_CLAUDE, CLAUDE, ASKED, own, ASKED, stated(*TURN), result(), own, ASKED)
    assert body["messages"][1] == body["messages"][5] == own
    assert body["messages"][3] == stated(TURN[1])
    assert losses == {LossCode.REASONING_FOREIGN: 1}


def test_T11_a_session_may_move_between_providers_and_back() -> None:
    """The error when a session moves between a real and a compatible provider (ding113/claude-code-hub#518)."""
    history = [ASKED, stated(SIGNED, {"type": "text", "text": "one"}), ASKED, stated(*TURN), result()]
    for row, profile, kept in ((TO_CHAT, DEEPSEEK, True), (TO_CHAT, KIMI, False), (TO_CLAUDE, CLAUDE, False)):
        body, losses = sent(row, profile, *history)
        wire = json.dumps(body)
        assert ("deep thoughts" in wire) is kept
        assert "dgm1." not in wire
        assert ("EqQB" in wire) is (row is TO_CLAUDE)
        assert (LossCode.REASONING_FOREIGN in losses) is not kept


def test_T11_a_turn_of_nothing_but_foreign_thinking_leaves_no_empty_message() -> None:
    """The rest of such a turn is an empty message, which the API refuses (ding113/claude-code-hub#518)."""
    body, _ = sent(TO_CLAUDE, CLAUDE, ASKED, stated(TURN[0]), ASKED)
    assert body["messages"] == [ASKED, ASKED]


def test_T15_reasoning_goes_back_to_its_server_even_if_the_client_trimmed_it() -> None:
    """The upstream demands `reasoning_content` back on tool turns; the bridge lost it (anthropics/claude-code#37485,
    lidge-jun/opencodex#994)."""
    for shown in ("deep thoughts", "deep", ""):
        body, losses = sent(TO_CHAT, DEEPSEEK, ASKED, stated({**TURN[0], "thinking": shown}, TURN[1]), result())
        assert body["messages"][1]["reasoning_content"] == "deep thoughts"
        assert body["messages"][1]["tool_calls"][0]["id"] == "t"
        assert not losses


def test_T15_a_whole_reply_is_given_back_as_a_streamed_one_is() -> None:
    """Clients that do not stream keep the same block (lidge-jun/opencodex#994)."""
    translation = translate(TO_CHAT, json.dumps(ask(MESSAGES)).encode(), profile=DEEPSEEK)
    whole = json.loads(translation.reply(json.dumps(chat_reply(reasoning_content="deep thoughts")).encode()))
    assert whole["content"] == TURN[:1]


def test_T15_chat_clients_are_not_given_what_they_could_not_keep() -> None:
    """They have no field for it: the thinking is shown and its signature counted (anthropics/claude-code#37485)."""
    frames = [
        begin(),
        block(0, type="thinking", thinking=""),
        delta(0, "thinking", "Hm"),
        delta(0, "signature", "Eq=="),
    ]
    frames += [stop(0), tool(1, "t", "read"), delta(1, "input_json", "{}"), stop(1), end("tool_use")]
    translation = translate(direction(CHAT, MESSAGES), json.dumps(ask(CHAT)).encode(), profile=CLAUDE)
    out = stream_through(translation, frames)
    assert b"Eq==" not in out
    assert b"dgm1." not in out
    assert translation.losses.counts == {LossCode.REASONING_SIGNATURE: 1}

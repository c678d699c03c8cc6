"""Reasoning of a Chat upstream through a Messages client and home again (mapping §5.2, §5.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Knobs, LossCode, Profile, builtin_profile, direction, translate
from dragoman.errors import Unsupported
from dragoman.losses import Losses
from dragoman.reasoning.envelope import TAG, Envelope, unwrap
from dragoman.wire.json_codec import dumps

Json = dict[str, Any]
DEEPSEEK = builtin_profile("chat", "compatible").replace({"family": "deepseek"})
KIMI = builtin_profile("chat", "compatible").replace({"family": "kimi"})
CLAUDE = builtin_profile("messages")
CALL = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "y"}]}


def thinking(text: str, signature: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": signature}


def wrapped(text: str = "Hm", dialect: str = "chat", family: str = "deepseek", shown: str | None = None) -> Json:
    """A thinking block as a Messages client holds it that an upstream of `family` made."""
    block: Json = {"reasoning_content": text} if dialect == "chat" else thinking(text, "Eq==")
    return thinking(text if shown is None else shown, Envelope(family, "m").wrap(dialect, block))


def history(*content: Json, loop: bool = True) -> list[Json]:
    asked = {"role": "user", "content": "x"}
    stated = {"role": "assistant", "content": [*content, *([CALL] if loop else [])]}
    return [asked, stated, RESULT if loop else {"role": "user", "content": "z"}]


def send(
    messages: list[Json], profile: Profile, *, upstream: str = "chat", knobs: Knobs | None = None, **fields: Any
) -> tuple[Json, Losses]:
    body = {"model": "m", "max_tokens": 9000, "messages": messages, **fields}
    row = direction("messages", upstream)
    translation = translate(row, json.dumps(body).encode(), profile=profile, knobs=knobs or Knobs())
    return json.loads(translation.body), translation.losses


def reply(profile: Profile, **message: Any) -> list[Json]:
    """The content of a whole reply for a Messages client."""
    body: Json = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
    translation = translate(direction("messages", "chat"), dumps(body), profile=profile)
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": "stop"}
    content: list[Json] = json.loads(translation.reply(dumps({"id": "1", "model": "m", "choices": [choice]})))[
        "content"
    ]
    return content


def stream(profile: Profile, *deltas: Json) -> list[Json]:
    """The content that a Messages client accumulates."""
    body: Json = {"model": "m", "max_tokens": 5, "stream": True, "messages": [{"role": "user", "content": "x"}]}
    machine = translate(direction("messages", "chat"), dumps(body), profile=profile).stream_machine()
    out = b""
    for delta, reason in [*((delta, None) for delta in deltas), ({}, "stop")]:
        chunk = {"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        out += machine.feed(b"data: " + dumps(chunk) + b"\n\n")
    out += machine.feed(b"data: [DONE]\n\n") + machine.finish()
    content: list[Json] = []
    for line in out.decode().splitlines():
        payload = json.loads(line[6:]) if line.startswith("data: ") else {}
        if payload.get("type") == "content_block_start":
            content.append(payload["content_block"])
        for key in ("text", "thinking", "signature"):
            if key in payload.get("delta", {}):
                content[payload["index"]][key] += payload["delta"][key]
    return content


def test_reasoning_that_a_server_wants_back_is_wrapped_in_streams_and_whole_alike() -> None:
    whole = reply(DEEPSEEK, reasoning_content="Größer 👋", content="Yes")
    assert whole == [wrapped("Größer 👋"), {"type": "text", "text": "Yes", "citations": None}]
    pieces: list[Json] = [{"reasoning_content": "Größer "}, {"reasoning_content": "👋"}, {"content": "Yes"}]
    assert stream(DEEPSEEK, *pieces) == whole


def test_each_run_of_reasoning_is_wrapped_by_itself() -> None:
    deltas: list[Json] = [{"reasoning_content": "one"}, {"content": "A"}, {"reasoning_content": "two"}]
    assert stream(DEEPSEEK, *deltas) == [
        wrapped("one"),
        {"type": "text", "text": "A", "citations": None},
        wrapped("two"),
    ]


def test_reasoning_that_no_server_wants_back_is_not_wrapped() -> None:
    openai = builtin_profile("chat")
    assert reply(openai, reasoning_content="Hm") == [thinking("Hm", "")]
    assert stream(openai, {"reasoning_content": "Hm"}) == [thinking("Hm", "")]


def test_the_family_defaults_to_the_dialect_and_the_model_is_the_upstreams() -> None:
    body = dumps({"model": "alias", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]})
    translation = translate(
        direction("messages", "chat"), body, upstream_model="r1", profile=builtin_profile("chat", "compatible")
    )
    assert translation.context.envelope == Envelope("chat", "r1")
    assert translate(direction("chat", "messages"), body).context.envelope is None


@pytest.mark.parametrize("shown", ["Hm", "", "H", "trimmed by the client"])
def test_T15_wrapped_reasoning_goes_home_whole_whatever_the_client_trimmed(shown: str) -> None:
    """The upstream demands `reasoning_content` back on tool turns (anthropics/claude-code#37485)."""
    body, losses = send(history(wrapped(shown=shown)), DEEPSEEK)
    assert body["messages"][1]["reasoning_content"] == "Hm"
    assert not losses.counts


@pytest.mark.parametrize("family", ["deepseek", "", "deepseek "])
def test_another_family_never_gets_it(family: str) -> None:
    body, losses = send(history(wrapped("secret", family=family)), KIMI)
    assert "secret" not in json.dumps(body)
    assert losses.rows == [(LossCode.REASONING_FOREIGN, "messages[1].content[0]", "dropped")]


def test_another_dialect_never_gets_it() -> None:
    for block in (wrapped("secret", "messages", "deepseek"), wrapped("secret", "responses", "deepseek")):
        body, losses = send(history(block), DEEPSEEK)
        assert "secret" not in json.dumps(body)
        assert losses.counts == {LossCode.REASONING_FOREIGN: 1}


@pytest.mark.parametrize("signature", [TAG, TAG + "!", wrapped()["signature"][:-1]])
def test_a_damaged_envelope_is_left_out(signature: str) -> None:
    for profile, upstream in ((DEEPSEEK, "chat"), (CLAUDE, "messages")):
        body, losses = send(history(thinking("shown", signature)), profile, upstream=upstream)
        assert "shown" not in json.dumps(body)
        assert TAG not in json.dumps(body)
        assert losses.counts == {LossCode.REASONING_FOREIGN: 1}


def test_foreign_reasoning_becomes_text_where_the_operator_wants_that() -> None:
    body, losses = send(history(wrapped(shown="Hm!")), KIMI, knobs=Knobs(demote_reasoning="on"))
    assert body["messages"][1]["content"] == "Hm!"
    assert losses.rows == [(LossCode.REASONING_FOREIGN, "messages[1].content[0]", "became plain text")]
    body, losses = send(history(wrapped(shown="")), KIMI, knobs=Knobs(demote_reasoning="on"))
    assert body["messages"][1]["content"] is None
    assert losses.rows == [(LossCode.REASONING_FOREIGN, "messages[1].content[0]", "dropped")]


def test_redacted_thinking_in_an_envelope_is_foreign_to_chat() -> None:
    data = Envelope("deepseek", "m").wrap("messages", {"type": "redacted_thinking", "data": "d"})
    _, losses = send(history({"type": "redacted_thinking", "data": data}), DEEPSEEK)
    assert losses.counts == {LossCode.REASONING_FOREIGN: 1}


@pytest.mark.parametrize("upstream", ["chat", "messages"])
def test_a_strict_request_refuses_foreign_reasoning(upstream: str) -> None:
    profile = KIMI if upstream == "chat" else CLAUDE
    with pytest.raises(Unsupported) as caught:
        send(history(wrapped()), profile, upstream=upstream, knobs=Knobs(on_loss="reject"))
    assert caught.value.failure.param == "messages[1].content[0]"


def test_the_same_history_makes_the_same_bytes_and_a_longer_one_extends_it() -> None:
    one = history(wrapped("one"), loop=False)
    two = [*one, {"role": "assistant", "content": [wrapped("two"), CALL]}, RESULT]
    first, second = send(one, DEEPSEEK)[0]["messages"], send(two, DEEPSEEK)[0]["messages"]
    assert second[: len(first)] == first
    assert send(two, DEEPSEEK)[0]["messages"] == second


def test_the_envelope_of_a_reply_is_what_was_read() -> None:
    (block, _) = reply(DEEPSEEK, reasoning_content="Hm", content="x")
    envelope = unwrap(block["signature"])
    assert envelope is not None
    assert (envelope.family, envelope.model, envelope.block) == ("deepseek", "m", {"reasoning_content": "Hm"})

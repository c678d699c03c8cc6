"""Rows state what became of a field: one that moved or took another form is not reported as dropped.

Every row names a field that the client sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Knobs, LossCode, direction, translate
from dragoman.losses import Loss

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "Hi"}
LATE: Json = {"role": "system", "content": "Be brief."}
MARK: Json = {"type": "ephemeral"}
PICTURE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
TOOLS: list[Json] = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]
ALLOWED: Json = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}


def use(call_id: str) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def result(call_id: str, content: Any = "r", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def text(stated: str, **more: Any) -> Json:
    return {"type": "text", "text": stated, **more}


def rows(client: str, upstream: str, *messages: Json, knobs: Json | None = None, **fields: Any) -> list[Loss]:
    body = {"model": "claude-opus-5-5", "max_tokens": 99, "messages": list(messages), **fields}
    made = translate(direction(client, upstream), json.dumps(body).encode(), knobs=Knobs(**knobs or {}))
    return made.losses.rows


def stated(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def noted(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


PLAIN: Json = {"type": "text", "media_type": "text/plain", "data": "plain"}
FOUND: Json = {"type": "search_result", "source": "s", "title": "t", "content": [text("b")]}
CASES: dict[LossCode, tuple[str, str, list[Json], Json]] = {
    LossCode.SYSTEM_REORDERED: ("chat", "messages", [USER, {"role": "assistant", "content": "x"}, LATE, USER], {}),
    LossCode.SYSTEM_MOVED: ("chat", "messages", [USER, LATE], {"knobs": {"mid_system": "hoist"}}),
    LossCode.SYSTEM_DEMOTED: ("chat", "messages", [USER, LATE], {"knobs": {"mid_system": "user"}}),
    LossCode.SEARCH_RESULT_SHAPE: ("messages", "responses", [noted(FOUND)], {}),
    LossCode.DOCUMENT_SHAPE: ("messages", "chat", [noted({"type": "document", "source": PLAIN})], {}),
    LossCode.RESULT_MEDIA_MOVED: ("messages", "chat", [USER, stated(use("a")), noted(result("a", [PICTURE]))], {}),
    LossCode.BLOCK_ORDER: ("messages", "chat", [USER, stated(use("a"), text("b")), noted(result("a"))], {}),
    LossCode.TOOLS_FILTERED: (
        "chat",
        "messages",
        [USER],
        {"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "allowed_tools": ALLOWED}},
    ),
}


@pytest.mark.parametrize("code", CASES, ids=str)
def test_what_was_sent_in_another_way_is_not_reported_as_dropped(code: LossCode) -> None:
    client, upstream, messages, more = CASES[code]
    (row,) = rows(client, upstream, *messages, **more)
    assert row.code is code
    assert row.done != "dropped"


@pytest.mark.parametrize("mode", ["hoist", "user"])
def test_instructions_that_leave_their_place_for_a_chat_upstream_are_not_reported_as_dropped(mode: str) -> None:
    (row,) = rows("messages", "chat", USER, LATE, knobs={"mid_system": mode})
    assert row.code in (LossCode.SYSTEM_MOVED, LossCode.SYSTEM_DEMOTED)
    assert row.done != "dropped"


@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_a_result_that_was_added_here_loses_no_flag_of_the_clients(upstream: str) -> None:
    history = [USER, stated(use("a"), use("b")), noted(result("a"), text("go on")), stated(text("x")), USER]
    assert [row[:2] for row in rows("messages", upstream, *history)] == [
        (LossCode.ORPHAN_REPAIRED, "messages[1].content[1]"),
    ]
    failed = [USER, stated(use("a")), noted(result("a", is_error=True))]
    assert [row[:2] for row in rows("messages", upstream, *failed)] == [
        (LossCode.IS_ERROR, "messages[2].content[0].is_error"),
    ]


@pytest.mark.parametrize("upstream", ["chat", "responses"])
@pytest.mark.parametrize(
    ("block", "inner"),
    [
        ({**FOUND, "content": [text("b", cache_control=MARK)]}, "content[0]"),
        (
            {"type": "document", "source": {"type": "content", "content": [text("b", cache_control=MARK)]}},
            "source.content[0]",
        ),
    ],
    ids=["search result", "document"],
)
def test_marks_within_a_block_are_reported_once_for_each_openai_upstream(
    upstream: str, block: Json, inner: str
) -> None:
    reported_of = [row for row in rows("messages", upstream, noted(block)) if row.code is LossCode.CACHE_HINT]
    assert [row.path for row in reported_of] == [f"messages[0].content[0].{inner}"]


@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_a_blank_stop_sequence_is_not_sent_and_named_by_its_place(upstream: str) -> None:
    body = {"model": "m", "max_tokens": 99, "messages": [USER], "stop_sequences": ["END", "", " \n"]}
    made = translate(direction("messages", upstream), json.dumps(body).encode())
    assert [row[:2] for row in made.losses.rows] == [
        (LossCode.STOP_DROPPED, "stop_sequences[1]"),
        (LossCode.STOP_DROPPED, "stop_sequences[2]"),
    ]
    assert json.loads(made.body).get("stop", ["END"]) == ["END"]


@pytest.mark.parametrize(("client", "upstream"), [("chat", "messages"), ("chat", "responses"), ("responses", "chat")])
def test_an_end_user_may_hold_half_a_surrogate_pair(client: str, upstream: str) -> None:
    body: Json = {"model": "m", "safety_identifier": "\ud83d" * 80}
    body["input" if client == "responses" else "messages"] = [USER]
    sent = json.loads(translate(direction(client, upstream), json.dumps(body).encode()).body)
    user = sent["metadata"]["user_id"] if upstream == "messages" else sent["safety_identifier"]
    assert len(user) == 64


def test_arguments_may_hold_half_a_surrogate_pair_as_it_is() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x":"\ud83d","n":1.50}'}}
    history = [USER, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "r"}]
    body = json.dumps({"model": "m", "messages": history}).encode()
    sent = translate(direction("chat", "messages"), body).body
    assert json.loads(sent)["messages"][1]["content"][0]["input"] == {"x": "\ud83d", "n": 1.5}


@pytest.mark.parametrize("streamed", [True, False])
def test_a_chat_client_learns_which_count_is_none_of_the_upstreams(streamed: bool) -> None:
    usage = {"output_tokens": 7}
    body = {
        "model": "m",
        "max_tokens": 99,
        "messages": [USER],
        "stream": streamed,
        "stream_options": {"include_usage": True},
    }
    made = translate(direction("chat", "messages"), json.dumps(body).encode())
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": "c", "content": [text("Hi")]}
    if streamed:
        frames: list[Json] = [
            {"type": "message_start", "message": {**reply, "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": text("Hi")},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
            {"type": "message_stop"},
        ]
        machine = made.stream_machine()
        assert machine.feed(b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames))
    else:
        assert made.reply(json.dumps({**reply, "stop_reason": "end_turn", "usage": usage}).encode())
    assert made.losses.rows == [Loss(LossCode.USAGE_ESTIMATED, "usage", "a count that the upstream did not give is 0")]

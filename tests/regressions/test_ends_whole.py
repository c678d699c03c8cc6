"""Parts that whole replies of compatible servers leave out or write otherwise, and replies that were cut."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import DragomanError, LossCode
from dragoman.canonical.events import Usage
from regressions.repaired import CALL_ID, FIXED, REPAIRED, replied, rows
from regressions.wire import CHAT, MESSAGES, chat_reply, messages_reply, start_call
from support import responses_frames as emitted
from support.directions import Json

RESPONSES = "responses"
clients = pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
HALF = start_call(0, "call_b", "write", '{"f":"a", "te')
WHOLE = start_call(0, "call_a", "read", '{"f":"a"}')


def use(call_id: Any = "call_a", given: Any = None) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {"f": "a"} if given is None else given}


def called(client: str, got: Json) -> list[tuple[str, str]]:
    """Id and name of each call."""
    if client == CHAT:
        return [(call["id"], call["function"]["name"]) for call in got["choices"][0]["message"]["tool_calls"]]
    if client == MESSAGES:
        return [(part["id"], part["name"]) for part in got["content"] if part["type"] == "tool_use"]
    return [(item["call_id"], item["name"]) for item in got["output"] if item["type"] == "function_call"]


# --- cut inside a call ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_T22_a_messages_client_gets_what_was_stated_before_a_call_that_was_cut(reason: str) -> None:
    """The truncated answer is neither a clean one nor an error (ollama/ollama#18332): as in a stream, text and whole
    calls are there, the reason reports the cut, and half a call is left out."""
    body = chat_reply(reason, content="Let me write.", tool_calls=[WHOLE, HALF])
    got, translation = replied(MESSAGES, CHAT, body)
    assert got["stop_reason"] == {"length": "max_tokens", "content_filter": "refusal"}[reason]
    assert [part["type"] for part in got["content"]] == ["text", "tool_use"]
    assert got["content"][1]["input"] == {"f": "a"}
    assert rows(translation, LossCode.CALL_CUT) == ["left out: the reply was cut inside its arguments"]


@pytest.mark.parametrize("given", ["", '{"f"'])
def test_T22_a_cut_call_of_a_responses_upstream_is_left_out_too(given: str) -> None:
    """Likewise for an incomplete response (ollama/ollama#18332)."""
    half = emitted.call("call_b", "write", given, status="incomplete")
    body = emitted.response("incomplete", [emitted.call(), half], incomplete_details={"reason": "max_output_tokens"})
    got, translation = replied(MESSAGES, RESPONSES, body)
    assert (got["stop_reason"], called(MESSAGES, got)) == ("max_tokens", [("call_a", "f")])
    assert len(rows(translation, LossCode.CALL_CUT)) == 1


def test_T22_half_a_call_in_a_reply_that_was_not_cut_stays_an_error() -> None:
    """A guessed repair would run a real tool (mapping §6.3; BerriAI/litellm#20347)."""
    with pytest.raises(DragomanError, match="not JSON"):
        replied(MESSAGES, CHAT, chat_reply("tool_calls", tool_calls=[HALF]))


def test_T22_a_responses_client_learns_that_a_cut_call_without_arguments_is_incomplete() -> None:
    """No arguments at all, and the cap was reached (ollama/ollama#18332): that is no call of nothing."""
    got, _ = replied(RESPONSES, CHAT, chat_reply("length", tool_calls=[start_call(0, "call_a", "read", "")]))
    assert [(item["status"], item["arguments"]) for item in got["output"]] == [("incomplete", "")]


# --- repairs ----------------------------------------------------------------------------------------------------------


@clients
@pytest.mark.parametrize(
    ("fields", "finish", "done"),
    [
        ({"tool_calls": [WHOLE]}, "stop", [(FIXED, "stop after a call became tool_calls")]),
        ({"tool_calls": [WHOLE]}, "tool_use", [(REPAIRED, "read 'tool_use' as 'tool_calls'")]),
        (
            {"tool_calls": [WHOLE | {"function": {"name": "read", "arguments": {"f": "a"}}}]},
            "tool_calls",
            [(REPAIRED, "arguments were an object instead of text")],
        ),
        (
            {"function_call": {"name": "read", "arguments": '{"f":"a"}'}},
            "function_call",
            [(REPAIRED, "a legacy function_call was read as a tool call"), (CALL_ID, "a call without an id")],
        ),
        ({"tool_calls": [WHOLE, WHOLE]}, "tool_calls", [(CALL_ID, "a call with the id of another")]),
        ({"tool_calls": [WHOLE | {"id": ""}]}, "tool_calls", [(CALL_ID, "a call without an id")]),
    ],
)
def test_T17_calls_of_chat_servers(client: str, fields: Json, finish: str, done: list[tuple[LossCode, str]]) -> None:
    """Ids that are missing or twice are refused in the next request (microsoft/agent-framework-go#784)."""
    got, translation = replied(client, CHAT, chat_reply(finish, **fields))
    ids = [call_id for call_id, _ in called(client, got)]
    assert len(ids) == len(set(ids)) == len(fields.get("tool_calls", "f"))
    assert all(ids)
    assert [(row.code, row.done) for row in translation.losses.rows] == done


@pytest.mark.parametrize("word", ["error", "abort", "network_error"])
def test_T22_a_reason_that_means_a_failure_is_an_error(word: str) -> None:
    """Errors that end as a success (BerriAI/litellm#20347)."""
    with pytest.raises(DragomanError, match=word) as caught:
        replied(MESSAGES, CHAT, chat_reply(word, content="Hi"))
    assert caught.value.failure.status == 502


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
@pytest.mark.parametrize(
    ("blocks", "reason", "done"),
    [
        ([use(), use()], "tool_use", [(CALL_ID, "a call with the id of another")]),
        ([use(None)], "tool_use", [(CALL_ID, "a call without an id")]),
        ([use(given='{"f":"a"}')], "tool_use", [(REPAIRED, "arguments were text instead of an object")]),
        ([use()], "end_turn", [(FIXED, "end_turn after a call became tool_use")]),
        ([use()], "tool_calls", [(REPAIRED, "read 'tool_calls' as 'tool_use'")]),
    ],
)
def test_T17_calls_of_messages_servers(client: str, blocks: list[Json], reason: str, done: list[Any]) -> None:
    """Likewise for servers that use Messages (microsoft/agent-framework-go#784)."""
    got, translation = replied(client, MESSAGES, messages_reply(reason, *blocks))
    ids = [call_id for call_id, _ in called(client, got)]
    assert len(ids) == len(set(ids)) == len(blocks)
    assert all(ids)
    assert [(row.code, row.done) for row in translation.losses.rows] == done


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
def test_T17_calls_of_responses_servers(client: str) -> None:
    """Likewise for servers that use Responses (microsoft/agent-framework-go#784)."""
    items = [emitted.call(), emitted.call(), emitted.call("", arguments={"a": 1})]
    got, translation = replied(client, RESPONSES, emitted.response("completed", items, usage=emitted.USAGE))
    ids = [call_id for call_id, _ in called(client, got)]
    assert len(set(ids)) == 3
    assert rows(translation) == [
        "a call with the id of another",
        "a call without an id",
        "arguments were an object instead of text",
    ]


# --- token counts of what passes through ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (CHAT, chat_reply(content="Hi")),
        (MESSAGES, messages_reply("end_turn", {"type": "text", "text": "Hi"})),
        (
            RESPONSES,
            emitted.response("completed", [], usage={"input_tokens": 9, "output_tokens": 3}, object="response"),
        ),
    ],
)
def test_T31_the_counts_of_a_whole_reply_that_passes_through_are_known(dialect: str, body: Json) -> None:
    """Counts that no one sees (future-agi/future-agi#1122): the receipt had none."""
    got, translation = replied(dialect, dialect, body)
    assert got == body
    assert translation.context.usage == Usage(9, None, None, 3, None)
    _, translation = replied(dialect, dialect, {**body, "usage": None})
    assert translation.context.usage is None

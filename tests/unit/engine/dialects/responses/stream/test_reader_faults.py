"""Responses streams that break their grammar, fail, or are too large: an `Error` after what came before, never less."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from dragoman import Limits
from dragoman.canonical.events import BlockStart, Delta, Error, Start
from dragoman.dialects.responses.stream.reader import ResponsesReader as Reader
from dragoman.errors import FailureKind
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame
from support import canonical
from support.mutations import mutated_json
from support.responses_frames import (
    Json,
    added,
    at,
    call,
    closes,
    created,
    cut,
    done,
    ended,
    message,
    opens,
    read,
    reasoned,
    refusal_part,
    response,
    text_part,
    writes,
)

HEL = (created(), *opens(0), *writes(0, "Hel"))
RECEIVED = [Start("resp_u", "m", None, 5), BlockStart(0, "text"), Delta(0, "Hel")]
CALL = added(1, **call(arguments=""))
PATCH: Json = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "x"}


def arguments(text: str, index: int = 1) -> Json:
    return at(index, "function_call_arguments.delta", delta=text)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([created()], "response.created twice"),
        (["{"], "not JSON"),
        (["[1]"], "not a JSON object"),
        ([added(0, **message(id="msg_b"))], "started item 0 twice"),
        ([at(0, "content_part.added", part=text_part())], "started part 0 of item 0 twice"),
        ([*closes(0, "Hel"), done(0, **message(id="msg_b"))], "ended item 0 twice"),
        ([*closes(0, "Hel")[:2], at(0, "content_part.done", part=text_part())], "ended part 0 of item 0 twice"),
        ([*closes(0, "Hel")[:2], *writes(0, "lo")], "a part that is closed"),
        ([*closes(0, "Hel"), *writes(0, "lo")], "which is closed"),
        ([at(0, "refusal.delta", delta="No")], "for a text part"),
        ([at(0, "content_part.done", part=refusal_part("No"))], "as one of type 'refusal'"),
        ([at(0, "output_text.delta", delta=5)], "delta is an integer"),
        (
            [CALL, added(2, **call()), {"type": "response.function_call_arguments.delta", "delta": "x"}],
            "without an output_index",
        ),
        ([{"type": "response.output_item.added", "output_index": 1, "item": "x"}], "item is a string"),
        ([at(0, "reasoning_text.delta", delta="x")], "which is a message"),
        ([*closes(0, "Hel"), arguments("{}"), ended()], "function_call item 1 still open"),
        ([arguments("{}", 0)], "which is a message"),
        ([CALL, *writes(1, "x")], "which is a function_call"),
        ([CALL, at(1, "custom_tool_call_input.delta", delta="x")], "which is a function_call"),
        ([CALL, done(1, **call()), arguments("x")], "which is closed"),
        ([CALL, done(1, **reasoned())], "ended the function_call item 1 as a reasoning"),
        ([CALL, done(1, **call(name="g"))], "renamed the tool call 'f' to 'g'"),
        ([CALL, arguments('{"a":1}'), done(1, **call(arguments='{"b":1}'))], "other input than it streamed"),
        ([CALL, done(1, **call(arguments=["x"]))], "neither text nor an object"),
        ([added(1, **message() | {"role": "user"})], "spoke as 'user'"),
        ([{"type": "response.completed"}], "response.completed without its response"),
        ([ended("x")], "an item that is not an object"),  # type: ignore[arg-type]
        ([*closes(0, "Hel"), CALL, ended()], "function_call item 1 still open"),
        ([*closes(0, "Hel"), added(1, **call(name="")), cut("max_output_tokens")], "without a name"),
    ],
)
def test_T02_T03_T12_T13_breaches(events: list[Any], words: str) -> None:
    *received, error = read(*HEL, *events)
    assert received[:3] == RECEIVED
    assert isinstance(error, Error)
    assert words in error.failure.message
    assert (error.failure.kind, error.failure.status) == (FailureKind.API, 502)


@pytest.mark.parametrize("given_arguments", ['{"a":', "[1]", '"x"', "nonsense"])
def test_arguments_that_are_no_object_never_end_well(given_arguments: str) -> None:
    *_, error = read(created(), done(0, **call(arguments=given_arguments)), ended())
    assert isinstance(error, Error)
    assert "'f'" in error.failure.message


@pytest.mark.parametrize("item", [call(), PATCH])
def test_T22_a_call_that_is_incomplete_in_a_completed_reply_is_an_error(item: Json) -> None:
    *_, error = read(created(), done(0, **item | {"status": "incomplete"}), ended())
    assert isinstance(error, Error)
    assert "is incomplete" in error.failure.message


@pytest.mark.parametrize(
    "kind", ["shell_call", "local_shell_call", "apply_patch_call", "computer_call", "mcp_approval_request"]
)
def test_what_the_client_did_not_declare_and_could_not_answer_is_an_error(kind: str) -> None:
    for event in (added(0, type=kind, id="x"), done(0, type=kind, id="x"), ended({"type": kind, "id": "x"})):
        *_, error = read(created(), event)
        assert isinstance(error, Error)
        assert kind in error.failure.message


ERROR: Json = {"type": "server_error", "code": "server_is_overloaded", "message": "Busy", "param": None}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "sequence_number": 3, "error": ERROR},
        {"type": "error", "sequence_number": 3, "code": "server_is_overloaded", "message": "Busy", "param": None},
        {"error": ERROR},
        {"type": "response.failed", "response": response("failed", error=ERROR)},
        {"type": "response.failed", "error": ERROR},
        {"type": "response.done", "response": response("failed", error=ERROR)},
        {"type": "response.completed", "response": response("failed", error=ERROR)},
        {"type": "response.completed", "response": response("completed", error=ERROR)},
    ],
)
def test_T22_every_form_of_an_error(event: Json) -> None:
    *received, error = read(*HEL, event, ended())
    assert received == RECEIVED
    assert isinstance(error, Error)
    assert (error.failure.kind, error.failure.message) == (FailureKind.OVERLOADED, "Busy")


def test_an_error_before_everything_stands_alone() -> None:
    assert [type(event) for event in read({"type": "error", "error": ERROR})] == [Error]
    assert [type(event) for event in read({"type": "response.failed", "response": response(error=ERROR)})] == [Error]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.cancelled", "response": response("cancelled")},
        {"type": "response.done", "response": response("cancelled")},
        {"type": "response.completed", "response": response("cancelled")},
        {"type": "response.failed", "response": response("failed", error=None)},
        {"type": "response.done", "response": response("in_progress")},
    ],
)
def test_T22_whatever_did_not_complete_is_an_error_and_never_a_finish(event: Json) -> None:
    *received, error = read(*HEL, event)
    assert received == RECEIVED
    assert isinstance(error, Error)
    assert error.failure.message


def test_nothing_is_read_behind_the_end() -> None:
    whole = read(created(), ended())
    assert read(created(), ended(), created(), "{", {"type": "error", "error": ERROR}) == whole


@pytest.mark.parametrize(
    ("limits", "events", "name"),
    [
        (Limits(tool_arguments=3), [CALL, arguments('{"a":1}')], "tool_arguments"),
        (Limits(tool_arguments=3), [done(0, **PATCH | {"input": "long"})], "tool_arguments"),
        (Limits(blocks=2), [*opens(0), *opens(1), *opens(2)], "blocks"),
        (Limits(blocks=2), [added(n, type="novelty") for n in range(9)], "blocks"),
        (Limits(blocks=2), [at(0, "content_part.added", n, part={"type": "x"}) for n in range(9)], "blocks"),
    ],
)
def test_every_buffer_has_a_limit(limits: Limits, events: list[Json], name: str) -> None:
    *_, error = read(created(), *events, context=ReplyContext("m", limits=limits), finish=False)
    assert isinstance(error, Error)
    assert name in error.failure.message


def test_a_summary_that_skips_a_million_parts_is_refused() -> None:
    first = {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "x"}
    *_, error = read(created(), first, first | {"summary_index": 10**6})
    assert isinstance(error, Error)
    assert "blocks" in error.failure.message


STREAM: list[Json] = [
    created(),
    added(0, **reasoned()),
    at(0, "reasoning_text.delta", delta="Deep"),
    {"type": "response.reasoning_summary_part.done", "output_index": 0, "summary_index": 0, "part": {"text": "x"}},
    done(0, **reasoned("Deep", encrypted_content="E")),
    *opens(1),
    *writes(1, "Hello"),
    at(1, "output_text.annotation.added", annotation={"type": "url_citation", "url": "u"}),
    *closes(1, "Hello"),
    added(2, **call(arguments="")),
    arguments("{}", 2),
    at(2, "function_call_arguments.done", arguments="{}"),
    done(2, **call()),
    ended(reasoned("Deep"), message(text_part("Hello")), call(), {"type": "web_search_call"}),
]


@given(mutated_json(STREAM))
def test_no_value_anywhere_makes_the_reader_raise(events: list[Any]) -> None:
    context = ReplyContext("m", logprobs=True)
    reader = Reader(context)
    out = reader.feed([Frame("", json.dumps(event).encode()) for event in events])
    canonical.check(out + reader.finish())


def test_that_stream_ends_well_as_it_is() -> None:
    assert not any(isinstance(event, Error) for event in read(*STREAM))

"""Group C: an `error` of a Responses server, and items that it never ends, for a client of the same dialect."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from openai import omit
from openai._models import construct_type
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent

from dragoman import direction
from dragoman.errors import UpstreamTimeout
from dragoman.losses import LossCode
from regressions.dialect_bodies import RESPONSES
from regressions.wire import events_of
from support import responses_frames as emitted
from support.directions import Json, translated
from support.responses_samples import numbered

FLAT: Json = {"type": "error", "code": "server_is_overloaded", "message": "overloaded", "param": None}
NESTED: Json = {"type": "error", "error": {"type": "x", "code": "server_is_overloaded", "message": "overloaded"}}
HELLO = emitted.message(emitted.text_part("Hello"))
CALL = emitted.call(arguments='{"f":"a"}')
REASONING = emitted.reasoned("Hm")
ERRORS = pytest.mark.parametrize("error", [FLAT, NESTED], ids=["flat", "nested"])


def play(*events: Json, more: bytes = b"", size: int = 0, cut: int = 0) -> tuple[list[Json], Any]:
    """The client's events, and the machine. `cut` bytes are missing at the end of the upstream's stream."""
    stream = b"".join(numbered(*events)) + more
    stream = stream[: len(stream) - cut]
    machine = translated(direction(RESPONSES, RESPONSES)).stream_machine()
    out = b""
    for at in range(0, len(stream), size or len(stream)):
        out += machine.feed(stream[at : at + (size or len(stream))])
        if machine.done:
            break
    out += machine.finish()
    assert out.endswith(b"\n\n")
    return events_of(out), machine


def accumulate(events: list[Json]) -> Any:
    """The state of the official SDK after these events."""
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events:
        state.handle_event(cast("Any", construct_type(value=event, type_=ResponseStreamEvent)))
    return state


# --- errors -----------------------------------------------------------------------------------------------------------

BEFORE = [emitted.created(), *emitted.opens(0), *emitted.writes(0, "Hel", "lo")]


@ERRORS
@pytest.mark.parametrize(
    ("more", "cut"), [(b"", 0), (b"", 1), (b"", 2), (b"data: [DONE]\n\n", 0), (b": bye\n\n", 0)],
    ids=["end", "one line end", "no line end", "done", "comment"],
)  # fmt: skip
@pytest.mark.parametrize("size", [0, 1, 9])
def test_T22_a_failed_response_follows_an_error(error: Json, more: bytes, cut: int, size: int) -> None:
    """Codex knows no `error` event: it lost the reason, and tried again."""
    events, machine = play(*BEFORE, emitted.done(0, **HELLO), error, more=more, size=size, cut=cut)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-2] == {**error, "sequence_number": len(events) - 2}
    last = events[-1]
    assert last["type"] == "response.failed"
    assert (last["response"]["id"], last["response"]["status"]) == ("resp_u", "failed")
    assert last["response"]["error"]["message"] == "overloaded"
    assert last["response"]["output"] == [HELLO]
    assert machine.failure.message == "overloaded"
    accumulate([event for event in events if event["type"] != "error"])


@ERRORS
def test_T22_a_server_that_sends_the_failed_response_itself_is_forwarded(error: Json) -> None:
    """The response must not fail twice."""
    failed = {
        "type": "response.failed",
        "response": emitted.response("failed", error={"code": "x", "message": "again"}),
    }
    events, _ = play(*BEFORE, error, failed)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1]["response"] == failed["response"]


@ERRORS
def test_T22_a_silence_after_an_error_ends_with_its_reason(error: Json) -> None:
    """The timeout must not hide the reason."""
    machine = translated(direction(RESPONSES, RESPONSES)).stream_machine()
    machine.feed(b"".join(numbered(*BEFORE, error)))
    (last,) = events_of(machine.fail(UpstreamTimeout("idle", 1.0).failure))
    assert last["response"]["error"]["message"] == "overloaded"
    assert machine.failure is not None
    assert machine.failure.message == "overloaded"


def test_T23_done_before_the_terminal_event_is_not_forwarded() -> None:
    """The SDKs read nothing after it, so they would not see the error."""
    for size in (0, 1, 5):
        machine = translated(direction(RESPONSES, RESPONSES)).stream_machine()
        stream = b"".join(numbered(*BEFORE)) + b"data: [DONE]\n\n" * 3
        out = b"".join(machine.feed(stream[at : at + (size or 10**6)]) for at in range(0, len(stream), size or 10**6))
        out += machine.finish()
        assert b"[DONE]" not in out
        assert events_of(out)[-1]["type"] == "response.failed"


def test_T23_a_secret_in_an_error_is_masked_in_both_events() -> None:
    """The second event must not show what is masked in the first."""
    key = "sk-" + "a1" * 20
    error = {"type": "error", "error": {"code": "server_error", "message": f"bad {key}"}}
    events, _ = play(*BEFORE, error)
    assert key not in json.dumps(events)
    assert events[-1]["response"]["error"]["message"].startswith("bad ")


# --- items that are never done ----------------------------------------------------------------------------------------


def unended(*items: Json) -> list[Json]:
    """A stream as SGLang's router sends one: items are added, and never done."""
    events: list[Json] = [emitted.created()]
    for index, item in enumerate(items):
        begun = {**item, "status": "in_progress"}
        if item["type"] == "message":
            events += [*emitted.opens(index), *emitted.writes(index, "Hel", "lo")]
        elif item["type"] == "function_call":
            events += [
                emitted.added(index, **{**begun, "arguments": ""}),
                emitted.at(index, "function_call_arguments.delta", delta=item["arguments"]),
            ]
        else:
            events.append(emitted.added(index, **begun))
    return [*events, emitted.ended(*items)]


@pytest.mark.parametrize(
    "items", [[HELLO], [CALL], [HELLO, CALL], [REASONING, HELLO, CALL, emitted.call("call_b")]],
    ids=["text", "call", "text and call", "all"],
)  # fmt: skip
@pytest.mark.parametrize("size", [0, 1, 11])
def test_T20_items_that_are_never_done_are_ended(items: list[Json], size: int) -> None:
    """A complete reply failed, as no item was done."""
    events, machine = play(*unended(*items), size=size)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = [(event["output_index"], event["item"]) for event in events if event["type"] == "response.output_item.done"]
    assert done == list(enumerate(items))
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"] == emitted.ended(*items)["response"]
    assert machine.failure is None
    assert machine._context.losses.counts[LossCode.REPLY_REPAIRED] == 1
    final = accumulate(events)._completed_response
    assert [item.type for item in final.output] == [item["type"] for item in items]


@pytest.mark.parametrize("item", [HELLO, CALL, REASONING])
def test_T20_an_item_of_the_last_event_only_is_announced_too(item: Json) -> None:
    """A turn of Codex ended silently, without a text or call."""
    events, _ = play(emitted.created(), emitted.ended(item))
    assert [event["type"] for event in events[1:]] == [
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3]
    assert events[2]["item"] == item
    accumulate(events)


def test_T20_only_what_was_not_done_is_inserted() -> None:
    """An item that is done twice would be run twice."""
    whole = [*emitted.opens(0), *emitted.writes(0, "Hello"), *emitted.closes(0, "Hello")]
    begun = emitted.added(1, **{**CALL, "status": "in_progress", "arguments": ""})
    events, _ = play(emitted.created(), *whole, begun, emitted.ended(HELLO, CALL))
    assert [event["type"] for event in events].count("response.output_item.done") == 2
    assert (events[-2]["output_index"], events[-2]["item"]) == (1, CALL)


def test_a_stream_whose_items_are_done_is_forwarded_byte_for_byte() -> None:
    hosted = {"type": "mcp_list_tools", "id": "mcpl", "server_label": "s", "tools": []}
    for last in ([HELLO], [HELLO, hosted]):
        stream = b"".join(
            numbered(
                emitted.created(),
                *emitted.opens(0),
                *emitted.writes(0, "Hello"),
                *emitted.closes(0, "Hello"),
                emitted.ended(*last),
            )
        )
        machine = translated(direction(RESPONSES, RESPONSES)).stream_machine()
        assert machine.feed(stream) + machine.finish() == stream


@pytest.mark.parametrize(
    "last",
    [[], [emitted.call(status="incomplete")], [HELLO], [{**CALL, "type": "custom_tool_call", "input": "x"}]],
    ids=["no item", "cut", "another item", "another type"],
)
def test_T23_a_call_that_is_not_known_to_be_whole_is_still_an_error(last: list[Json]) -> None:
    """A call that was cut would be run."""
    begun = emitted.added(0, **{**CALL, "status": "in_progress", "arguments": ""})
    events, machine = play(emitted.created(), begun, emitted.ended(*last))
    assert events[-1]["type"] == "response.failed"
    assert machine.failure.code == "stream_truncated"
    assert not [event for event in events if event["type"] == "response.output_item.done"]


@pytest.mark.parametrize("output", [b"[]", b"[ ]", b"null", None])
@pytest.mark.parametrize("end", ["completed", "incomplete"])
@pytest.mark.parametrize("size", [0, 1, 11])
def test_T20_a_last_event_without_the_items_gets_them(output: bytes | None, end: str, size: int) -> None:
    """ChatGPT's backend and some gateways send `output: []`: the SDK returned an empty response; no call was run."""
    whole = [*emitted.opens(1), *emitted.writes(1, "Hello"), *emitted.closes(1, "Hello")]
    begun = emitted.added(0, **{**CALL, "status": "in_progress", "arguments": ""})
    last = emitted.ended() if end == "completed" else emitted.cut("max_output_tokens")
    arguments = emitted.at(0, "function_call_arguments.delta", delta=CALL["arguments"])
    frames = numbered(emitted.created(), begun, arguments, *whole, emitted.done(0, **CALL), last)
    assert b'"output": []' in frames[-1]
    there = b'"output": ' + output if output is not None else b'"x": 1e2'
    frames[-1] = frames[-1].replace(b'"output": []', there)
    stream = b"".join(frames)
    machine = translated(direction(RESPONSES, RESPONSES)).stream_machine()
    out = b"".join(machine.feed(stream[at : at + (size or len(stream))]) for at in range(0, len(stream), size or 10**6))
    out += machine.finish()
    assert out.startswith(b"".join(frames[:-1]))
    assert output is not None or b'"x": 1e2' in out
    assert machine.failure is None
    events = events_of(out)
    assert events[-1]["response"]["output"] == [CALL, HELLO]
    final = accumulate(events)._completed_response
    assert end == "incomplete" or [item.type for item in final.output] == ["function_call", "message"]
    assert [loss.done for loss in machine._context.losses.rows] == ["the last event had none of the items"]


def test_a_response_without_items_stays_empty() -> None:
    events, machine = play(emitted.created(), emitted.ended())
    assert events[-1]["response"]["output"] == []
    assert not machine._context.losses.rows


def test_numbers_of_the_last_event_keep_their_text() -> None:
    frames = numbered(*unended(HELLO))
    frames[-1] = frames[-1].replace(b'"sequence_number"', b'"x":1e2,"sequence_number"')
    machine = translated(direction(RESPONSES, RESPONSES)).stream_machine()
    assert b'"x":1e2,' in machine.feed(b"".join(frames))


def test_an_item_that_was_done_under_another_index_is_not_sent_again() -> None:
    """A call would be run twice."""
    events, _ = play(
        emitted.created(),
        emitted.added(3, **CALL),
        emitted.done(3, **CALL),
        emitted.ended(REASONING | {"id": "rs_b"}, CALL),
    )
    assert sum(event.get("item") == CALL for event in events if event["type"] == "response.output_item.done") == 1

"""The observer of a Responses stream that is passed through, and the error frame that ends one."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given

from dragoman.canonical.events import Usage
from dragoman.dialects.responses.stream.observer import ResponsesObserver as Observer
from dragoman.errors import FailureKind, StreamTruncated
from dragoman.reply_context import ReplyContext
from dragoman.stages.passthrough import Passthrough
from dragoman.wire.json_edit import JsonStringRewriter
from dragoman.wire.sse import Frame, encode, encode_frames
from dragoman.wire.sse_parser import Parser
from oracles.grammar import responses
from oracles.grammar.responses import check_response
from support.mutations import mutated_json
from support.paths import TRANSCRIPTS
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
    frames,
    message,
    opens,
    response,
    text_part,
    writes,
)

RECORDED = TRANSCRIPTS / "responses"
COUNTS = Usage(12, 4, 0, 7, 0)
HELLO = message(text_part("Hello"))
FAILURE = StreamTruncated().failure


def numbered(*events: Json, first: int = 0) -> list[Json]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events, first)]


WHOLE = numbered(created(), *opens(0), *writes(0, "Hel", "lo"), *closes(0, "Hello"), ended(HELLO))


def watch(*events: Json | str, named: bool = True) -> Observer:
    observer = Observer()
    for frame in frames(*events):
        assert frame.data is not None
        observer.observe(frame.data, frame.event if named else "")
    return observer


@pytest.mark.parametrize("first", [created(), {**created(), "type": "response.queued"}], ids=["created", "queued"])
def test_the_id_of_the_response_is_known_from_the_first_snapshot_on(first: Json) -> None:
    assert watch().response_id() is None
    assert watch(first).response_id() == created()["response"]["id"]
    assert watch(*WHOLE).response_id() == created()["response"]["id"]
    assert watch({"type": "response.created", "response": {"id": 7}}).response_id() is None


def test_the_tier_is_known_from_the_first_snapshot_on_if_it_states_one() -> None:
    first = created()
    observer = watch({**first, "response": {**first["response"], "service_tier": "flex"}})
    assert observer.service is not None
    assert observer.service.tier == "flex"
    assert watch({**first, "response": {**first["response"], "service_tier": "auto"}}).service is None


def failed(observer: Observer, request_id: str | None = None) -> Json:
    payload = json.loads(observer.error_frame(FAILURE, request_id).data or b"")
    assert isinstance(payload, dict)
    return payload


@pytest.mark.parametrize("named", [True, False])
def test_a_whole_stream_is_complete_closed_counted_and_without_a_violation(named: bool) -> None:
    observer = watch(*WHOLE, named=named)
    assert (observer.complete, observer.closed, observer.failure, observer.violations) == (True, True, None, [])
    assert observer.usage == COUNTS


def test_T25_the_alias_and_a_cut_by_the_cap_are_complete_too() -> None:
    for terminal in ({**ended(), "type": "response.done"}, cut("max_output_tokens")):
        observer = watch(*numbered(created(), terminal))
        assert (observer.complete, observer.closed, observer.usage) == (True, True, COUNTS)


@pytest.mark.parametrize(
    "terminal",
    [
        {"type": "response.failed", "response": response("failed", error={"code": "slow_down", "message": "no"})},
        {"type": "response.done", "response": response("failed", error={"code": "slow_down", "message": "no"})},
    ],
)
def test_T22_a_failed_response_closes_without_completing(terminal: Json) -> None:
    observer = watch(*numbered(created(), terminal))
    assert (observer.complete, observer.closed) == (False, True)
    assert observer.failure is not None
    assert observer.failure.kind is FailureKind.OVERLOADED


@pytest.mark.parametrize("error", [{"code": "server_error", "message": "x"}, {"error": {"message": "x"}}])
def test_T22_an_error_event_waits_for_the_terminal_that_agents_read(error: Json) -> None:
    terminal = {"type": "response.failed", "response": response("failed", error={"message": "said again"})}
    events = numbered(created(), {"type": "error", **error}, terminal)
    observer = watch(*events[:2])
    assert (observer.closed, observer.failure is not None, observer.violations) == (False, True, [])
    data = encode_frames(frames(*events))
    stage = Passthrough(Observer(), ReplyContext("m"))
    assert stage.feed(data) + stage.finish() == data


def test_T22_repairs_go_on_after_an_error_event() -> None:
    """Else an event after a repeated item is left out, or gets the member of another event."""
    item = call("call_a", "read", '{"f":"a"}')
    doubled = {**item, "arguments": '"{\\"f\\":\\"a\\"}"'}
    error = {"type": "error", "code": "server_error", "message": "x"}
    start, end = added(0, **{**item, "arguments": "", "status": "in_progress"}), ended(item)
    events = numbered(created(), start, error, done(0, **doubled), done(0, **item), end)
    stage = Passthrough(Observer(), ReplyContext("m"))
    sent = stage.feed(encode_frames(frames(*events))) + stage.finish()
    passed = [json.loads(frame.data or b"") for frame in Parser().parse(sent)]
    assert [event["sequence_number"] for event in passed] == list(range(len(passed)))
    assert [event["type"] for event in passed if event["type"].endswith(("error", "completed"))] == [
        "error",
        "response.completed",
    ]
    assert passed[-1]["response"]["output"] == [item]
    assert [event["item"] for event in passed if event["type"] == "response.output_item.done"] == [item]


def test_T23_a_cut_stream_is_neither_complete_nor_closed() -> None:
    observer = watch(*WHOLE[:-1])
    assert (observer.complete, observer.closed, observer.failure, observer.violations) == (False, False, None, [])


def test_T24_unknown_and_hosted_events_are_no_breach() -> None:
    events = numbered(
        created(),
        added(0, type="novelty", id="n"),
        at(0, "novelty.searching"),
        done(0, type="novelty", id="n"),
        at(7, "web_search_call.in_progress"),
        {"type": "codex.rate_limits"},
        ended(),
    )
    assert watch(*events).violations == []


@pytest.mark.parametrize(
    ("events", "violation"),
    [
        (numbered(added(0, **HELLO)), "response.output_item.added before response.created"),
        (numbered(created(), created()), "response.created twice"),
        (numbered(created(), *writes(0, "x")), "response.output_text.delta of an item that is not open"),
        (numbered(created(), done(0)), "response.output_item.done of an item that is not open"),
        (numbered(created(), added(0), added(0)), "an item added twice"),
        (numbered(created(), added(0, **call()), ended()), "completed with a call that is not done"),
        (numbered(created(), {"type": "response.completed"}), "a terminal event without its response"),
        ([*numbered(created()), *numbered(ended(), first=2)], "sequence_number 2 after 0"),
        ([*numbered(created()), "[DONE]"], "[DONE] before the terminal event"),
        ([*numbered(created()), "{"], "a frame that is not JSON"),
        ([*numbered(created()), '{"x":1}'], "an event without a type"),
    ],
)
def test_T13_breaches_are_noted(events: list[Json | str], violation: str) -> None:
    assert watch(*events).violations == [violation]


def test_an_event_line_that_disagrees_is_noted_and_a_done_mark_behind_the_end_is_not() -> None:
    observer = Observer()
    observer.observe(json.dumps(numbered(created())[0]).encode(), "ping")
    assert observer.violations == ["event line 'ping' with type 'response.created'"]
    assert watch(*WHOLE, "[DONE]").violations == []


@pytest.mark.parametrize("kind", [[], {}, None, 7, "message", "mcp_list_tools"])
def test_an_item_of_any_type_is_observed_and_only_a_call_has_to_be_done(kind: Any) -> None:
    observer = watch(*numbered(created(), added(0, type=kind), ended()))
    assert not observer.tool_open
    assert (observer.complete, observer.fault, observer.violations) == (True, None, [])


def test_an_error_without_a_type_is_still_an_error() -> None:
    assert watch(*numbered(created()), '{"error":{"message":"boom"}}').failure is not None


# --- the error of our own ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["text", "two_tools", "thinking_text_tool"])
def test_T23_our_error_repeats_the_snapshot_and_goes_on_counting(case: str) -> None:
    data = (RECORDED / f"{case}.sse").read_bytes()
    observer, events = Observer(), []
    for frame in Parser().parse(data)[:-1]:
        assert frame.data is not None
        observer.observe(frame.data, frame.event)
        events.append(json.loads(frame.data))
    payload = failed(observer)
    first, last = events[0]["response"], payload["response"]
    assert payload["sequence_number"] == events[-1]["sequence_number"] + 1
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert last == first | {
        "status": "failed",
        "output": done,
        "error": {"code": "server_error", "message": FAILURE.message},
    }


def test_T23_a_cut_before_any_item_ends_in_the_grammar() -> None:
    data = encode_all((RECORDED / "text.sse").read_bytes(), 2)
    stage = Passthrough(Observer(), ReplyContext("m"))
    whole = responses.check(stage.feed(data) + stage.finish(), own=False)
    assert whole.error == {"code": "server_error", "message": FAILURE.message}


def encode_all(data: bytes, count: int) -> bytes:
    return b"".join(encode(frame) for frame in Parser().parse(data)[:count])


def test_with_nothing_seen_the_error_is_a_valid_snapshot_all_the_same() -> None:
    payload = failed(Observer(), "req_7")
    assert payload["sequence_number"] == 0
    snapshot = payload["response"]
    check_response(snapshot)
    assert (snapshot["id"], snapshot["status"], snapshot["output"]) == ("resp_req_7", "failed", [])


def test_our_error_names_the_model_as_the_client_knows_it() -> None:
    stage = Passthrough(
        Observer(), ReplyContext("m"), JsonStringRewriter("client's", ("response", "model"), ("model",))
    )
    stage.feed(encode_frames(frames(*WHOLE[:3])))
    last = json.loads(Parser().parse(stage.finish())[-1].data or b"")
    assert last["response"]["model"] == "client's"


def test_what_repeats_a_very_long_request_is_not_kept() -> None:
    long = created()
    long["response"] |= {"instructions": "x" * 10**6, "tools": [{"name": "y" * 10**6}], "truncation": "auto"}
    tracemalloc.start()
    observer = watch(long)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    snapshot = failed(observer)["response"]
    assert (snapshot["id"], snapshot["truncation"]) == ("resp_u", "auto")
    assert (snapshot["instructions"], snapshot["tools"]) == (None, [])
    del observer
    assert held < 3 * 10**6 + 300_000  # the event itself is ours


def test_few_items_are_kept_and_none_behind_one_that_is_left_out() -> None:
    observer = watch(*numbered(created()))
    text = "x" * 10**5
    tracemalloc.start()
    for number in range(20):
        for frame in frames(added(number, **HELLO), *writes(number, text), done(number, **message(text_part(text)))):
            assert frame.data is not None
            observer.observe(frame.data, frame.event)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 5 * 10**5
    observer.observe(json.dumps(done(20, **HELLO)).encode(), "")
    assert failed(observer)["response"]["output"] == [message(text_part(text))] * 2


@given(mutated_json(WHOLE))
def test_no_value_makes_it_raise(events: list[Any]) -> None:
    observer = Observer()
    for event in events:
        name = event.get("type") if isinstance(event, dict) else None
        observer.observe(json.dumps(event).encode(), name if isinstance(name, str) else "")
        failed(observer)


def test_completed_with_an_open_call_is_a_fault_in_its_place() -> None:
    events = numbered(created(), added(0, **call(arguments="")), ended())
    stage = Passthrough(Observer(), ReplyContext("m"))
    frames = [encode(Frame(event["type"], json.dumps(event).encode())) for event in events]
    out = stage.feed(b"".join(frames))
    assert out.startswith(b"".join(frames[:2]))
    last = json.loads(out[len(b"".join(frames[:2])) :].partition(b"data: ")[2])
    assert (last["type"], last["sequence_number"]) == ("response.failed", 2)
    assert "not done" in last["response"]["error"]["message"]
    assert not stage.observer.complete
    assert stage.fault is not None
    assert stage.fault.code == "stream_truncated"


def test_an_incomplete_response_may_end_with_an_open_item() -> None:
    assert watch(*numbered(created(), added(0), cut("max_output_tokens"))).fault is None


def test_long_and_forged_names_stay_one_short_line() -> None:
    for name in ("response.x\nERROR forged", "response." + "x" * 200_000):
        events = numbered(created(), {"type": name, "output_index": 0}, {"type": "response.output_item.done"})
        observer = Observer()
        for event in events:
            observer.observe(json.dumps(event).encode(), "y\nz")
        assert observer.violations
        assert all(text.isprintable() and len(text) < 300 for text in observer.violations)


_BEGUN = '{"id":"resp_u","object":"response","output":[]}'


def _opening(name: str, number: int, response: str = _BEGUN, after: str = "") -> bytes:
    return f'{{"type":"response.{name}","sequence_number":{number},"response":{response}{after}}}'.encode()


@pytest.mark.parametrize("event", ["", "response.in_progress", "response.created"])
@pytest.mark.parametrize(
    "second",
    [
        _opening("in_progress", 1),
        _opening("in_progress", 2),
        _opening("in_progress", 1, '{"id":"resp_u"}'),
        _opening("in_progress", 1, after=',"x":{}'),
        _opening("created", 1),
        _opening("queued", 1),
        _opening("in_progress", 1)[:-1],
    ],
)
def test_an_event_that_repeats_the_first_response_is_observed_as_any_other(second: bytes, event: str) -> None:
    """With a space, no event counts as repeated."""
    seen = []
    for change in (b'"type"', b' "type"'):
        observer = Observer()
        for data, name in ((_opening("created", 0), "response.created"), (second, event)):
            observer.observe(data.replace(b'"type"', change), name)
        seen.append((observer.violations, observer.fault, observer.sole_text, observer.error_frame(FAILURE)))
    assert seen[0] == seen[1]

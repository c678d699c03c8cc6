"""Responses streams of servers that leave out, repeat or rename events (streams §9)."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    End,
    Event,
    Finish,
    Logprobs,
    Opaque,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from support.responses_frames import (
    Json,
    added,
    at,
    call,
    created,
    cut,
    done,
    ended,
    message,
    opens,
    read,
    refusal_part,
    response,
    says,
    text_part,
    thought,
)

HELLO = message(text_part("Hello"))
TEXT = [BlockStart(0, BlockKind.TEXT), Delta(0, "Hello"), BlockEnd(0)]
CALL = [BlockStart(0, BlockKind.TOOL, "call_a", "f"), Delta(0, '{"a":1}'), BlockEnd(0)]
WHOLE = call(arguments='{"a":1}')
BARE = WHOLE | {"arguments": ""}


def body(*events: Json, context: ReplyContext | None = None) -> list[Event]:
    """The events between the start and the finish, which must be a good one."""
    out = read(created(), *events, context=context)
    assert isinstance(out[0], Start)
    assert isinstance(out[-2], Finish), out
    assert isinstance(out[-1], End)
    return out[1:-2]


@pytest.mark.parametrize(
    "stream",
    [
        [*says(0, "Hello"), done(0, **HELLO), ended(HELLO)],
        [added(0, **message()), *says(0, "Hello"), at(0, "output_text.done", text="Hello"), ended()],
        [added(0, **message()), at(0, "output_text.done", text="Hello"), done(0, **message()), ended()],
        [added(0, **message()), at(0, "content_part.done", part=text_part("Hello")), ended()],
        [at(0, "content_part.added", part=text_part("Hello")), at(0, "content_part.done", part=text_part()), ended()],
        [*opens(0), *says(0, "Hello"), ended(HELLO)],
        [*opens(0), ended(HELLO)],
        [done(0, **HELLO), ended()],
        [ended(HELLO)],
    ],
)
def test_a_text_is_emitted_once_wherever_it_stands(stream: list[Json]) -> None:
    assert body(*stream) == TEXT


def test_what_the_deltas_left_out_is_added() -> None:
    received = body(*opens(0), *says(0, "Hel"), done(0, **HELLO), ended(HELLO))
    assert received == [BlockStart(0, BlockKind.TEXT), Delta(0, "Hel"), Delta(0, "lo"), BlockEnd(0)]


def test_a_text_that_was_changed_behind_its_deltas_stays_as_it_was_shown() -> None:
    context = ReplyContext("m")
    received = body(*opens(0), *says(0, "Hex"), done(0, **HELLO), ended(), context=context)
    assert received == [BlockStart(0, BlockKind.TEXT), Delta(0, "Hex"), BlockEnd(0)]
    assert context.losses.counts == {LossCode.UNKNOWN_EVENT: 1}


def test_T71_surrogate_halves_in_two_deltas_are_not_a_missing_text() -> None:
    raw = '{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"\\ud83d"}'
    stream: list[Json | str] = [
        *opens(0),
        raw,
        raw.replace("ud83d", "ude00"),
        done(0, **message(text_part("😀"))),
        ended(),
    ]
    received = read(created(), *stream)
    assert received[2:5] == [Delta(0, "\ud83d"), Delta(0, "\ude00"), BlockEnd(0)]


def test_T71_surrogate_halves_in_arguments_are_those_of_the_complete_text() -> None:
    raw = '{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\\"a\\":\\"\\ud83d"}'
    whole = call(arguments='{"a":"😀"}')
    rest = '{"type":"response.function_call_arguments.delta","output_index":0,"delta":"\\ude00"}'
    received = read(created(), added(0, **BARE), raw, rest, done(0, **whole), ended(whole))
    assert received[4:] == [Delta(0, '"}'), BlockEnd(0), *received[-2:]]
    assert isinstance(received[-1], End)


@pytest.mark.parametrize(
    "stream",
    [
        [added(0, **BARE), at(0, "function_call_arguments.done", arguments='{"a":1}', name="f"), ended(WHOLE)],
        [added(0, **BARE), at(0, "function_call_arguments.done", arguments='{"a":1}'), ended()],
        [added(0, **BARE), done(0, **WHOLE), ended(WHOLE)],
        [added(0, **WHOLE), done(0, **WHOLE), ended(WHOLE)],
        [added(0, **BARE), ended(WHOLE)],
        [added(0, **BARE | {"name": ""}), done(0, **WHOLE), ended(WHOLE)],
        [added(0, **BARE | {"name": None}), ended(WHOLE)],
        [done(0, **call(arguments={"a": 1})), ended()],
        [done(0, **WHOLE), ended(WHOLE)],
        [ended(WHOLE)],
    ],
)
def test_T04_arguments_are_emitted_once_wherever_they_stand(stream: list[Json]) -> None:
    assert body(*stream) == CALL


def test_T04_the_missing_end_of_the_arguments_is_one_delta() -> None:
    fragment = at(0, "function_call_arguments.delta", delta='{"a"')
    received = body(
        added(0, **BARE), fragment, at(0, "function_call_arguments.done", arguments='{"a":1}'), ended(WHOLE)
    )
    assert received == [CALL[0], Delta(0, '{"a"'), Delta(0, ":1}"), BlockEnd(0)]


def test_fragments_before_the_name_are_kept_and_spacing_may_differ() -> None:
    fragment = at(0, "function_call_arguments.delta", delta='{"a": 1}')
    received = body(added(0, **BARE | {"name": ""}), fragment, done(0, **WHOLE), ended(WHOLE))
    assert received == [CALL[0], Delta(0, '{"a": 1}'), BlockEnd(0)]


def test_a_missing_call_id_is_minted_the_same_every_time() -> None:
    nameless = call() | {"call_id": None}
    first = body(done(0, **nameless), done(1, **nameless), ended())
    ids = [event.call_id for event in first if isinstance(event, BlockStart)]
    assert ids == ["call_u_0", "call_u_1"]
    assert first == body(done(0, **nameless), done(1, **nameless), ended())


def test_summary_parts_are_joined_by_a_blank_line() -> None:
    def summary_event(name: str, place: int, /, **fields: Any) -> Json:
        where = {"item_id": "rs_a", "output_index": 0, "summary_index": place}
        return {"type": f"response.reasoning_summary_{name}", **where, **fields}

    whole = thought(summary=("Plan", "Look it up."))
    stream = [
        added(0, **thought()),
        summary_event("part.added", 0, part={"type": "summary_text", "text": ""}),
        summary_event("text.delta", 0, delta="Plan"),
        summary_event("text.done", 0, text="Plan"),
        summary_event("part.done", 0, part={"type": "summary_text", "text": "Plan"}),
        summary_event("part.added", 1, part={"type": "summary_text", "text": ""}),
        summary_event("text.delta", 1, delta="Look"),
        summary_event("text.done", 1, text="Look it up."),
        summary_event("part.done", 1, part={"type": "summary_text", "text": "Look it up."}),
        done(0, **whole),
        ended(whole),
    ]
    expected = [Delta(0, "Plan"), Delta(0, "\n\n"), Delta(0, "Look"), Delta(0, " it up.")]
    assert body(*stream) == [BlockStart(0, BlockKind.REASONING), *expected, BlockEnd(0)]
    joined = [Delta(0, "Plan"), Delta(0, "\n\n"), Delta(0, "Look it up.")]
    assert body(ended(whole)) == [BlockStart(0, BlockKind.REASONING), *joined, BlockEnd(0)]


def test_T14_reasoning_and_its_summary_are_not_both_emitted() -> None:
    context = ReplyContext("m")
    whole = thought("Deep", summary=("Short", "er"))
    received = body(at(0, "reasoning_text.delta", delta="Deep"), done(0, **whole), ended(), context=context)
    assert received == [BlockStart(0, BlockKind.REASONING), Delta(0, "Deep"), BlockEnd(0)]
    assert context.losses.counts == {LossCode.UNKNOWN_EVENT: 1, LossCode.REPLY_REPAIRED: 1}


@pytest.mark.parametrize("name", ["reasoning_text.done", "content_part.done"])
def test_reasoning_without_deltas(name: str) -> None:
    fields: Json = {"text": "Deep"} if name == "reasoning_text.done" else {"part": {"type": "reasoning_text"}}
    received = body(added(0, **thought()), at(0, name, **fields), done(0, **thought("Deep")), ended())
    assert received == [BlockStart(0, BlockKind.REASONING), Delta(0, "Deep"), BlockEnd(0)]


def test_the_proof_is_the_finished_items_even_if_only_the_last_snapshot_has_it() -> None:
    whole = thought(encrypted_content="ENC")
    received = body(added(0, **thought(encrypted_content="draft")), ended(whole))
    opaque = Opaque(0, "responses", "encrypted_content", "ENC")
    assert received == [BlockStart(0, BlockKind.REASONING), opaque, BlockEnd(0)]


@pytest.mark.parametrize(
    ("first", "start"),
    [
        ({"type": "response.in_progress", "response": response()}, Start("resp_u", "m", None, 5)),
        ({"type": "response.queued", "response": response("queued")}, Start("resp_u", "m", None, 5)),
        (done(0, **HELLO), Start("", "")),
        (ended(HELLO), Start("resp_u", "m", None, 5)),
    ],
)
def test_a_stream_without_created_starts_at_its_first_event(first: Json, start: Start) -> None:
    assert read(first, ended(HELLO)) == [start, *TEXT, *read(created(), ended(HELLO))[-2:]]


def test_events_that_name_their_item_by_id_only() -> None:
    def nameless(event: Json) -> Json:
        return {key: value for key, value in event.items() if key != "output_index"}

    stream = [nameless(event) | {"item_id": "msg_a"} for event in [*opens(0), *says(0, "Hello"), done(0, **HELLO)]]
    assert body(*stream, ended(HELLO)) == TEXT


def test_ids_that_change_with_every_event_and_indexes_with_gaps() -> None:
    renamed = [HELLO | {"id": "other"}, WHOLE | {"id": "another"}]
    stream = [*opens(3), *says(3, "Hello"), done(3, **HELLO | {"id": "msg_b"}), added(5, **BARE), ended(*renamed)]
    assert [event.text for event in body(*stream) if isinstance(event, Delta)] == ["Hello", '{"a":1}']


def test_two_streamed_items_of_one_id_do_not_hide_a_third() -> None:
    received = body(done(0, **HELLO), done(1, **HELLO), ended(HELLO, HELLO, message(text_part("Bye"))))
    assert [event.text for event in received if isinstance(event, Delta)] == ["Hello", "Hello", "Bye"]


def test_a_cut_leaves_what_is_open_unfinished() -> None:
    stream = [*opens(0), *says(0, "Hel"), added(1, **BARE), added(2, **thought())]
    *received, finish, _ = read(created(), *stream, cut("max_output_tokens"))
    assert received[-3:] == [BlockEnd(0, complete=False), BlockEnd(1, complete=False), BlockEnd(2, complete=False)]
    assert finish == Finish(Stop(StopReason.LENGTH, "max_output_tokens"), Usage(12, 4, 0, 7, 0))


def test_T22_what_the_last_snapshot_of_a_cut_reply_has_in_progress_is_unfinished() -> None:
    held = WHOLE | {"status": "in_progress"}
    assert read(created(), added(0, **BARE), cut("max_output_tokens", held))[3] == BlockEnd(0, complete=False)
    assert read(created(), added(0, **BARE), ended(held))[3] == BlockEnd(0)


@pytest.mark.parametrize(
    ("terminal", "reason", "rows"),
    [
        (cut("content_filter"), StopReason.FILTERED, 0),
        (cut("max_messages"), StopReason.POLICY_CUT, 0),
        (cut("steered"), StopReason.POLICY_CUT, 0),
        (cut("novelty"), StopReason.POLICY_CUT, 1),
        (cut(None), StopReason.POLICY_CUT, 1),
        (ended(incomplete_details={"reason": "max_output_tokens"}), StopReason.LENGTH, 0),
        ({**cut("max_output_tokens"), "type": "response.completed"}, StopReason.LENGTH, 0),
        ({**ended(), "type": "response.done"}, StopReason.END, 0),
        ({**cut("max_output_tokens"), "type": "response.done"}, StopReason.LENGTH, 0),
        ({**ended(), "type": "response.incomplete"}, StopReason.POLICY_CUT, 1),
        ({"type": "response.completed", "response": response("in_progress")}, StopReason.END, 0),
        ({"type": "response.done", "response": response() | {"status": None}}, StopReason.END, 1),
    ],
)
def test_T22_T25_every_terminal(terminal: Json, reason: StopReason, rows: int) -> None:
    context = ReplyContext("m")
    finish = read(created(), terminal, context=context)[-2]
    assert isinstance(finish, Finish)
    assert finish.stop.reason is reason
    assert context.losses.counts.get(LossCode.STOP_UNKNOWN, 0) == rows


def test_a_call_beside_a_refusal_is_a_call_and_counts_may_be_missing() -> None:
    terminal = ended(message(refusal_part("No")), WHOLE, usage={})
    assert read(created(), terminal)[-2] == Finish(Stop(StopReason.TOOL_CALLS, "completed"), None)


def test_done_marks_mean_nothing() -> None:
    assert read(created(), "[DONE]", *opens(0), *says(0, "Hello"), done(0, **HELLO), ended(), "[DONE]")[1:4] == TEXT


def test_T24_unknown_events_items_and_parts_are_left_out_wholly_with_a_row_each() -> None:
    context = ReplyContext("m")
    stream: list[Json] = [
        {"type": "codex.rate_limits", "x": 1},
        {"type": "response.audio.delta", "delta": "UklG"},
        added(0, type="novelty_call", id="n_1"),
        at(0, "novelty_call.searching"),
        at(0, "output_text.delta", delta="inner"),
        done(0, type="novelty_call", id="n_1"),
        added(1, **message()),
        at(1, "content_part.added", 0, part={"type": "output_audio", "data": ""}),
        at(1, "output_text.delta", 1, delta="Hello"),
        done(1, **message({"type": "output_audio", "data": ""}, text_part("Hello"))),
    ]
    assert body(*stream, ended(), context=context) == TEXT
    assert [row.path for row in context.losses.rows] == [
        "codex.rate_limits",
        "response.audio.delta",
        "output[0]",
        "output[1].content[0]",
        "output",
    ]


def test_a_phase_and_the_extras_of_calls_are_one_row_each() -> None:
    context = ReplyContext("m")
    text = HELLO | {"phase": "commentary"}
    call = WHOLE | {"caller": {"type": "program", "caller_id": "p"}, "async": True}
    body(added(0, **text | {"content": []}), done(0, **text), added(1, **call), ended(text, call), context=context)
    assert context.losses.counts == {LossCode.PHASE: 1, LossCode.CALL_META: 2, LossCode.REPLY_REPAIRED: 2}


def test_log_probabilities_that_come_only_at_the_end() -> None:
    tokens = [{"token": "Hello", "logprob": -1.0}]
    context = ReplyContext("m", logprobs=True)
    whole = message(text_part("Hello", logprobs=tokens))
    assert body(done(0, **whole), ended(), context=context)[2] == Logprobs(0, tokens)

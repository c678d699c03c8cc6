"""The reader and the writer of Messages streams move by their tables of phases, and show their phase."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Ping,
    Start,
    Stop,
    StopReason,
)
from dragoman.dialects.messages.stream.phases import READER, Phase
from dragoman.dialects.messages.stream.reader import MessagesReader
from dragoman.dialects.messages.stream.writer import MessagesWriter
from dragoman.dialects.shared.writer_phases import WRITER, WriterPhase
from dragoman.errors import Failure, FailureKind
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame
from support.frames import frames_of

STARTED = {"type": "message_start", "message": {"id": "msg_1", "model": "m"}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
USAGE = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}}
BLOCK_STOPPED = {"type": "content_block_stop", "index": 0}
STOPPED = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
READS: dict[str, dict[str, Any]] = {
    "message_start": STARTED,
    "content_block_start": {**BLOCK, "index": 1},
    "message_delta": USAGE,
    "stop_reason": STOPPED,
    "message_stop": {"type": "message_stop"},
    "error": {"type": "error", "error": {"type": "api_error", "message": "broken"}},
}
LEADS: dict[Phase, list[dict[str, Any]]] = {
    "WAITING": [],
    "BLOCKS": [STARTED, BLOCK],
    "STOPPED": [STARTED, BLOCK, BLOCK_STOPPED, STOPPED],
    "DONE": [STARTED, BLOCK, BLOCK_STOPPED, STOPPED, READS["message_stop"]],
}

WRITES: dict[str, Event] = {
    "Start": Start("msg_1", "m"),
    "BlockStart": BlockStart(1, "text"),
    "BlockEnd": BlockEnd(0),
    "Finish": Finish(Stop(StopReason.END)),
    "End": End(),
    "Error": Error(Failure(FailureKind.API, "broken", 502)),
}
WRITTEN: dict[WriterPhase, list[Event]] = {
    "WAITING": [],
    "OPEN": [WRITES["Start"], BlockStart(0, "text")],
    "FINISHED": [WRITES["Start"], WRITES["Finish"]],
    "DONE": [WRITES["Start"], WRITES["Finish"], WRITES["End"]],
}


def reader_in(phase: Phase) -> MessagesReader:
    reader = MessagesReader(ReplyContext("m"))
    reader.feed([Frame(str(event["type"]), dumps(event)) for event in LEADS[phase]])
    assert phase_of(reader) == phase
    return reader


def writer_in(phase: WriterPhase) -> MessagesWriter:
    writer = MessagesWriter(ReplyContext("m"))
    writer.feed(list(WRITTEN[phase]))
    assert writer.phase == phase
    return writer


def phase_of(machine: MessagesReader) -> str:
    return repr(machine).split()[1]


@pytest.mark.parametrize("event", READS)
@pytest.mark.parametrize("phase", READER)
def test_the_reader_moves_by_its_table_or_reports_the_documented_error(phase: Phase, event: str) -> None:
    reader = reader_in(phase)
    events = reader.feed([Frame(str(READS[event]["type"]), dumps(READS[event]))])
    if event in READER[phase]:
        assert phase_of(reader) == READER[phase][event]
        assert all(type(found) is not Error for found in events) or event == "error"
    elif (event, phase) in (("stop_reason", "STOPPED"), ("message_start", "BLOCKS")):  # of the same message
        assert events == []
        assert phase_of(reader) == phase
        assert reader.context.losses.header() == "reply_repaired=1"
    elif phase == "DONE":
        assert events == []
        assert phase_of(reader) == phase
    else:
        name = "message_delta" if event == "stop_reason" else event
        assert [found.failure.message for found in events if type(found) is Error] == [READER[phase].errors[name]]
        assert phase_of(reader) == "DONE"
    assert reader.done is (phase_of(reader) == "DONE")


def test_a_reader_whose_stream_is_cut_is_done() -> None:
    reader = reader_in("STOPPED")
    [event] = reader.finish()
    assert type(event) is Error
    assert event.failure.code == "stream_truncated"
    assert phase_of(reader) == "DONE"


@pytest.mark.parametrize("event", WRITES)
@pytest.mark.parametrize("phase", WRITER)
def test_the_writer_moves_by_its_table_or_writes_an_error(phase: WriterPhase, event: str) -> None:
    writer = writer_in(phase)
    frames = frames_of(writer.feed([WRITES[event]]))
    if event in WRITER[phase]:
        assert writer.phase == WRITER[phase][event]
    elif phase == "DONE":
        assert frames == []
    else:
        last = frames[-1]
        assert type(last) is Frame
        assert last.event == "error"
        assert f"upstream sent {event} out of order".encode() in (last.data or b"")
        assert writer.phase == "DONE"
    assert writer.done is (writer.phase == "DONE")


def test_events_of_a_block_and_pings_do_not_change_the_phase() -> None:
    reader, writer = reader_in("BLOCKS"), writer_in("OPEN")
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
    for event in (text, BLOCK_STOPPED, {"type": "ping"}, {"type": "later_event"}):
        reader.feed([Frame(str(event["type"]), dumps(event))])
        assert phase_of(reader) == "BLOCKS"
    writer.feed([Delta(0, "a"), Ping()])
    assert writer.phase == "OPEN"


def test_the_representation_shows_the_counters() -> None:
    assert repr(reader_in("BLOCKS")) == "<MessagesReader BLOCKS blocks=1 open=1 calls=0>"
    writer = writer_in("OPEN")
    assert repr(writer) == "<MessagesWriter OPEN blocks=0 open=0 deferred=1 characters=0>"
    writer.feed([Delta(0, "abc")])
    assert repr(writer) == "<MessagesWriter OPEN blocks=1 open=1 deferred=0 characters=3>"


def test_every_phase_can_be_reached_and_ends() -> None:
    assert set(READER) == set(get_args(Phase))
    assert {following for events in READER.values() for following in events.values()} == set(READER) - {"WAITING"}
    assert all("DONE" in events.values() for phase, events in READER.items() if phase != "DONE")

"""Every structural event in every phase of a Responses stream: it moves by the table, or is the documented error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Start,
    Stop,
    StopReason,
)
from dragoman.dialects.responses.stream.phases import READER, TERMINALS, Phase
from dragoman.dialects.responses.stream.reader import ResponsesReader as Reader
from dragoman.dialects.responses.stream.writer import ResponsesWriter as Writer
from dragoman.dialects.shared.writer_phases import WRITER, WriterPhase
from dragoman.errors import Failure, FailureKind
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame
from support.frames import frames_of
from support.responses_frames import Json, at, created, ended, message, response, text_part

IN_PROGRESS: Json = {"type": "response.in_progress", "response": response()}
REACHED_BY: dict[Phase, list[Json]] = {
    "WAITING": [],
    "STARTED": [IN_PROGRESS],
    "CREATED": [created()],
    "DONE": [created(), ended()],
}
WIRE_EVENTS = sorted({name for row in READER.values() for name in row})


def wire_event(name: str) -> Json:
    """A valid event of this name, about the first item."""
    event = at(0, name.removeprefix("response."), delta="{", text="x", refusal="x", arguments="{}", input="x")
    status = TERMINALS.get(name) or ("completed" if name in TERMINALS else "in_progress")
    error = {"code": "server_error", "message": "failed"} if status == "failed" else None
    return event | {
        "type": name,
        "response": response(status, error=error),
        "item": message(text_part("x")),
        "part": text_part("x"),
        "annotation": {"type": "url_citation", "url": "u"},
        "error": {"message": "failed"} if name == "error" else None,
    }


def feed(reader: Reader, event: Json) -> list[Event]:
    return reader.feed([Frame("", json.dumps(event).encode())])


@pytest.mark.parametrize("name", WIRE_EVENTS)
@pytest.mark.parametrize("phase", READER)
def test_the_reader_moves_by_its_table(phase: Phase, name: str) -> None:
    reader = Reader(ReplyContext("m"))
    for event in REACHED_BY[phase]:
        feed(reader, event)
    assert reader.phase == phase
    events = feed(reader, wire_event(name))
    if phase == "DONE":
        assert events == []
    elif name == "response.created" and name not in READER[phase]:
        assert isinstance(events[-1], Error)
        assert reader.phase == "DONE"
    else:
        assert reader.phase == READER[phase].get(name, phase)
        assert (events != [] and isinstance(events[0], Start)) is (phase == "WAITING" and not _fails(name))


def _fails(name: str) -> bool:
    return name in ("error", "response.failed", "response.cancelled")


@pytest.mark.parametrize("phase", ["WAITING", "STARTED", "CREATED"])
def test_the_end_of_the_bytes_ends_the_reader_in_any_phase(phase: Phase) -> None:
    reader = Reader(ReplyContext("m"))
    for event in REACHED_BY[phase]:
        feed(reader, event)
    assert isinstance(reader.finish()[-1], Error)
    assert reader.phase == "DONE"


CANONICAL: dict[str, Event] = {
    "Start": Start("resp_u", "m"),
    "BlockStart": BlockStart(1, "text"),
    "BlockEnd": BlockEnd(0),
    "Finish": Finish(Stop(StopReason.END)),
    "End": End(),
    "Error": Error(Failure(FailureKind.API, "failed", 502)),
}
WRITTEN_BY: dict[WriterPhase, list[Any]] = {
    "WAITING": [],
    "OPEN": [CANONICAL["Start"], BlockStart(0, "text")],
    "FINISHED": [CANONICAL["Start"], CANONICAL["Finish"]],
    "DONE": [CANONICAL["Start"], CANONICAL["Finish"], CANONICAL["End"]],
}


def test_the_table_of_the_writer_has_these_events() -> None:
    assert {name for row in WRITER.values() for name in row} == CANONICAL.keys()


@pytest.mark.parametrize("name", CANONICAL)
@pytest.mark.parametrize("phase", WRITER)
def test_the_writer_moves_by_its_table(phase: WriterPhase, name: str) -> None:
    writer = Writer(ReplyContext("m"))
    writer.feed(WRITTEN_BY[phase])
    assert writer.phase == phase
    frames = frames_of(writer.feed([CANONICAL[name]]))
    if phase == "DONE":
        assert frames == []
    elif name in WRITER[phase]:
        assert writer.phase == WRITER[phase][name]
        assert (writer.context.failure is not None) is (name == "Error")
    else:
        assert frames[-1].event == "response.failed"
        assert writer.phase == "DONE"


def test_deltas_do_not_move() -> None:
    writer = Writer(ReplyContext("m"))
    writer.feed([*WRITTEN_BY["OPEN"], Delta(0, "x")])
    assert writer.phase == "OPEN"
    reader = Reader(ReplyContext("m"))
    for event in (created(), wire_event("response.output_text.delta")):
        feed(reader, event)
    assert reader.phase == "CREATED"


def test_both_show_their_phase() -> None:
    reader, writer = Reader(ReplyContext("m")), Writer(ReplyContext("m"))
    feed(reader, created())
    writer.feed(WRITTEN_BY["OPEN"])
    assert repr(reader) == "<ResponsesReader CREATED items=0 blocks=0>"
    assert repr(writer) == "<ResponsesWriter OPEN open=1 sequence_number=4>"

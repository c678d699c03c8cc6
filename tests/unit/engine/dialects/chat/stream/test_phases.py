"""Phases of Chat streams: each event in each phase moves by the table or is the documented error or no-op."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    End,
    Error,
    Event,
    Finish,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.dialects.chat.stream.phases import READER, Phase
from dragoman.dialects.chat.stream.reader import ChatReader as Reader
from dragoman.dialects.chat.stream.writer import ChatWriter as Writer
from dragoman.dialects.shared.writer_phases import WRITER, WriterPhase
from dragoman.errors import Failure, FailureKind
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame


def chunk(*choices: Any, **extra: Any) -> str:
    head = {"id": "chatcmpl-x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return json.dumps({**head, "choices": list(choices), **extra})


UPSTREAM = {
    "choice": chunk({"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}),
    "finish_reason": chunk({"index": 0, "delta": {}, "finish_reason": "stop"}),
    "usage": chunk(usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
    "[DONE]": "[DONE]",
    "error": '{"error":{"message":"busy"}}',
    "end of stream": "",
}
READ_BEFORE = {
    "NEW": (),
    "OPEN": ("choice",),
    "FINISHED": ("choice", "finish_reason"),
    "ENDED": ("choice", "finish_reason", "usage"),
}
READER_ERRORS = {"[DONE]": "stream_truncated", "end of stream": "stream_truncated"}

FAILURE = Failure(FailureKind.OVERLOADED, "busy", 503)
CANONICAL: dict[str, Event] = {
    "Start": Start("x", "m"),
    "BlockStart": BlockStart(0, "text"),
    "BlockEnd": BlockEnd(0),
    "Finish": Finish(Stop(StopReason.END), Usage(1, None, None, 1, None)),
    "End": End(),
    "Error": Error(FAILURE),
}
WRITTEN_BEFORE = {
    "WAITING": (),
    "OPEN": ("Start",),
    "FINISHED": ("Start", "Finish"),
    "DONE": ("Start", "Finish", "End"),
}


def phase_of(machine: Reader) -> str:
    return repr(machine).split()[1]


def read(reader: Reader, event: str) -> list[Event]:
    return reader.feed([Frame("", UPSTREAM[event].encode())]) if UPSTREAM[event] else reader.finish()


@pytest.mark.parametrize(("phase", "event"), list(product(READER, UPSTREAM)))
def test_the_reader_moves_by_its_table(phase: Phase, event: str) -> None:
    reader = Reader(ReplyContext("client-model", 1, "req"))
    for before in READ_BEFORE[phase]:
        read(reader, before)
    assert phase_of(reader) == phase
    events = read(reader, event)
    # A chunk with a finish_reason is a chunk with a choice too.
    row = READER[READER[phase].get("choice", phase) if event == "finish_reason" else phase]
    if event in row:
        assert phase_of(reader) == row[event]
        assert (event == "error") is any(type(each) is Error for each in events)
    elif event in READER_ERRORS and phase != "ENDED":
        assert type(events[-1]) is Error
        assert events[-1].failure.code == READER_ERRORS[event]
        assert phase_of(reader) == "ENDED"
    else:
        assert phase_of(reader) == phase
        assert reader.done is (phase == "ENDED")


@pytest.mark.parametrize(("phase", "event"), list(product(WRITER, CANONICAL)))
def test_the_writer_moves_by_its_table(phase: WriterPhase, event: str) -> None:
    context = ReplyContext("client-model", 1, "req")
    writer = Writer(context)
    writer.feed([CANONICAL[before] for before in WRITTEN_BEFORE[phase]])
    assert writer.phase == phase
    frames = writer.feed([CANONICAL[event]])
    if phase == "DONE":
        assert not frames
    assert writer.phase == WRITER[phase].get(event, "DONE")
    failed = phase != "DONE" and (event == "Error" or event not in WRITER[phase])
    assert (context.failure is not None) is failed
    assert writer.done is (writer.phase == "DONE")


def test_a_machine_shows_its_phase_and_counters() -> None:
    reader = Reader(ReplyContext("client-model", 1, "req"))
    read(reader, "choice")
    assert repr(reader) == "<ChatReader OPEN blocks=1 open=1 calls=0>"
    writer = Writer(ReplyContext("client-model", 1, "req"))
    writer.feed([CANONICAL["Start"], CANONICAL["BlockStart"]])
    assert repr(writer) == "<ChatWriter OPEN blocks=1 calls=0>"

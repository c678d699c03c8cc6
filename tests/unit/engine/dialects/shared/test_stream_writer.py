"""The loop over a batch of events: their order, and errors, which end the stream with what came before them."""

from __future__ import annotations

from typing import ClassVar

import pytest

from dragoman.canonical.events import (
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
    TextRun,
    Usage,
)
from dragoman.dialects.shared.stream_writer import Frames, StreamWriter, Writes
from dragoman.errors import Failure, FailureKind, UpstreamProtocolError
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame

REFUSED = "no block of this kind"


class NamesWriter(StreamWriter):
    """Writes the name of each event, and the text of a delta."""

    __slots__ = ()

    def delta(self, event: Delta, out: Frames) -> None:
        """Write the text."""
        out.append(event.text.encode())

    def _name(self, event: Event, out: Frames) -> None:
        out.append(type(event).__name__.encode())

    def _start_block(self, event: BlockStart, out: Frames) -> None:
        if event.kind == "opaque":
            raise UpstreamProtocolError(REFUSED)
        self._name(event, out)

    def _fail(self, event: Error, out: Frames) -> None:
        out.append(event.failure.message.encode())

    writes: ClassVar[Writes] = {
        Start: _name,
        BlockStart: _start_block,
        Finish: _name,
        End: _name,
        Error: _fail,
        Ping: StreamWriter.ping,
    }


def writer() -> NamesWriter:
    return NamesWriter(ReplyContext("m"))


def test_events_are_written_in_order_until_the_end() -> None:
    one = writer()
    finish = Finish(Stop(StopReason.END), Usage(3, output_total=2))
    run = TextRun()
    run.index, run.text, run.pieces, run.encoded = 0, "bc", ["b", "c"], [b'"b"', b'"c"']
    written = one.feed([Start("i", "m"), BlockStart(0, "text"), Delta(0, "a"), run, Ping(), finish, End(), Ping()])
    assert written == [b"Start", b"BlockStart", b"a", b"b", b"c", Frame("", None), b"Finish", b"End"]
    assert one.done
    assert one.context.output_text == 3
    assert one.context.usage == Usage(3, output_total=2)
    assert one.feed([Ping()]) == one.finish() == []


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Start("i", "m"), "upstream sent Start out of order"),
        (BlockStart(0, "opaque"), REFUSED),
        (Error(Failure(FailureKind.API, "the upstream's own", 500)), "the upstream's own"),
    ],
)
def test_an_error_ends_the_stream_behind_what_was_written(event: Event, message: str, split: bool) -> None:
    one = writer()
    first: list[Event] = [Start("i", "m"), BlockStart(1, "text"), Delta(1, "a")]
    written = [*one.feed(first), *one.feed([event])] if split else one.feed([*first, event, Ping()])
    assert written == [b"Start", b"BlockStart", b"a", message.encode()]
    assert one.done
    assert one.phase == "DONE"
    assert one.context.failure is not None
    assert one.context.failure.message == message


def test_an_error_has_no_secrets() -> None:
    one = writer()
    one.context.secrets = ("hidden-secret",)
    (line,) = one.feed([Error(Failure(FailureKind.API, "wrong key hidden-secret", 500))])
    assert line == b"wrong key ***"

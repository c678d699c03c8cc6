"""Time the sync engine on streams: CPU nanoseconds per event, of each stage and of each direction as a whole.

python bench/micro/streams.py [--events 1000] [--rounds 25] [--kinds text tool thinking] [--only 'chat ← messages']

Rows: `parse` parses SSE frames; `read` is parsing and reading to canonical events as in a pipeline; `write` is writing
and encoding events of another dialect; `client ← upstream` is a whole direction. Each is fed one event and sixteen at a
time, and its output is checked before it is timed. A figure is the minimum of many interleaved rounds; `×` is in
multiples of one `orjson.loads` of the same event.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import thread_time_ns
from typing import Any

import orjson

from dragoman import StreamMachine, Translation, direction
from dragoman.canonical.events import Delta, TextRun
from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import encode_frames
from dragoman.wire.sse_parser import Parser
from dragoman_bench.vendor_streams import KINDS, STREAMS, Stream, texts_of

DIALECTS = ("chat", "messages", "responses")
BATCHES = (1, 16)
_PARSES = 2000


# --- the texts of a stream, read without the engine -------------------------------------------------------------------


def read_texts(dialect: str, out: bytes) -> Iterator[str]:
    """Yield the texts of the deltas of any kind, in order."""
    for line in out.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        event = orjson.loads(line[6:])
        if dialect == "chat":
            for choice in event["choices"]:
                delta = choice["delta"]
                yield delta.get("content") or delta.get("reasoning_content") or ""
                yield from (call["function"].get("arguments", "") for call in delta.get("tool_calls", ()))
        elif dialect == "messages":
            if event["type"] == "content_block_delta":
                delta = event["delta"]
                yield delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
        elif event["type"].endswith(".delta"):
            yield event["delta"]


_ENDS = {"chat": b"data: [DONE]\n\n", "messages": b'"message_stop"}\n\n', "responses": b"}\n\n"}


def check(dialect: str, out: bytes, stream: Stream, what: str) -> None:
    """Assert that all texts arrive, in order, and that the stream ends: otherwise the timing would be meaningless."""
    texts = [piece for piece in read_texts(dialect, out) if piece]
    assert texts == list(stream.texts), f"{what}: {len(texts)} texts of {len(stream.texts)}"
    assert out.endswith(_ENDS[dialect]), f"{what} has no end"


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """A row: what is run, its number of events, and its minimum time."""

    name: str
    batch: int
    events: int
    unit: str
    run: Callable[[], object]
    least: float = field(default=float("inf"))

    def round(self) -> None:
        """Run once."""
        at = thread_time_ns()
        self.run()
        self.least = min(self.least, (thread_time_ns() - at) / self.events)


def outputs(make: Callable[[], Any], batches: Sequence[Any]) -> list[Any]:
    """Return the outputs of a new stage for each batch."""
    feed = make().feed
    return [feed(batch) for batch in batches]


def fed(make: Callable[[], Any], batches: Sequence[Any]) -> Callable[[], None]:
    """Return a function that feeds a new stage and drops its outputs, for the timing."""

    def run() -> None:
        feed = make().feed
        for batch in batches:
            feed(batch)

    return run


def parsing(dialect: str, stream: Stream, batch: int) -> Row:
    """Return the row of parsing: bytes to frames."""
    batches = stream.batches(batch)
    frames = [frame for frames in outputs(Parser, batches) for frame in frames]
    assert sum(frame.data is not None for frame in frames) > len(stream.texts)
    return Row(f"parse {dialect}", batch, len(stream.texts), dialect, fed(Parser, batches))


class Pair:
    """Two steps as one stage."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self.first, self.second = first, second

    def feed(self, batch: Any) -> Any:
        """Calls the first step, and the second with what the first returns."""
        return self.second(self.first(batch))


def reader(dialect: str) -> Pair:
    """Returns the stages that begin a pipeline."""
    return Pair(Parser(whole=True).feed, CODECS[Dialect(dialect)].reader(ReplyContext("m")).feed)


def reading(dialect: str, stream: Stream, batch: int) -> Row:
    """Return the row of reading: bytes to events."""
    make, batches = partial(reader, dialect), stream.batches(batch)
    deltas = [event for events in outputs(make, batches) for event in events if type(event) in (Delta, TextRun)]
    texts = [text for event in deltas for text in ([event.text] if type(event) is Delta else event.pieces)]
    assert [text for text in texts if text] == list(stream.texts), f"reading {dialect}"
    return Row(f"read {dialect}", batch, len(stream.texts), dialect, fed(make, batches))


def writing(dialect: str, source: str, stream: Stream, batch: int) -> Row:
    """Return the row of writing: events of another dialect to bytes."""
    batches = outputs(partial(reader, source), stream.batches(batch))
    writer = CODECS[Dialect(dialect)].writer

    def make() -> Pair:
        return Pair(writer(ReplyContext("m")).feed, encode_frames)

    check(dialect, b"".join(outputs(make, batches)), stream, f"writing {dialect}")
    return Row(f"write {dialect}", batch, len(stream.texts), source, fed(make, batches))


def going(client: str, upstream: str, stream: Stream, batch: int) -> Row:
    """Return the row of a direction: bytes to bytes."""

    def machine() -> StreamMachine:
        return Translation(direction(client, upstream), b"", True, ReplyContext("m"), "m").stream_machine()

    batches = stream.batches(batch)
    check(client, b"".join(outputs(machine, batches)), stream, f"{client} ← {upstream}")
    return Row(f"{client} ← {upstream}", batch, len(stream.texts), upstream, fed(machine, batches))


def rows(kind: str, events: int) -> Iterator[Row]:
    """Return all rows, with one and sixteen events at a time."""
    streams = {dialect: STREAMS[dialect](kind, texts_of(kind, events)) for dialect in DIALECTS}
    for dialect, stream in streams.items():
        yield Row(f"orjson {dialect}", 0, _PARSES, dialect, partial(parses, stream.payload))
    for batch in BATCHES:
        for dialect, stream in streams.items():
            other = "chat" if dialect == "messages" else "messages"
            yield parsing(dialect, stream, batch)
            yield reading(dialect, stream, batch)
            yield writing(dialect, other, streams[other], batch)
        for upstream, stream in streams.items():
            for client in DIALECTS:
                yield going(client, upstream, stream, batch)


def parses(data: bytes) -> None:
    """Return the time of one `orjson.loads` of an event."""
    for _ in range(_PARSES):
        orjson.loads(data)


def main() -> None:
    """Print a table for each kind of stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    args = parser.parse_args()
    for kind in args.kinds:
        chosen = [row for row in rows(kind, args.events) if args.only in row.name or row.batch == 0]
        gc.collect()
        gc.disable()
        for _ in range(args.rounds):
            for row in chosen:
                row.round()
        gc.enable()
        show(kind, chosen)


def show(kind: str, chosen: Sequence[Row]) -> None:
    """Print one line per row, with the figures of one and sixteen events."""
    units = {row.unit: row.least for row in chosen if row.batch == 0}
    print(f"{kind:<24}" + "".join(f"{f'{batch} at a time':>22}" for batch in BATCHES) + "   (× one orjson.loads)")
    found = {(row.name, row.batch): row for row in chosen if row.batch}
    for name in dict.fromkeys(name for name, _ in found):
        cells = [found[name, batch] for batch in BATCHES]
        print(f"{name:<24}" + "".join(f"{r.least:11.0f} ns {r.least / units[r.unit]:6.1f} ×" for r in cells))
    print(flush=True)


if __name__ == "__main__":
    main()

"""The parser of server-sent events: any bytes, any split, and what an independent reader finds in them."""

from __future__ import annotations

from itertools import chain
from typing import Any

from dragoman import Dialect
from dragoman.errors import LimitExceeded
from dragoman.limits import Limits
from dragoman.wire.sse import DocumentFrame, Frame
from dragoman.wire.sse_parser import Parser, decode_frames
from dragoman_proof.fuzz import seeds
from dragoman_proof.fuzz.target import Target, pieces, require
from oracles.grammar import sse as judge

_LONGEST = 400
_SMALL = Limits(sse_line=60, sse_frame=90)
_WORDS = (
    b"data:|data: |event: |id: |retry: |\n\n|\r\n|\r|: c|\xef\xbb\xbf|[DONE]|{|[|\0|\xff|dat|tada: {|\xe2\x80\xa8"
).split(b"|")


def target(_: str) -> Target:
    """Return the target."""
    recorded = chain.from_iterable(seeds.streams(dialect) for dialect in Dialect)
    return Target(_check, [data[:_LONGEST] for data in recorded], _WORDS, longest=_LONGEST)


def _check(data: bytes) -> None:
    for limits in (Limits(), _SMALL):
        for bare in (False, True):
            whole = _read([data], limits, bare)
            for split in pieces(data):
                require(_read(split, limits, bare) == whole, "any split of a stream has the same frames")
    found = _read([data], Limits(), False)
    events = [(event, text) for event, text, *_ in found if text is not None]
    for split in ([data], *pieces(data)):
        require(_texts(split) == events, "frames that are read later are the same")
    if not found or found[-1][-1] != "document":
        judged = [(item.event, item.data, item.id, item.retry, item.fault) for item in judge.split(data)]
        require(found == judged, "an independent reader finds the same frames")


def _read(split: list[bytes], limits: Limits, bare: bool) -> list[tuple[Any, ...]]:
    frames: list[Frame] = []
    parser = Parser(limits, bare=bare)
    for piece in split:
        frames += parser.parse(piece)
    return [_seen(frame) for frame in frames + parser.finish()]


def _texts(split: list[bytes]) -> list[tuple[str, bytes | None]]:
    """Return the events of a stream of which whole frames are not parsed at once, up to the first fault."""
    parser, found = Parser(whole=True), list[tuple[str, bytes | None]]()
    for frames in (*map(parser.feed, split), parser.finish()):
        for frame in decode_frames(frames):
            if frame.fault is not None:
                return found
            if frame.data is not None:
                found.append((frame.event, frame.data))
    return found


def _seen(frame: Frame) -> tuple[Any, ...]:
    word = None
    if frame.fault is not None:
        word = frame.fault.name if isinstance(frame.fault, LimitExceeded) else "name"
    if isinstance(frame, DocumentFrame):
        word = "document"
    return frame.event, frame.data, frame.id, frame.retry, word

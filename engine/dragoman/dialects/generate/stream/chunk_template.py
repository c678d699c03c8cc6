"""The fast path that reads chunks of one text whose counts grow, as nearly all of a stream of Google's are.

It is the delta template of this dialect (`wire.delta_template`): each chunk repeats the counts of the reply so far, so
two values change from one to the next, and one of them is an object.

    {"candidates":[{"content":{"parts":[{"text":"Hi"}]}}],"usageMetadata":{…},"modelVersion":"m"}
    [               before                     ]    [       middle       ]   [      after      ]
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Final

import orjson

from dragoman.canonical.events import Delta, TextRun
from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import is_empty
from dragoman.wire.delta_template import is_sole_value
from dragoman.wire.sse import LF

_COUNTS: Final = b'"usageMetadata"'
_COLON: Final = re.compile(rb"\s*:\s*")
_PLAIN: Final = frozenset(("content", "index", "safetyRatings"))
"""The fields of a candidate that may be read again without an effect."""
_DIGITS: Final = b"0123456789"
_ZEROS: Final = bytes.maketrans(_DIGITS, b"0" * 10)
_DECODE: Final = JSONDecoder().raw_decode
_TEXT: Final = frozenset(("text", "thought"))


class ChunkTemplate:
    """The bytes of a chunk around its text and its counts. `counts` are those of the last chunk that matched.

    The counts are not parsed, as only the last ones are used: they match if nothing but digits has changed. A number
    that has a further digit changes the template, which costs less than to learn another one.
    """

    __slots__ = ("_counted", "_index", "_middle", "_shape", "after", "before", "counts", "end", "start")

    def __init__(self, index: int, before: bytes, middle: bytes, counts: bytes, after: bytes) -> None:
        self._index, self._middle = index, middle
        self._shape, self._counted = counts.translate(_ZEROS), len(counts)
        self.before, self.after = before, after
        """The bytes around the text and the counts of a chunk."""
        self.start, self.end = b"data: " + before, after + b"\r\n\r\n"
        """Those of its frame."""
        self.counts = counts

    def end_as(self, frames: bytes) -> None:
        """Expect the line ends of these frames."""
        if not frames.endswith(b"\r\n\r\n"):
            self.end = self.after + b"\n\n"

    def match(self, data: bytes, before: bytes, after: bytes) -> TextRun | None:
        """Return the text of `data` if it is one such chunk, or one such frame, between these bytes; else None."""
        begin, end = len(before), len(data) - len(after)
        counted = end - self._counted
        stop = counted - len(self._middle)
        if (
            stop <= begin
            or data[stop:counted] != self._middle
            or data[:begin] != before
            or data[end:] != after
            or (counts := data[counted:end]).translate(_ZEROS) != self._shape
        ):
            return self.match(data, before, after) if self._has_other_digits(data, begin, end) else None
        literal = data[begin:stop]
        try:
            text = orjson.loads(literal)
        except orjson.JSONDecodeError:
            return None
        if type(text) is not str or not text:
            return None
        self.counts = counts
        if len(literal) != len(text) + 2:
            literal = orjson.dumps(text)  # a server may escape more than JSON requires
        run = TextRun()
        run.index, run.text, run.pieces, run.encoded = self._index, text, [text], [literal]
        return run

    def _has_other_digits(self, data: bytes, begin: int, end: int) -> bool:
        """Return whether the counts between these places have the same keys with more or fewer digits, and take over
        their form if so. `_middle` has quotes, so that no text contains it."""
        stop = data.find(self._middle, begin, end)
        counts = data[stop + len(self._middle) : end]
        shape = counts.translate(_ZEROS)
        if stop < 0 or shape == self._shape or counts.translate(None, _DIGITS) != self._shape.replace(b"0", b""):
            return False
        try:
            orjson.loads(counts)
        except orjson.JSONDecodeError:
            return False
        self._shape, self._counted = shape, len(counts)
        return True


def learn(data: bytes, chunk: Json, delta: Delta) -> ChunkTemplate | None:
    """Return the template of a chunk that was read as `delta` alone; None if it has anything else than text and counts,
    or if their places are ambiguous."""
    counts = chunk.get("usageMetadata")
    if type(counts) is not dict or data.count(_COUNTS) != 1 or LF in data or not _is_plain(chunk):
        return None
    try:
        literal = orjson.dumps(delta.text)
    except TypeError:  # half a surrogate pair
        return None
    if data.count(literal) != 1:
        return None
    before, _, rest = data.partition(literal)
    middle, key, rest_of_counts = rest.partition(_COUNTS)
    colon = _COLON.match(rest_of_counts)
    if not key or colon is None or not is_sole_value(data, before, rest, delta.text):
        return None
    value = rest_of_counts[colon.end() :].decode()
    found, end = _DECODE(value)
    if found != counts:
        return None
    return ChunkTemplate(delta.index, before, middle + key + colon[0], value[:end].encode(), value[end:].encode())


def _is_plain(chunk: Json) -> bool:
    """True if a chunk holds one part, which is a text, and nothing else that has an effect."""
    [candidate] = chunk["candidates"]
    parts = candidate["content"]["parts"]
    return (
        len(parts) == 1
        and _TEXT.issuperset(parts[0])
        and is_empty(chunk.get("promptFeedback"))
        and all(key in _PLAIN or is_empty(value) for key, value in candidate.items())
    )

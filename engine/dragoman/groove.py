"""Frames alike but for one text: how nearly all of a stream is read without parsing its JSON again and again.

Servers spell the deltas of a block alike: only the text changes, and in some dialects a running number or some padding.
Once a reader has read one, its bytes before and behind the text are known. What follows with the same bytes around
another JSON string is the same event with another text, because a string may stand wherever a string stood.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import orjson

from .events import Delta, Deltas
from .sse import Frame

_PROBE: Final = "\u2402 a text that no server sends \u2403"
_PROBE_LITERAL: Final = orjson.dumps(_PROBE)
_END: Final = b"\n\n"
_QUOTE: Final = 34


class Volatile(NamedTuple):
    """The keys of a dialect's deltas that change from one to the next and mean nothing to its reader.

    `number` is an integer; `padding` a string of letters and digits behind the text.
    """

    number: bytes | None = None
    padding: bytes | None = None


class Groove:
    """The bytes around the text of a block's deltas. `end` is where the last run ended."""

    __slots__ = ("_after", "_before", "_beside", "_index", "_joint", "_size", "_twice", "_varies", "end")

    def __init__(self, index: int, before: list[bytes], after: list[bytes]) -> None:
        """`before` and `after` the string; one of them is two pieces if something varies between these."""
        self._index = index
        self._before = before[0]
        self._size = len(before[0])
        self._after = after[-1]
        self._varies = len(before) - len(after)
        """1 if something varies before the string, -1 behind it."""
        self._beside = before[1] if self._varies > 0 else after[0]
        """What stands between the string and what varies. No string holds it: it has quotes in it."""
        self._joint = self._after + self._before
        self._twice = 2 * len(self._joint)
        self.end = 0

    def run(self, data: bytes, at: int = 0) -> Deltas | None:
        """The longest run of such frames in `data`, which is whole frames, from `at` on; None if there is none."""
        if not data.startswith(self._before, at):
            return None
        if self._varies:
            return self._leading(data, at) if self._varies > 0 else self._trailing(data, at)
        start = at + self._size
        after = self._after
        size = len(data)
        if size - at < self._twice:
            # Nearly every read is this: one frame.
            if not data.endswith(after):
                return None
            self.end = size
            return self._one(data[start : size - len(after)])
        literals = data[start:].split(self._joint)
        if data.count(_END, start) > len(literals):
            # The first that has another frame behind it is the last of the run.
            del literals[next(place for place, piece in enumerate(literals) if piece.count(_END) > 0) + 1 :]
        last, found, _ = literals[-1].partition(after)
        if found:
            literals[-1] = last
        else:
            literals.pop()
        return self._read(literals, at + sum(map(len, literals)) + len(self._joint) * len(literals))

    def _leading(self, data: bytes, at: int) -> Deltas | None:
        """The same where a number before the string varies."""
        before, after, size, beside = self._before, self._after, self._size, len(self._beside)
        number, *pieces = data[at + size :].split(self._beside)
        literals: list[bytes] = []
        for piece in pieces:
            literal, found, rest = piece.partition(after)
            if not found or not _is_number(number):
                break
            literals.append(literal)
            at += size + len(number) + beside + len(literal) + len(after)
            if not rest.startswith(before):
                break
            number = rest[size:]
        return self._read(literals, at)

    def _trailing(self, data: bytes, at: int) -> Deltas | None:
        """The same where padding or a number behind the string varies."""
        before, after, size, beside = self._before, self._after, self._size, len(self._beside)
        literal, *pieces = data[at + size :].split(self._beside)
        literals: list[bytes] = []
        for piece in pieces:
            varying, found, rest = piece.partition(after)
            if not found or not (varying.isalnum() if after[0] == _QUOTE else _is_number(varying)):
                break
            literals.append(literal)
            at += size + len(literal) + beside + len(varying) + len(after)
            if not rest.startswith(before):
                break
            literal = rest[size:]
        return self._read(literals, at)

    def _read(self, literals: list[bytes], end: int) -> Deltas | None:
        self.end = end
        return self._one(literals[0]) if len(literals) == 1 else self._several(literals)

    def _one(self, literal: bytes) -> Deltas | None:
        try:
            text = orjson.loads(literal)
        except orjson.JSONDecodeError:
            return None
        if type(text) is not str or not text:  # an empty one is no event
            return None
        if len(literal) != len(text) + 2:
            # As a writer would spell it: a server may escape more than JSON asks for.
            literal = orjson.dumps(text)
        return Deltas(self._index, text, [text], [literal])

    def _several(self, literals: list[bytes]) -> Deltas | None:
        # A raw line end is no part of a string, so each literal is whole values, and as many values as there are
        # literals are one each.
        joined = b"\n,".join(literals)
        try:
            texts = orjson.loads(b"[" + joined + b"]")
            if len(texts) != len(literals) or "" in texts:
                return None
            said = "".join(texts)
        except (orjson.JSONDecodeError, TypeError):
            return None
        if not said:
            return None
        # No spelling is shorter than the bytes of its text in quotes, so equal sums are equal spellings.
        if len(joined) != len(said if said.isascii() else said.encode()) + 4 * len(texts) - 2:
            literals = [orjson.dumps(text) for text in texts]
        return Deltas(self._index, said, texts, literals)


def learn(frame: Frame, said: Delta, volatile: Volatile) -> Groove | None:
    """The groove of a frame that was read as just this text of a block; None if the place of the text is not sure."""
    data, text = frame.data, said.text
    assert data is not None
    try:
        spelled = orjson.dumps(text)
    except TypeError:  # half a surrogate pair
        return None
    if data.count(spelled) != 1 or b"\n" in data:
        return None
    before, _, after = data.partition(spelled)
    if not _only_string(data, before + _PROBE_LITERAL + after, text):
        return None
    name = b"event: %b\n" % frame.event.encode() if frame.event else b""
    heads, tails = _split(name + b"data: " + before, volatile.number, rb"(\d+)"), [after + _END]
    if len(heads) == 1 and len(tails := _split(tails[0], volatile.number, rb"(\d+)")) == 1:
        tails = _split(tails[0], volatile.padding, rb'"([0-9A-Za-z]+)"')
    return Groove(said.index, heads, tails)


def _split(data: bytes, key: bytes | None, value: bytes) -> list[bytes]:
    """`data` without the value of `key`, in two pieces; or as it is."""
    found = re.search(rb'"%b": ?%b' % (key, value), data) if key is not None else None
    if found is None:
        return [data]
    begin, end = found.span(1)
    return [data[:begin], data[end:]]


def _is_number(spelled: bytes) -> bool:
    return spelled.isdigit() and (len(spelled) == 1 or not spelled.startswith(b"0"))


def _only_string(data: bytes, probed: bytes, text: str) -> bool:
    """Is the one value of `data` that equals `text` the one that is the probe in `probed`."""
    try:
        told, tried = orjson.loads(data), orjson.loads(probed)
    except orjson.JSONDecodeError:
        return False
    found = 0
    waiting: list[tuple[Any, Any]] = [(told, tried)]
    while waiting:
        one, other = waiting.pop()
        if type(one) is not type(other):
            return False
        if type(one) is dict:
            if one.keys() != other.keys():
                return False
            waiting += [(value, other[key]) for key, value in one.items()]
        elif type(one) is list:
            waiting += zip(one, other, strict=True)
        elif one == text:
            if other != _PROBE:
                return False
            found += 1
    return found == 1

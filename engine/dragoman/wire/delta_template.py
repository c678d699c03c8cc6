"""Frames alike but for one text: how nearly all of a stream is read without parsing its JSON again and again.

Servers spell the deltas of a block alike: only the text changes, and in some dialects a running number or some padding.
Once a reader has read one, its bytes before and behind the text are known. What follows with the same bytes around
another JSON string is the same event with another text, because a string may stand wherever a string stood.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import orjson

from dragoman.canonical.events import Delta, TextRun
from dragoman.wire.sse import LF, Frame

_PROBE: Final = "\u2402 a text that no server sends \u2403"
_PROBE_LITERAL: Final = orjson.dumps(_PROBE)
_END: Final = b"\n\n"
_QUOTE: Final = 34
_tuple: Final = tuple.__new__
_WARMUP_DELTAS: Final = 3
"""Texts let go by at first: learning costs what a groove saves in four."""
_FRUITLESS: Final = 3
"""Grooves in a row that led nowhere, after which frames are let go by before the next is learnt."""


class VaryingKeys(NamedTuple):
    """The keys of a dialect's deltas that change from one to the next and mean nothing to its reader.

    `number` is an integer; `padding` a string of letters and digits behind the text.
    """

    number: bytes | None = None
    padding: bytes | None = None


class DeltaTemplate:
    """The bytes around the text of a block's deltas.

    `before` is what they begin with, `end` where the last run ended and `number` what varied in its last.
    """

    __slots__ = (
        "_after",
        "_beside",
        "_index",
        "_joint",
        "_margin",
        "_padded",
        "_size",
        "_tail",
        "_twice",
        "_varies",
        "before",
        "end",
        "number",
    )

    def __init__(self, index: int, before: list[bytes], after: list[bytes]) -> None:
        """`before` and `after` the string; one of them is two pieces if something varies between these."""
        self._index = index
        self.before = before[0]
        self._size = len(before[0])
        self._after = after[-1]
        self._varies = len(before) - len(after)
        """1 if something varies before the string, -1 behind it."""
        self._beside = before[1] if self._varies > 0 else after[0]
        """What stands between the string and what varies. No string holds it: it has quotes in it."""
        self._joint = self._after + self.before
        self._twice = 2 * len(self._joint) + len(self._beside)
        self._margin = len(self._beside)
        self._tail = len(self._after)
        self._padded = self._varies < 0 and self._after[0] == _QUOTE
        self.end = 0
        self.number = b""

    def only(self, data: bytes) -> TextRun | None:
        """The event of `data` if that is one such frame and no other, as nearly every read is.

        In one piece, as each call costs as much as a tenth of it.
        """
        size = len(data)
        stop = size - self._tail
        if size >= self._twice or not data.startswith(self.before) or not data.endswith(self._after):
            return None
        if not self._varies:
            literal = data[self._size : stop]
        elif self._varies > 0:
            cut = data.find(self._beside, self._size)
            number = data[self._size : cut]
            if cut < 0 or not _is_number(number):
                return None
            self.number = number
            literal = data[cut + self._margin : stop]
        else:
            cut = data.rfind(self._beside, self._size)
            varying = data[cut + self._margin : stop]
            if cut < 0 or not (varying.isalnum() if self._padded else _is_number(varying)):
                return None
            self.number = varying
            literal = data[self._size : cut]
        try:
            text = orjson.loads(literal)
        except orjson.JSONDecodeError:
            return None
        if type(text) is not str or not text:  # an empty one is no event
            return None
        if len(literal) != len(text) + 2:
            # As a writer would spell it: a server may escape more than JSON asks for.
            literal = orjson.dumps(text)
        self.end = size
        return _tuple(TextRun, (self._index, text, [text], [literal]))

    def run(self, data: bytes, at: int = 0) -> TextRun | None:
        """The longest run of such frames in `data`, which is whole frames, from `at` on; None if there is none."""
        if not at and (run := self.only(data)) is not None:
            return run
        if not data.startswith(self.before, at):
            return None
        if self._varies:
            return self._leading(data, at) if self._varies > 0 else self._trailing(data, at)
        start = at + self._size
        after = self._after
        # Splitting at what stands between two strings would be one call, but three times as slow: it is long.
        frames = data[at:].split(_END)
        frames.pop()
        tail = after[:-2]
        literals = [frame[self._size : -len(tail)] for frame in frames]
        if not data.endswith(after) or self._joint.join(literals) != data[start : -len(after)]:
            literals = []
            for frame in frames:
                if not frame.startswith(self.before) or not frame.endswith(tail):
                    break
                literals.append(frame[self._size : -len(tail)])
        return self._several(literals, at + sum(map(len, literals)) + len(self._joint) * len(literals), b"")

    def _leading(self, data: bytes, at: int) -> TextRun | None:
        """The same where a number before the string varies."""
        before, after, size, beside = self.before, self._after, self._size, self._margin
        number, *pieces = data[at + size :].split(self._beside)
        last = b""
        literals: list[bytes] = []
        for piece in pieces:
            literal, found, rest = piece.partition(after)
            if not found or not _is_number(number):
                break
            literals.append(literal)
            last = number
            at += size + len(number) + beside + len(literal) + len(after)
            if not rest.startswith(before):
                break
            number = rest[size:]
        return self._several(literals, at, last)

    def _trailing(self, data: bytes, at: int) -> TextRun | None:
        """The same where padding or a number behind the string varies."""
        before, after, size, beside = self.before, self._after, self._size, self._margin
        literal, *pieces = data[at + size :].split(self._beside)
        last = b""
        literals: list[bytes] = []
        for piece in pieces:
            varying, found, rest = piece.partition(after)
            if not found or not (varying.isalnum() if self._padded else _is_number(varying)):
                break
            literals.append(literal)
            last = varying
            at += size + len(literal) + beside + len(varying) + len(after)
            if not rest.startswith(before):
                break
            literal = rest[size:]
        return self._several(literals, at, last)

    def _several(self, literals: list[bytes], end: int, number: bytes) -> TextRun | None:
        self.end = end
        self.number = number
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
        return TextRun(self._index, said, texts, literals)

    def last_number(self) -> int:
        """The running number of the last frame; -1 if there is none."""
        return -1 if self._padded or not self.number else int(self.number)


class TemplateCache:
    """Learns the groove of whichever block speaks. `groove` is None as long as none is known.

    Streams whose frames are never alike are soon left in peace: what is learnt and leads nowhere costs ten frames.
    """

    __slots__ = ("_skipped", "_volatile", "fruitless", "template")

    def __init__(self, volatile: VaryingKeys) -> None:
        self._volatile = volatile
        self.fruitless = -_WARMUP_DELTAS
        """Below 0 at first: the shortest replies are over before anything could be gained."""
        self._skipped = 0
        self.template: DeltaTemplate | None = None

    def run(self, data: bytes, at: int) -> TextRun | None:
        """See `Groove.run`. Where there is none the groove is over, as what it meant may not hold behind it."""
        groove = self.template
        if groove is None:
            return None
        run = groove.run(data, at)
        if run is None:
            self.template = None
        else:
            self.fruitless = 0
        return run

    def learn(self, frame: Frame, said: Delta) -> bool:
        """Look at how a frame is spelled that was nothing but one text. Gives whether its groove is known now."""
        if self.fruitless < 0:
            self.fruitless += 1
            return False
        if self.fruitless >= _FRUITLESS:
            self._skipped += 1
            if self._skipped < 1 << min(self.fruitless, 10):
                return False
            self._skipped = 0
        self.fruitless += 1
        self.template = learn(frame, said, self._volatile)
        return self.template is not None


def learn(frame: Frame, said: Delta, volatile: VaryingKeys) -> DeltaTemplate | None:
    """The groove of a frame that was read as just this text of a block; None if the place of the text is not sure."""
    data, text = frame.data, said.text
    assert data is not None
    try:
        spelled = orjson.dumps(text)
    except TypeError:  # half a surrogate pair
        return None
    if data.count(spelled) != 1 or LF in data:
        return None
    before, _, after = data.partition(spelled)
    if not _only_string(data, before + _PROBE_LITERAL + after, text):
        return None
    name = b"event: %b\n" % frame.event.encode() if frame.event else b""
    heads, tails = _split(name + b"data: " + before, volatile.number, rb"(\d+)"), [after + _END]
    if len(heads) == 1 and len(tails := _split(tails[0], volatile.number, rb"(\d+)")) == 1:
        tails = _split(tails[0], volatile.padding, rb'"([0-9A-Za-z]+)"')
    return DeltaTemplate(said.index, heads, tails)


def _split(data: bytes, key: bytes | None, value: bytes) -> list[bytes]:
    """`data` without the value of `key`, in two pieces; or as it is."""
    found = re.search(rb'"%b": ?%b' % (key, value), data) if key is not None else None
    if found is None:
        return [data]
    begin, end = found.span(1)
    return [data[:begin], data[end:]]


def _is_number(spelled: bytes) -> bool:
    # Bounded, as Python refuses to read a number of some thousand digits.
    return spelled.isdigit() and len(spelled) < 19 and (len(spelled) == 1 or not spelled.startswith(b"0"))


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

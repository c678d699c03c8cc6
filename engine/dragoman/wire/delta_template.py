"""Delta templates: the fast path that reads nearly all of a stream without parsing its JSON.

Servers serialize the deltas of a block alike: only the text changes, and in some dialects a sequence number or padding.
Once a reader has parsed one, the bytes before and after its text are a template. A frame with the same bytes around
another JSON string is the same event with another text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

from dragoman.canonical.events import Delta, TextRun, text_run
from dragoman.wire.sse import LF

_PROBE: Final = "\u2402 a text that no server sends \u2403"
_PROBE_LITERAL: Final = orjson.dumps(_PROBE)
_END: Final = b"\n\n"
_QUOTE, _BACKSLASH = b'"\\'
_ZERO: Final = 48
_DIGITS: Final = 18
"""Most digits of a number: Python rejects one of some thousand."""
_WARMUP_DELTAS: Final = 1
"""Deltas without a template at the beginning: learning one costs what it saves in two frames."""
_FRUITLESS: Final = 3
"""Consecutive templates without a match, after which frames are skipped before the next is learnt."""


RunCallback = Callable[[str, list[str]], bool]
"""Records the texts of a run: all together, and each. Returns False, and records nothing, if they exceed a limit."""


class VaryingKeys(NamedTuple):
    """The keys of a dialect's deltas that change from one to the next and that its reader ignores.

    `number` is an integer, `padding` a string of letters and digits after the text.
    """

    number: bytes | None = None
    padding: bytes | None = None


class DeltaTemplate:
    """The bytes around the text of a block's deltas, and around a value that varies next to it, if one does.

    The forms of a frame, with the bytes that are compared below it; what is between them is read:

        data: {"text":"Hi"}\\n\\n                   only the text
        [   before   ]    [after]
        data: {"order":7,"text":"Hi"}\\n\\n         a number before it
        [    before   ] [middle]    [after]
        data: {"text":"Hi","order":7}\\n\\n         a number after it
        [   before   ]    [ middle] [after]
        data: {"text":"Hi","padding":"x9"}\\n\\n    padding after it
        [   before   ]    [  middle  ]  [after ]

    `end` is the end of the last run, and `number` the varying value of its last frame.
    """

    __slots__ = (
        "_after",
        "_index",
        "_margin",
        "_middle",
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
        """`before` and `after` are the bytes around the string. One of them is two pieces if a value varies there."""
        self._index = index
        self.before = before[0]
        self._size = len(before[0])
        self._after = after[-1]
        self._tail = len(self._after)
        self._varies = len(before) - len(after)
        """1 if a value varies before the string, -1 if one varies after it, else 0."""
        self._middle = before[1] if self._varies > 0 else after[0]
        """The bytes between the string and the varying value. No string contains them, as they contain quotes."""
        self._margin = len(self._middle)
        self._padded = self._varies < 0 and self._after[0] == _QUOTE
        self._twice = 2 * (self._size + self._tail) + self._margin
        """No two frames are shorter."""
        self.end = 0
        self.number = b""

    def only(self, data: bytes) -> TextRun | None:
        """Return the run of `data` if it is exactly one such frame, as nearly every read is; else None.

        It is `_match` in the same function, as a call costs a tenth of it, but for the number 0, which `run` reads.
        """
        size = len(data)
        stop = size - self._tail
        # A slice takes less time than `startswith`.
        if size >= self._twice or data[: self._size] != self.before or data[stop:] != self._after:
            return None
        if not self._varies:
            literal = data[self._size : stop]
        elif self._varies > 0:
            cut = data.find(self._middle, self._size)
            number = data[self._size : cut]
            if cut < 0 or not number.isdigit() or number[0] == _ZERO or len(number) > _DIGITS:
                return None
            self.number = number
            literal = data[cut + self._margin : stop]
        else:
            cut = data.rfind(self._middle, self._size)
            varying = data[cut + self._margin : stop]
            if cut < 0 or not (varying.isalnum() if self._padded else _is_number(varying)):
                return None
            self.number = varying
            literal = data[self._size : cut]
        try:
            text = orjson.loads(literal)
        except orjson.JSONDecodeError:
            return None
        if type(text) is not str or not text:  # an empty text is not an event
            return None
        if len(literal) != len(text) + 2:
            # Serialized as a writer does: a server may escape more than JSON requires.
            literal = orjson.dumps(text)
        self.end = size
        run = TextRun()
        run.index = self._index
        run.text = text
        run.pieces = [text]
        run.encoded = [literal]
        return run

    def run(self, data: bytes, at: int = 0) -> TextRun | None:
        """Return the longest run of such frames in `data` (complete frames) from `at` on, or None."""
        if not at and (run := self.only(data)) is not None:
            return run
        literals: list[bytes] = []
        # The text has no raw line end. One byte is found in a tenth of the time that two take.
        while (end := data.find(b"\n", at + self._size) + 2) > 1 and (
            literal := self._match(data, at, end)
        ) is not None:
            literals.append(literal)
            at = end
        if not literals:
            return None
        self.end = at
        # No string contains a raw line end, so each literal is complete values, and as many values as literals are one
        # each.
        joined = b"\n,".join(literals)
        try:
            texts = orjson.loads(b"[" + joined + b"]")
            if len(texts) != len(literals) or "" in texts:
                return None
            text = "".join(texts)
        except (orjson.JSONDecodeError, TypeError):
            return None
        # No literal is shorter than its text in quotes, so equal sums mean equal literals.
        if len(joined) != len(text if text.isascii() else text.encode()) + 4 * len(texts) - 2:
            literals = [orjson.dumps(piece) for piece in texts]
        return text_run(self._index, text, texts, literals)

    def _match(self, data: bytes, at: int, end: int) -> bytes | None:
        """Return what is in the text's place in the frame from `at` to `end`, None if the frame has another form.

        `number` becomes the value that varies.
        """
        start, stop = at + self._size, end - self._tail
        if data[at:start] != self.before or data[stop:end] != self._after:
            return None
        if not self._varies:
            return data[start:stop]
        if self._varies > 0:
            cut = data.find(self._middle, start, stop)
            varying, literal = data[start:cut], data[cut + self._margin : stop]
        else:
            cut = data.rfind(self._middle, start, stop)
            varying, literal = data[cut + self._margin : stop], data[start:cut]
        if cut < 0 or not (varying.isalnum() if self._padded else _is_number(varying)):
            return None
        self.number = varying
        return literal

    def last_number(self) -> int:
        """Return the sequence number of the last frame; -1 if it has no number."""
        return -1 if self._padded or not self.number else int(self.number)


class TemplateCache:
    """Holds the template of the current block, if one was learnt.

    Learning a template costs as much as reading a frame, so it is tried less and less often in a stream whose frames
    match none.
    """

    __slots__ = ("_skipped", "_varying", "fruitless", "template")

    def __init__(self, varying: VaryingKeys) -> None:
        self._varying = varying
        self.fruitless = -_WARMUP_DELTAS
        """Templates without a match so far. Below 0 at first, as nothing is gained in the shortest replies."""
        self._skipped = 0
        self.template: DeltaTemplate | None = None

    def learn(self, head: bytes, data: bytes, delta: Delta) -> bool:
        """Learn the template of a frame that was read as one delta. Return True if there is a template now.

        `head` is its event line, `data` its data.
        """
        if self.fruitless < 0:
            self.fruitless += 1
            return False
        if self.fruitless >= _FRUITLESS:
            self._skipped += 1
            if self._skipped < 1 << min(self.fruitless, 10):
                return False
            self._skipped = 0
        self.fruitless += 1
        self.template = learn(head, data, delta, self._varying)
        return self.template is not None


def learn(head: bytes, data: bytes, delta: Delta, varying: VaryingKeys) -> DeltaTemplate | None:
    """Return the template of a frame that was read as `delta`, or None if the place of its text is ambiguous.

    `head` is the frame's event line, b"" if it has none. `data` is valid JSON, and `delta` has the text of one of its
    values.
    """
    text = delta.text
    try:
        literal = orjson.dumps(text)
    except TypeError:  # half a surrogate pair
        return None
    if data.count(literal) != 1 or LF in data:
        return None
    before, _, after = data.partition(literal)
    if not is_sole_value(data, before, after, text):
        return None
    heads, tails = _split(head + b"data: " + before, varying.number, rb"(\d+)"), [after + _END]
    if len(heads) == 1 and len(tails := _split(tails[0], varying.number, rb"(\d+)")) == 1:
        tails = _split(tails[0], varying.padding, rb'"([0-9A-Za-z]+)"')
    return DeltaTemplate(delta.index, heads, tails)


def _split(data: bytes, key: bytes | None, value: bytes) -> list[bytes]:
    """Return the two parts of `data` around the value of `key`, or `data` if it has none."""
    found = _pattern(key, value).search(data) if key is not None else None
    if found is None:
        return [data]
    begin, end = found.span(1)
    return [data[:begin], data[end:]]


@cache
def _pattern(key: bytes, value: bytes) -> re.Pattern[bytes]:
    return re.compile(rb'"%b": ?%b' % (key, value))


def _is_number(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= _DIGITS and (len(digits) == 1 or not digits.startswith(b"0"))


def is_sole_value(data: bytes, before: bytes, after: bytes, text: str) -> bool:
    """True if the bytes between `before` and `after` are a value, and no other string of `data` equals `text`.

    They occur once in `data`.
    """
    if _BACKSLASH not in data:
        # Quotes only begin and end strings, and equal strings are equal bytes.
        return before.count(b'"') % 2 == 0 and not after.lstrip().startswith(b":")
    return _is_sole_string(data, before + _PROBE_LITERAL + after, text)


def _is_sole_string(data: bytes, probed: bytes, text: str) -> bool:
    """True if the only value of `data` that equals `text` is the one that is the probe in `probed`."""
    try:
        original, changed = orjson.loads(data), orjson.loads(probed)
    except orjson.JSONDecodeError:
        return False
    found = 0
    waiting: list[tuple[Any, Any]] = [(original, changed)]
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

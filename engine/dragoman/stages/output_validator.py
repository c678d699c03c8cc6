"""What goes out is judged, as the client's SDK would: the last stage, which encodes and looks at what it encoded.

It knows nothing of what the writer believes. A frame that opens, closes or finishes something is read and held against
the state that the frames before it made. A text is read once per block: another frame that begins alike is the same
event with another text, so only its beginning is compared, which is nearly all of a stream (see `groove`). What that
leaves unseen is told in `docs/explanation/validator.md`.

A breach is told once per stream, in `ReplyContext.violation`. Nothing is changed in the stream, as most clients get
over most breaches, and none over an error in its place; and nothing more of it is looked at.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from dragoman.canonical.request import Json
from dragoman.reply_context import ReplyContext
from dragoman.stages.violation import Violation, masked
from dragoman.wire.json_codec import loads
from dragoman.wire.sse import CR, LF, Encoder, Frame, FrameBatch, encode

_BLANK: Final = b"\n\n"
_KNOWN_MAX: Final = 16
"""Blocks that speak in turn whose beginnings are kept; with one more they are all learnt anew."""


class GrammarError(Exception):
    """A rule that a frame breaks, in words of ours."""


_MISFITS: Final = (GrammarError, TypeError, ValueError, LookupError, AttributeError, RecursionError)
"""What reading a frame may raise: a member of a type that no rule foresees must not end the stream."""


class SoleText(NamedTuple):
    """What a frame says that is nothing but one text: the key and the text. Without a text it is let go by."""

    key: bytes = b""
    text: str = ""


NO_CHANGE: Final = SoleText()
"""A frame that changes nothing, and from which nothing is learnt."""


class Template(NamedTuple):
    """What the texts of a block begin with, quote included, the next that does not begin so, and how they end."""

    low: bytes
    high: bytes
    tail: bytes


class Validator(Encoder):
    """The encoding stage that judges; a subclass per dialect knows the grammar.

    `feed` takes whole frames, as writers give them; `see` takes bytes however they were cut.
    """

    __slots__ = (
        "_high",
        "_known",
        "_longest",
        "_low",
        "_most",
        "_rest",
        "_tail",
        "context",
        "ended",
        "over",
        "position",
    )

    def __init__(self, context: ReplyContext) -> None:
        self.done = False
        self.context = context
        self.position = 0
        """How many frames came, texts and signs of life aside."""
        self.ended = False
        """Was the terminal frame seen."""
        self.over = False
        """Is nothing more to be looked at."""
        self._rest = b""
        self._known: tuple[Template, ...] = ()
        self._low = self._high = self._tail = b""
        """Of the block that speaks, as in `Known`."""
        self._most = 0
        """Frames below this length are looked at for their beginning only: one as long was judged as a whole."""
        self._longest = 0
        """Runs of frames below this length are held against the first and the last of them only."""

    def feed(self, frames: FrameBatch, /) -> bytes:
        """The bytes of all frames, as they are."""
        if type(frames) is bytes:
            if not (self._low <= frames < self._high and len(frames) < self._most) and not self.over:
                self._judge(frames)
            return frames
        out = []
        for frame in frames:
            if not isinstance(frame, Frame):
                assert type(frame) is bytes
                out.append(self.feed(frame))
                continue
            data = encode(frame)
            out.append(data)
            if self.over:
                continue
            name = frame.event
            # Texts have the one name of a delta, or none.
            if not (self._known and (not name or name.endswith("delta")) and self.matches_template(data)):
                self._take(name, frame.data, data)
        return out[0] if len(out) == 1 else b"".join(out)

    def feed_bytes(self, data: bytes) -> None:
        """Judge bytes that may begin and end anywhere, as of a recorded stream."""
        *frames, self._rest = (self._rest + data).split(_BLANK)
        for frame in frames:
            self.feed(frame + _BLANK)

    def finish(self) -> bytes:
        """The stream is over: nothing is held back, but it is a breach if it has no end."""
        if not self.over and (self._rest or not self.ended):
            self._report(Violation("a frame without its end" if self._rest else "no terminal frame", "", self.position))
        return b""

    # --- frames --------------------------------------------------------------------------------------------------

    def _judge(self, data: bytes) -> None:
        """Bytes of whole frames."""
        if self._known and self.matches_template(data):
            return
        if not data.endswith(_BLANK):
            self._report(Violation("a frame without its blank line", "", self.position))
            return
        frames = data[:-2].split(_BLANK)
        for frame in frames:
            whole = frame + _BLANK
            if self.over or (len(frames) > 1 and self._known and self.matches_template(whole)):
                continue
            name, line = b"", frame
            if frame.startswith(b"event: "):
                name, _, line = frame.partition(b"\n")
            if line.startswith(b"data: ") and LF not in line and CR not in frame:
                self._take(name[7:].decode("utf-8", "replace"), line[6:], whole)
            elif frame.startswith(b":") and LF not in frame:
                self._take("", None, whole)
            else:
                self._report(Violation("a frame that is not a name and one line of data", "", self.position))

    def _take(self, name: str, payload: bytes | None, data: bytes) -> None:
        """One frame that is not known; `data` is all of it."""
        try:
            if self.ended:
                raise GrammarError("something behind the terminal frame")
            if payload is None:
                return
            said = self.read(name, payload)
            if said is None:
                self.position += 1
                if self._known:
                    self.drop_template()
                if not self.ended:
                    self.restore_templates(name)
            elif said.text:
                self._learn(data, said)
        except _MISFITS as misfit:
            rule = str(misfit) if type(misfit) is GrammarError else "a frame of another shape than any of the dialect"
            self._report(Violation(rule, _own_name(payload or b""), self.position, masked(payload or b"")))

    def _report(self, violation: Violation) -> None:
        self.over = True
        self.drop_template()
        self.context.violation = violation

    def read(self, name: str, payload: bytes) -> SoleText | None:
        """Judge one frame by its name and payload. Gives what it says if it changes nothing else. Raises `Breach`."""
        raise NotImplementedError

    # --- texts ---------------------------------------------------------------------------------------------------

    def matches_template(self, data: bytes) -> bool:
        """Is it texts of one block that begin like one that was judged, and end like it."""
        low, tail = self._low, self._tail
        if not low or not data.startswith(low):
            for known in self._known:
                if data.startswith(known.low):
                    self._low, self._high, self._tail = low, _, tail = known
                    self._most = self._longest = 0
                    break
            else:
                return False
        if not data.endswith(tail):
            return False
        size = len(data)
        if size < self._most:
            return True
        if size < 2 * (len(low) + len(tail)):
            if not is_text(data, len(low), len(tail)):
                return False
            self._most = size + 1
        elif size < self._longest:
            last = data.rfind(_BLANK, 0, -2)
            return last < 0 or data.startswith(low, last + 2)
        else:
            if data.count(tail + low) + 1 != data.count(b"\n") / (low.count(b"\n") + 2):
                return False
            self._longest = size + 1
        return True

    def _learn(self, data: bytes, said: SoleText) -> None:
        """Keep how a frame begins and ends that was judged and says this text."""
        try:
            spelled = orjson.dumps(said.text)
        except TypeError:  # half a surrogate pair
            return
        pair = b'"%b":%b' % (said.key, spelled)
        if data.count(pair) == 1:
            at = data.index(pair) + len(pair) - len(spelled)
            self.set_template(data[: at + 1], data[at + len(spelled) - 1 :], len(data))

    def set_template(self, low: bytes, tail: bytes, size: int) -> None:
        """What comes next may begin and end so; `size` is the length of the frame that did."""
        known = Template(low, low[:-1] + b"#", tail)
        self._low, self._high, self._tail = known
        self._most, self._longest = size + 1, 0
        self.add_template(known)

    def add_template(self, known: Template) -> None:
        """A frame may begin so."""
        self._known = (*self._known, known) if len(self._known) < _KNOWN_MAX else (known,)

    def restore_templates(self, name: str) -> None:
        """A frame of this name changed something: offer what is known from other streams of what may come now."""

    def drop_template(self) -> None:
        """Whatever was alike may not be allowed any more."""
        self._low = self._high = self._tail = b""
        self._known = ()


def is_text(data: bytes, head: int, tail: int) -> bool:
    """Is there a JSON string in a frame, whose first `head` and last `tail` bytes hold its quotes."""
    try:
        return type(orjson.loads(data[head - 1 : 1 - tail])) is str
    except orjson.JSONDecodeError:
        return False


def _own_name(payload: bytes) -> str:
    """A frame's own word for what it is, as far as it may be a word of the dialects."""
    try:
        value = loads(payload)
    except (ValueError, RecursionError):
        return ""
    if type(value) is not dict:
        return ""
    name = str(value.get("type") or value.get("object") or ("error" if "error" in value else ""))
    return name if len(name) <= 60 and name.replace(".", "").replace("_", "").isalpha() else ""


# --- what the grammars share ------------------------------------------------------------------------------------------


def payload_of(data: bytes) -> Json:
    """A frame's JSON object. Raises `Breach`."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = loads(data)  # what orjson alone refuses
        except (ValueError, RecursionError):
            raise GrammarError("a frame that is not JSON") from None
    if type(value) is not dict:
        raise GrammarError("a frame that is not a JSON object")
    return value


def member(value: Any, key: str, kind: type) -> Any:
    """A member of an object that must be there and of this type (a bool is no integer). Raises `Breach`."""
    found = value.get(key) if type(value) is dict else None
    if type(found) is not kind:
        raise GrammarError(f"no {key} where one is due, or of another type")
    return found


def counted(usage: Any, *keys: str) -> Json:
    """Token counts, all of `keys` among them. Raises `Breach`."""
    if type(usage) is not dict:
        raise GrammarError("usage is not an object")
    get = usage.get
    for key in keys:
        if type(count := get(key)) is not int or count < 0:
            raise GrammarError(f"usage without a count of {key}")
    return usage

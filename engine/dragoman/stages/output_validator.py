"""The last stage of a translated stream: encodes the frames, and checks them as a strict client would.

It shares no state with the writer. A frame that starts, ends or finishes something is parsed and compared with the
state that the frames before it resulted in. A text is parsed once per block: another frame with the same beginning is
the same event with another text, so only its beginning is compared. That covers nearly all of a stream; its blind spots
are listed in `docs/explanation/validator.md`.

The first violation of a stream is recorded in `ReplyContext.violation`, and the rest is not checked. The stream itself
is never changed: most clients tolerate most violations, and none tolerates an error in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from dragoman.canonical.request import Json
from dragoman.reply_context import ReplyContext
from dragoman.stages.violation import Violation, masked
from dragoman.wire.json_codec import loads
from dragoman.wire.sse import CR, LF, Encoder, Frame, FrameBatch, encode

_BLANK: Final = b"\n\n"
_KNOWN_MAX: Final = 16
"""The number of templates kept, for blocks whose texts alternate. One more drops them all."""


class GrammarError(Exception):
    """A frame violates a rule of the grammar, which the message describes."""


_MALFORMED: Final = (GrammarError, TypeError, ValueError, LookupError, AttributeError, RecursionError)
"""The exceptions of reading a frame. A member of an unexpected type must not end the stream."""


class SoleText(NamedTuple):
    """The key and text of a frame that is only a text delta. No template is learnt from an empty text."""

    key: bytes = b""
    text: str = ""


NO_CHANGE: Final = SoleText()
"""The result for a frame that changes no state and gets no template."""


class Template(NamedTuple):
    """The first bytes of a block's text deltas (quote included), the next higher bytes, and the last bytes."""

    low: bytes
    high: bytes
    tail: bytes


class Validator(Encoder):
    """Encodes frames and checks them. A subclass per dialect knows its grammar.

    `feed` takes complete frames, as writers return them.
    """

    __slots__ = (
        "_high",
        "_known",
        "_longest",
        "_low",
        "_most",
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
        """The number of frames so far, apart from texts and keep-alives."""
        self.ended = False
        """True once the terminal frame was written."""
        self.over = False
        """True once the stream is not checked any further."""
        self._known: tuple[Template, ...] = ()
        self._low = self._high = self._tail = b""
        """The template of the current block."""
        self._most = 0
        """Only the beginning of frames below this length is compared: one of that length was checked completely."""
        self._longest = 0
        """Of runs of frames below this length only the first and the last frame are compared."""

    def feed(self, frames: FrameBatch, /) -> bytes:
        """Returns the bytes of all frames."""
        if isinstance(frames, bytes):
            if not (self._low <= frames < self._high and len(frames) < self._most) and not self.over:
                self._judge(frames)
            return frames
        encoded = [frame if isinstance(frame, bytes) else encode(frame) for frame in frames]
        data = b"".join(encoded)
        if not self.over:
            # The first and the last frames of most streams differ in a few values only.
            taken = 0 if self.ended else self.take_usual(data)
            if self._known and taken < len(data):
                taken = self._take_texts(data, taken)
            if taken < len(data):
                self._judge_each(frames, encoded, taken)
        return data

    def _take_texts(self, data: bytes, taken: int) -> int:
        """Takes the texts that follow the first `taken` bytes, and the frames after them if they have a known form.

        Returns the number of bytes that have been taken.
        """
        end = self.texts_end(data, taken)
        if end == taken or not self.matches_template(data[taken:end]):
            return taken
        return end + self.take_usual(data[end:]) if end < len(data) else end

    def _judge_each(self, frames: Sequence[Frame | bytes], encoded: Sequence[bytes], taken: int) -> None:
        """Checks each of several frames after the first `taken` bytes. `encoded` has the bytes of each."""
        end = 0
        for frame, piece in zip(frames, encoded, strict=True):
            start = end
            end += len(piece)
            if end <= taken or self.over:
                continue
            if start < taken:
                self._judge(piece[taken - start :])
                continue
            name = "" if isinstance(frame, bytes) else frame.event
            # The event name of a text ends with "delta", or is empty.
            if self._known and (not name or name.endswith("delta")) and self.matches_template(piece):
                continue
            if isinstance(frame, bytes):
                self._judge(piece)
            else:
                self._take(name, frame.data, piece)

    def finish(self) -> bytes:
        """Returns nothing, as no bytes are held back. A stream without its terminal frame is a violation."""
        if not self.over and not self.ended:
            self._report(Violation("no terminal frame", "", self.position))
        return b""

    # --- frames --------------------------------------------------------------------------------------------------

    def take_usual(self, data: bytes) -> int:
        """Takes the frames at the start of `data` together, if they have a known form and are valid now.

        Returns the number of their bytes; 0 if each frame must be checked by itself.
        """
        return 0

    def _judge(self, data: bytes) -> None:
        """Checks the bytes of complete frames."""
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
        """Checks a frame that matches no template. `data` are all its bytes."""
        try:
            if self.ended:
                raise GrammarError("a frame after the terminal frame")
            if payload is None:
                return
            sole_text = self.read(name, payload)
            if sole_text is None:
                self.position += 1
                if self._known:
                    self.drop_template()
                if not self.ended:
                    self.restore_templates(name)
            elif sole_text.text:
                self._learn(data, sole_text)
        except _MALFORMED as error:
            rule = str(error) if type(error) is GrammarError else "a frame of an unknown form"
            self._report(Violation(rule, _own_name(payload or b""), self.position, masked(payload or b"")))

    def _report(self, violation: Violation) -> None:
        self.over = True
        self.drop_template()
        self.context.violation = violation

    def read(self, name: str, payload: bytes) -> SoleText | None:
        """Checks one frame by its event name and payload. Returns its text if it changes no state.

        Raises GrammarError.
        """
        raise NotImplementedError

    # --- texts ---------------------------------------------------------------------------------------------------

    def texts_end(self, data: bytes, start: int) -> int:
        """Returns the end of the texts at `start`, which are not checked yet; `start` if no text begins there."""
        last = data.rfind(self._known[-1].low, start)
        return data.find(_BLANK, last) + 2 if last >= 0 else start

    def matches_template(self, data: bytes) -> bool:
        """True if `data` is text deltas of one block that begin and end like one that was checked."""
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

    def _learn(self, data: bytes, sole_text: SoleText) -> None:
        """Keeps the first and last bytes of a checked frame around its text."""
        try:
            literal = orjson.dumps(sole_text.text)
        except TypeError:  # half a surrogate pair
            return
        pair = b'"%b":%b' % (sole_text.key, literal)
        if data.count(pair) == 1:
            at = data.index(pair) + len(pair) - len(literal)
            self.set_template(data[: at + 1], data[at + len(literal) - 1 :], len(data))

    def set_template(self, low: bytes, tail: bytes, size: int) -> None:
        """Sets the template of the current block. `size` is the length of the frame that it was made from."""
        known = Template(low, low[:-1] + b"#", tail)
        self._low, self._high, self._tail = known
        self._most, self._longest = size + 1, 0
        self.add_template(known)

    def add_template(self, known: Template) -> None:
        """Keeps a template."""
        self._known = (*self._known, known) if len(self._known) < _KNOWN_MAX else (known,)

    def restore_templates(self, name: str) -> None:
        """Sets templates that other streams taught, after a frame with this name changed the state."""

    def drop_template(self) -> None:
        """Drops all templates, as the frames that match them may not be allowed now."""
        self._low = self._high = self._tail = b""
        self._known = ()


def is_text(data: bytes, head: int, tail: int) -> bool:
    """True if a frame has a JSON string between its first `head` and last `tail` bytes, which include the quotes."""
    try:
        return type(orjson.loads(data[head - 1 : 1 - tail])) is str
    except orjson.JSONDecodeError:
        return False


def _own_name(payload: bytes) -> str:
    """Returns a frame's type as its payload states it, if it may be one of a dialect; else ""."""
    try:
        value = loads(payload)
    except (ValueError, RecursionError):
        return ""
    if type(value) is not dict:
        return ""
    name = str(value.get("type") or value.get("object") or ("error" if "error" in value else ""))
    return name if len(name) <= 60 and name.replace(".", "").replace("_", "").isalpha() else ""


# --- functions for the grammars ---------------------------------------------------------------------------------------


def payload_of(data: bytes) -> Json:
    """Returns a frame's JSON object. Raises GrammarError."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = loads(data)  # orjson rejects some valid JSON
        except (ValueError, RecursionError):
            raise GrammarError("a frame that is not JSON") from None
    if type(value) is not dict:
        raise GrammarError("a frame that is not a JSON object")
    return value


def member(value: Any, key: str, kind: type) -> Any:
    """Returns a member of an object, which must have this type (a bool is not an integer). Raises GrammarError."""
    found = value.get(key) if type(value) is dict else None
    if type(found) is not kind:
        raise GrammarError(f"{key} is missing or has another type")
    return found


def counted(usage: Any, *keys: str) -> Json:
    """Returns token counts, which must include all of `keys`. Raises GrammarError."""
    if type(usage) is not dict:
        raise GrammarError("usage is not an object")
    get = usage.get
    for key in keys:
        if type(count := get(key)) is not int or count < 0:
            raise GrammarError(f"usage without a count of {key}")
    return usage

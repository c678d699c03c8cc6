"""Checks the bytes of one stream against the grammar of its dialect."""

from __future__ import annotations

from typing import Final

from dragoman.short_repr import short_repr
from dragoman.stages.grammar.values import GrammarError, Unchecked, require
from dragoman.stages.violation import Violation, masked
from dragoman.wire.json_codec import loads

LIMIT: Final = 1024 * 1024
"""Default of the bytes that a grammar keeps of one stream, and of its longest frame."""
_BLANK: Final = b"\n\n"
_OTHER: Final = (TypeError, ValueError, LookupError, AttributeError)
"""Exceptions of a grammar that lacks a check. The stream must not end with one."""


class Grammar:
    """The grammar of one stream of a dialect. `limit` bounds the bytes that it keeps."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.ended = False
        """True once the terminal frame was read."""
        self._left = limit

    def __repr__(self) -> str:
        return short_repr(self, "ended" if self.ended else "")

    def read(self, event: str, data: str | None) -> None:
        """Read one frame: its event name and its data, None for a comment. Raises GrammarError and Unchecked."""
        raise NotImplementedError

    def keep(self, size: int) -> None:
        """Count bytes that are kept until the end of the stream. Raises Unchecked beyond the limit."""
        self._left -= size
        if self._left < 0:
            raise Unchecked


class GrammarChecker:
    """Checks one stream. It takes complete frames, raises nothing and changes nothing.

    The rest of a stream is not checked after its first violation, nor once it is too large to be checked.
    """

    def __init__(self, grammar: Grammar, limit: int = LIMIT) -> None:
        self._grammar = grammar
        self._limit = limit
        self.violation: Violation | None = None
        """The first violation, or None."""
        self.over = False
        """True once the stream is not checked any further."""
        self.position = 0
        """The number of frames so far, comments included."""

    def __repr__(self) -> str:
        return short_repr(self, self._grammar, f"{self.position} frames", "over" if self.over else "")

    def feed(self, data: bytes) -> None:
        """Check the next frames, blank lines included."""
        if self.over or not data:
            return
        if not data.endswith(_BLANK):
            self._report("a frame without its blank line", None)
            self.over = True
            return
        for frame in data[:-2].split(_BLANK):
            if not self._check(frame):
                self.over = True
                return
            self.position += 1

    def finish(self) -> None:
        """Check the end of the stream."""
        if not self.over and not self._grammar.ended:
            self._report("no terminal frame", None)
        self.over = True

    def _check(self, frame: bytes) -> bool:
        """Check one frame without its blank line. Return False if the rest of the stream is not checked."""
        data: bytes | None = None
        try:
            if len(frame) > self._limit:
                raise Unchecked
            require(not self._grammar.ended, "a frame after the terminal frame")
            event, data = read_frame(frame)
            self._grammar.read(event, None if data is None else data.decode())
            return True
        except GrammarError as error:
            self._report(str(error), data)
        except (Unchecked, RecursionError):
            pass
        except UnicodeDecodeError:
            self._report("a frame that is not UTF-8", data)
        except _OTHER:
            self._report("a frame of an unknown form", data)
        return False

    def _report(self, rule: str, data: bytes | None) -> None:
        frame = "" if data is None else masked(data)
        self.violation = Violation(rule, _event_of(data or b""), self.position, frame)


def read_frame(frame: bytes) -> tuple[str, bytes | None]:
    """Return the event name and the data of a frame without its blank line. A comment has no data (None).

    Only LF, comments, at most one `event` line, which is first, and `data` lines are allowed: an `id` line followed by
    a comment crashes the OpenAI SDK's parser. Raises GrammarError, and UnicodeDecodeError for an event name.
    """
    require(frame and b"\r" not in frame, "a blank line that ends no frame, or a carriage return")
    lines = frame.split(b"\n")
    if all(line.startswith(b":") for line in lines):
        frame.decode()
        return "", None
    event = ""
    if lines[0].startswith(b"event: "):
        event = lines.pop(0)[7:].decode()
        require(event, "an event line without a name")
    require(lines and all(line.startswith(b"data: ") for line in lines), "a frame that is not a name and lines of data")
    return event, b"\n".join([line[6:] for line in lines])


def _event_of(data: bytes) -> str:
    """Return a frame's type as its data states it, if it may be one of a dialect; else ""."""
    try:
        value = loads(data)
    except (ValueError, RecursionError):
        return ""
    if type(value) is not dict:
        return ""
    name = str(value.get("type") or value.get("object") or ("error" if "error" in value else ""))
    return name if len(name) <= 60 and name.replace(".", "").replace("_", "").isalpha() else ""

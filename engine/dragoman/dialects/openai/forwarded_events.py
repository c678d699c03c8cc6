"""Event streams that are forwarded: token counts are read, secrets in errors are masked.

An error about the caller's own key ends the stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from dragoman.canonical.events import Usage
from dragoman.dialects import Dialect
from dragoman.dialects.errors.own_key import for_client
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.errors.redact import redact
from dragoman.dialects.openai.endpoint_usage import read_endpoint_usage
from dragoman.errors import Failure
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.stages.passthrough import ended
from dragoman.wire.json_codec import loads
from dragoman.wire.sse import Parser

_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\n\r\n", b"\r\r")
_LONGEST_END: Final = 4
_SEPARATOR: Final = re.compile(rb"(\r\n\r\n|\n\r?\n|\r\r)")
_TEXT: Final = re.compile(rb'"text" ?: ?"((?:[^"\\]++|\\.)*+)"')
"""A text of `completions`."""
_DONE: Final = re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)


class ForwardedEvents:
    """One event stream. Events are forwarded when they are complete, without other changes than masked secrets.

    `usage` are the token counts of the last event with any, `written` is about the number of characters of the texts of
    `completions`: a client may leave before the counts. `done` is True once the stream has sent `[DONE]`, after
    which clients read nothing. An event that exceeds `limits.sse_frame` is not held back any longer.

    With `own_key` (`ReplyContext.own_key`), an error about the caller's own key is not forwarded, nor what follows it:
    `failure` is that error.
    """

    __slots__ = ("_held", "_limits", "_own_key", "_secrets", "_size", "_tail", "done", "failure", "usage", "written")

    def __init__(self, limits: Limits = DEFAULT_LIMITS, secrets: Sequence[str] = (), own_key: str = "") -> None:
        self._limits = limits
        self._secrets = secrets
        self._own_key = own_key
        self._held: list[bytes] = []
        """The beginning of an event."""
        self._size = 0
        self._tail = b""
        """The last bytes of it, in which its end may begin."""
        self.usage: Usage | None = None
        self.written = 0
        self.done = False
        self.failure: Failure | None = None

    def feed(self, data: bytes) -> bytes:
        """Returns the bytes of the events that `data` completes."""
        seam = self._tail + data
        end = max(at + len(mark) if (at := seam.rfind(mark)) >= 0 else 0 for mark in _ENDS) - len(self._tail)
        self._size += len(data)
        if end <= 0:
            self._held.append(data)
            self._tail = seam[1 - _LONGEST_END :]
            return self._flush() if self._size > self._limits.sse_frame else b""
        whole, rest = b"".join((*self._held, data[:end])), data[end:]
        self._held, self._size, self._tail = [rest], len(rest), rest[1 - _LONGEST_END :]
        return self._read(whole)

    def finish(self) -> bytes:
        """Returns the bytes that are held back. A complete event gets its blank line: clients ignore one without."""
        rest = self._flush()
        frames = Parser(self._limits).parse(ended(rest)) if rest else []
        return ended(rest) if frames and _is_whole(frames[-1].data or b"") else rest

    def _flush(self) -> bytes:
        whole = b"".join(self._held)
        self._held, self._size, self._tail = [], 0, b""
        return self._read(whole)

    def _read(self, whole: bytes) -> bytes:
        """Read the events in `whole`, and return them without secrets in errors."""
        if self.failure is not None:
            return b""
        if b'"usage"' in whole:
            for frame in Parser(self._limits).parse(whole):
                if frame.data and b'"usage"' in frame.data:
                    self._read_usage(frame.data)
        if b'"choices"' in whole:
            self.written += sum(map(len, _TEXT.findall(whole)))
        if _DONE.search(whole) is not None:
            self.done = True
        if b'"error"' in whole:
            return b"".join(self._clean(_SEPARATOR.split(whole)))
        return whole

    def _clean(self, events: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the events, up to an error about the caller's own key."""
        for event in events:
            if b'"error"' in event:
                if self._own_key and self._is_about_own_key(event):
                    return
                event = redact(event.decode("utf-8", "surrogateescape"), self._secrets).encode(
                    "utf-8", "surrogateescape"
                )
            yield event

    def _is_about_own_key(self, event: bytes) -> bool:
        for frame in Parser(self._limits).parse(event + b"\n\n"):
            try:
                payload = loads(frame.data or b"")
            except ValueError:
                continue
            if type(payload) is dict and (payload.get("error") or payload.get("type") == "error"):
                failure = read_error_payload(payload, Dialect.CHAT)
                if for_client(failure, self._own_key) is not failure:
                    self.failure = failure
                    return True
        return False

    def _read_usage(self, data: bytes) -> None:
        try:
            found = read_endpoint_usage(loads(data))
        except ValueError:
            return
        if found is not None:
            self.usage = found


def _is_whole(data: bytes) -> bool:
    try:
        return data == b"[DONE]" or loads(data) is not None
    except ValueError:
        return False

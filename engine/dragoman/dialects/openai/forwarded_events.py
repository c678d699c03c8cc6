"""Event streams that are forwarded: token counts are read, secrets in errors are masked.

An error about the caller's own key ends the stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from dragoman.canonical.events import Usage
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects import Dialect
from dragoman.dialects.errors.own_key import for_client
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.errors.redact import redact
from dragoman.dialects.openai.endpoint_usage import note_endpoint_service, read_endpoint_usage
from dragoman.errors import Failure
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.wire.frame_scanner import FRAME, complete_frames, ended
from dragoman.wire.json_codec import loads
from dragoman.wire.sse_parser import Parser

_TEXT: Final = re.compile(rb'"text" ?: ?"((?:[^"\\]++|\\.)*+)"')
"""A text of `completions`."""
_DONE: Final = re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)


class ForwardedEvents:
    """One event stream. Events are forwarded when they are complete, without other changes than masked secrets.

    `usage` are the token counts of the last event with any, `service` is what the upstream stated about its service,
    `written` is about the number of characters of the texts of
    `completions`: a client may leave before the counts. `done` is True once the stream has sent `[DONE]`, after
    which clients read nothing. An event that exceeds `limits.sse_frame` is not held back any longer.

    With `own_key` (`ReplyContext.own_key`), an error about the caller's own key is not forwarded, nor what follows it:
    `failure` is that error.
    """

    __slots__ = (
        "_half_ended",
        "_held",
        "_limits",
        "_own_key",
        "_secrets",
        "done",
        "failure",
        "service",
        "usage",
        "written",
    )

    def __init__(self, limits: Limits = DEFAULT_LIMITS, secrets: Sequence[str] = (), own_key: str = "") -> None:
        self._limits = limits
        self._secrets = secrets
        self._own_key = own_key
        self._held: bytes | bytearray = b""
        """The beginning of an event."""
        self._half_ended = False
        """True if the last bytes end with a CR, whose line feed may follow."""
        self.usage: Usage | None = None
        self.service: ServiceReport | None = None
        self.written = 0
        self.done = False
        self.failure: Failure | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of the events that `data` completes."""
        whole, self._held = complete_frames(self._held, data)
        if len(self._held) > self._limits.sse_frame:
            whole, self._held = whole + self._held, b""
        if whole := self._read(whole):
            self._half_ended = whole.endswith(b"\n\r")
        return whole

    def finish(self) -> bytes:
        """Return the bytes that are held back. A complete event gets its blank line: clients ignore one without."""
        if not self._held:
            return b"\n" if self._half_ended else b""
        rest, self._held = self._read(bytes(self._held)), b""
        frames = Parser(self._limits).parse(ended(rest))
        return ended(rest) if frames and _is_whole(frames[-1].data or b"") else rest

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
            return b"".join(self._clean(whole))
        return whole

    def _clean(self, whole: bytes) -> Iterator[bytes]:
        """Yield the events, and what is between them, up to an error about the caller's own key."""
        at = 0
        for found in FRAME.finditer(whole):
            event = found[0]
            if b'"error"' not in event:
                continue
            yield whole[at : found.start()]
            at = found.end()
            if self._own_key and self._is_about_own_key(event):
                return
            yield redact(event.decode("utf-8", "surrogateescape"), self._secrets).encode("utf-8", "surrogateescape")
        yield whole[at:]

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
            payload = loads(data)
        except ValueError:
            return
        note_endpoint_service(payload, self)
        found = read_endpoint_usage(payload)
        if found is not None:
            self.usage = found


def _is_whole(data: bytes) -> bool:
    try:
        return data == b"[DONE]" or loads(data) is not None
    except ValueError:
        return False

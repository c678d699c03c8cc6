"""The observer of a stream whose bytes are forwarded: its end, usage, in-band errors and grammar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from dragoman.canonical.events import Usage
from dragoman.canonical.request import Json
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects import Dialect
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.read import read_error_event, read_error_payload
from dragoman.dialects.errors.redact import tidy
from dragoman.errors import Failure, UpstreamProtocolError, UpstreamStatusError
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.wire.delta_template import RunCallback, VaryingKeys
from dragoman.wire.json_codec import loads
from dragoman.wire.sse import COMMENT, Frame


class Observer:
    """Observes the frames of one stream. A subclass per dialect knows its grammar.

    `complete` is True once the stream may end, `closed` once no frame may follow; closed but not complete means that
    the terminal frame came too early. `failure` is an error that the upstream sent in-band. `violations` describe
    violations of the grammar. `fault` ends the stream: a violation, or an error in a form that the dialect's clients do
    not read. The last frame must not be forwarded then. `instead` are encoded frames that take the place of the last
    one, None if it is forwarded as it is; `repair` names what was missing, if anything was. `whole` is not None if the
    last frame held a complete reply in place of a stream: its JSON, empty if it is all of the frame.

    `odd` is True if clients would misread the last frame, although it has one meaning: the stream is translated from it
    on, by a reader that has read `so_far`. `holds` is True if that depends on the next frame. `harmless` is True if the
    last frame decides nothing about one that is held: it is forwarded before that.
    """

    __slots__ = (
        "closed",
        "complete",
        "content_parts",
        "counted",
        "failure",
        "fault",
        "harmless",
        "holds",
        "instead",
        "knobs",
        "lenient",
        "odd",
        "on_run",
        "progressed",
        "repair",
        "service",
        "several",
        "sole_text",
        "tool_open",
        "usage",
        "violations",
        "whole",
        "written",
    )

    dialect: ClassVar[Dialect]
    varying_keys: ClassVar[VaryingKeys] = VaryingKeys()
    """The keys of this dialect's deltas that change from one to the next, besides their text."""
    numbers_frames: ClassVar[bool] = False
    """True if `on_template` counts frames."""

    def __init__(self) -> None:
        self.sole_text: Any = None
        """The text of the last frame, if it was a delta whose text has no other effect. Unchecked JSON; else None."""
        self.tool_open = False
        """True while a tool call is open."""
        self.progressed = False
        """Set to True by every frame except keep-alives (mapping §9.8). The caller resets it."""
        self.complete = False
        self.closed = False
        self.lenient = False
        """True if the server is known to omit the terminal event (profile `message_stop`)."""
        self.knobs = DEFAULT_KNOBS
        self.usage: Usage | None = None
        self.service: ServiceReport | None = None
        """The statements of the upstream about its service."""
        self.counted = False
        """True if `usage` counts the whole output: servers also send counts before it is complete."""
        self.written = 0
        """The characters of texts, reasoning and arguments."""
        self.failure: Failure | None = None
        self.fault: Failure | None = None
        self.instead: bytes | None = None
        self.odd = False
        self.holds = False
        self.harmless = False
        self.content_parts = False
        """True if content may be an array of parts in this server's streams (profile `reasoning_key = thinking`)."""
        self.several = False
        """True if the client requested several replies in one."""
        self.on_run: RunCallback | None = None
        """Records the texts of frames like the last one; None if nothing has to."""
        self.repair = ""
        self.whole: bytes | None = None
        self.violations: list[str] = []

    def observe(self, data: bytes, event: str) -> None:
        """Observe one frame by its data and its event name."""
        self.sole_text = None
        if self.closed:
            return self.violation("a frame after the end")
        try:
            payload = loads(data)
        except ValueError:
            if event == "error":
                return self.refuse(read_error_event(data, self.dialect))
            self.fault = UpstreamProtocolError("upstream sent a stream frame that is not JSON").failure
            return self.violation("a frame that is not JSON")
        if event == "error" or type(payload) is not dict:
            return self._watch_odd(payload, event)
        self.watch(payload, event)

    def _watch_odd(self, payload: Any, event: str) -> None:
        """Observe an event named `error`, or one that is not a JSON object."""
        if event == "error" or reports_error(payload):
            return self.watch_error(payload, event)
        self.fault = UpstreamProtocolError("upstream sent a stream frame that is not a JSON object").failure
        self.violation("a frame that is not a JSON object")

    def watch_error(self, payload: Any, event: str) -> None:
        """Observe an error of the upstream, in any form."""
        failure = read_error_payload(payload, self.dialect)
        if type(payload) is not dict or not self.is_own_error(payload, event) or _is_packed(payload, failure):
            return self.refuse(failure)
        self.failure = failure
        self.closed = self.error_is_last

    def refuse(self, failure: Failure) -> None:
        """End the stream with an error of the upstream in a form that the dialect's clients do not read."""
        self.failure = self.fault = failure

    error_is_last: ClassVar[bool] = True
    """True if no frame follows an error."""

    def is_own_error(self, payload: Json, event: str) -> bool:
        """Return whether the dialect's clients read this error."""
        raise NotImplementedError

    def watch(self, payload: Json, event: str) -> None:
        """Observe one frame by its JSON object."""
        raise NotImplementedError

    def so_far(self) -> list[bytes]:
        """Return the data of frames that bring a reader to the state of the stream before an `odd` frame."""
        return []

    def settle(self) -> bool:
        """Note that the frame that was held has been decided. Return True if it is forwarded."""
        return True

    def check_stop(self, read: Callable[[str], object], native: object) -> None:
        """Make a stop reason that `read` rejects, as it reports an interrupted reply, the fault of the stream."""
        try:
            read(native if type(native) is str else "")
        except UpstreamStatusError as error:
            self.fault = error.failure

    def response_id(self) -> str | None:
        """Return the id of the response (Responses), or None if it is not known or the dialect has none."""
        return None

    def on_template(self, count: int, number: int) -> None:
        """Observe `count` frames like the last one, with other texts. `number` is the last one's sequence number."""

    def heartbeat(self) -> bytes:
        """Return an encoded heartbeat for this point of the stream."""
        return COMMENT

    def instead_of_comment(self) -> bytes | None:
        """Return the frame that takes the place of a comment of the upstream; None if it is forwarded."""
        return None

    def opening(self, request_id: str | None = None) -> bytes:
        """Return the frames that must precede an error here."""
        return b""

    def omitted_terminal(self) -> Frame | None:
        """Return the terminal event if it is all that is missing, and the server is known to omit it; else None."""
        return None

    def error_frame(self, failure: Failure, request_id: str | None = None) -> Frame:
        """Return an in-band error of the dialect."""
        raise NotImplementedError

    def violation(self, what: str) -> None:
        """Record a violation of the grammar. Only the first few are kept."""
        if len(self.violations) < 8:
            self.violations.append(what)


def _is_packed(payload: Json, failure: Failure) -> bool:
    """Return whether the message of an error holds JSON with the error that was read."""
    error = payload.get("error")
    text = error.get("message") if type(error) is dict else None
    return type(text) is str and "{" in text and tidy(text.strip()) != failure.message

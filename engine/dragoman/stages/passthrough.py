"""The stage for client and upstream of one dialect: it forwards the bytes unchanged and observes them.

Only complete frames are forwarded, so a stream that is cut inside one can still end in a well-formed error of the
dialect. That error is added to a stream that ends without its terminal event, which the official SDKs would take for
complete, and replaces a frame that no client could read. A frame whose data is empty is not forwarded: the SDKs cannot
read it. A complete reply in place of a stream, or in one frame, is read and written as a stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from dragoman.canonical.events import Delta, Usage
from dragoman.canonical.request import Json
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects import Dialect
from dragoman.dialects.errors.own_key import for_client
from dragoman.dialects.errors.read import read_error_event, read_error_payload, redact_failure, reports_error
from dragoman.dialects.errors.redact import redact, redact_json, tidy
from dragoman.errors import (
    DragomanError,
    Failure,
    LimitExceeded,
    StreamTruncated,
    UpstreamProtocolError,
    UpstreamStatusError,
)
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.stages.violation import Violation
from dragoman.tokens.stream_usage import CHARACTERS
from dragoman.wire.body_opening import BOM, Opening, begins_document
from dragoman.wire.delta_template import TemplateCache, VaryingKeys
from dragoman.wire.frame_scanner import (
    FRAME,
    after_line_ends,
    complete_frames,
    data_of,
    next_frame,
    parse_frame,
    usual_frame,
    with_data,
)
from dragoman.wire.json_codec import loads
from dragoman.wire.json_edit import JsonStringRewriter
from dragoman.wire.sse import COMMENT, CR, Frame, Parser, encode, is_blank

Edit = tuple[int, int, bytes]
"""A replacement of bytes: start, end, new bytes."""


class Observer:
    """Observes the frames of one stream. A subclass per dialect knows its grammar.

    `complete` is True once the stream may end, `closed` once no frame may follow; closed but not complete means that
    the terminal frame came too early. `failure` is an error that the upstream sent in-band. `violations` describe
    violations of the grammar. `fault` ends the stream: a violation, or an error in a form that the dialect's clients do
    not read. The last frame must not be forwarded then. `instead` are encoded frames that take the place of the last
    one, None if it is forwarded as it is; `repair` names what was missing, if anything was. `whole` is not None if the
    last frame held a complete reply in place of a stream: its JSON, empty if it is all of the frame.
    """

    __slots__ = (
        "closed",
        "complete",
        "counted",
        "failure",
        "fault",
        "instead",
        "knobs",
        "lenient",
        "progressed",
        "repair",
        "service",
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
        self.repair = ""
        self.whole: bytes | None = None
        self.violations: list[str] = []

    def observe(self, data: bytes, event: str) -> None:
        """Observes one frame by its data and its event name."""
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
        """Observes an event named `error`, or one that is not a JSON object."""
        if event == "error" or reports_error(payload):
            return self.watch_error(payload, event)
        self.fault = UpstreamProtocolError("upstream sent a stream frame that is not a JSON object").failure
        self.violation("a frame that is not a JSON object")

    def watch_error(self, payload: Any, event: str) -> None:
        """Observes an error of the upstream, in any form."""
        failure = read_error_payload(payload, self.dialect)
        if type(payload) is not dict or not self.is_own_error(payload, event) or _is_packed(payload, failure):
            return self.refuse(failure)
        self.failure = failure
        self.closed = self.error_is_last

    def refuse(self, failure: Failure) -> None:
        """Ends the stream with an error of the upstream in a form that the dialect's clients do not read."""
        self.failure = self.fault = failure

    error_is_last: ClassVar[bool] = True
    """True if no frame follows an error."""

    def is_own_error(self, payload: Json, event: str) -> bool:
        """Returns whether the dialect's clients read this error."""
        raise NotImplementedError

    def watch(self, payload: Json, event: str) -> None:
        """Observes one frame by its JSON object."""
        raise NotImplementedError

    def check_stop(self, read: Callable[[str], object], native: object) -> None:
        """Makes a stop reason that `read` rejects, as it reports an interrupted reply, the fault of the stream."""
        try:
            read(native if type(native) is str else "")
        except UpstreamStatusError as error:
            self.fault = error.failure

    def response_id(self) -> str | None:
        """Returns the id of the response (Responses), or None if it is not known or the dialect has none."""
        return None

    def on_template(self, count: int, number: int) -> None:
        """Observes `count` frames like the last one, with other texts. `number` is the last one's sequence number."""

    def heartbeat(self) -> bytes:
        """Returns an encoded heartbeat for this point of the stream."""
        return COMMENT

    def instead_of_comment(self) -> bytes | None:
        """Returns the frame that takes the place of a comment of the upstream; None if it is forwarded."""
        return None

    def opening(self, request_id: str | None = None) -> bytes:
        """Returns the frames that must precede an error here."""
        return b""

    def omitted_terminal(self) -> Frame | None:
        """Returns the terminal event if it is all that is missing, and the server is known to omit it; else None."""
        return None

    def error_frame(self, failure: Failure, request_id: str | None = None) -> Frame:
        """Returns an in-band error of the dialect."""
        raise NotImplementedError

    def violation(self, what: str) -> None:
        """Records a violation of the grammar. Only the first few are kept."""
        if len(self.violations) < 8:
            self.violations.append(what)


def _is_packed(payload: Json, failure: Failure) -> bool:
    """Returns whether the message of an error holds JSON with the error that was read."""
    error = payload.get("error")
    text = error.get("message") if type(error) is dict else None
    return type(text) is str and "{" in text and tidy(text.strip()) != failure.message


_USUAL_BEGINNINGS: Final = (b"data:", b"event:")


class Passthrough:
    """Forwards the bytes of a stream unchanged, and observes its frames.

    `begun` is True once an event was forwarded; `fault` is an error that this stage found. The same bytes are forwarded
    however they are split: complete frames, the blank lines between them, and nothing of a frame that ends the stream.
    """

    __slots__ = (
        "_deltas",
        "_document",
        "_first",
        "_heads",
        "_held",
        "_is_stream",
        "_limits",
        "_longest",
        "_losses",
        "_numbered",
        "_opening",
        "_renamer",
        "_replaced_cr",
        "_request_id",
        "_secrets",
        "_templates",
        "begun",
        "done",
        "fault",
        "observer",
        "own_key",
        "replay",
        "replayed",
    )

    def __init__(
        self,
        observer: Observer,
        renamer: JsonStringRewriter | None = None,
        limits: Limits = DEFAULT_LIMITS,
        request_id: str | None = None,
        losses: Losses | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        self.done = self.begun = False
        self.fault: Failure | None = None
        self.observer = observer
        self._templates = TemplateCache(observer.varying_keys)
        self._heads: tuple[bytes, bytes] | None = None
        """The first bytes of the template's frames, as received and with the model's name replaced."""
        self._renamer = renamer
        self._limits = limits
        self._longest = min(limits.sse_line, limits.sse_frame)
        self._request_id = request_id
        self._losses = losses
        self._secrets = secrets
        """Texts that are masked in an error of the upstream."""
        self.own_key = ""
        """As in `ReplyContext`."""
        self.replay: Callable[[bytes], bytes] = _no_replay
        """Returns the stream of a complete reply. Raises DragomanError."""
        self.replayed = False
        """True if the stream is that of a complete reply: its results are in the reply's context."""
        self._is_stream = False
        """True once it is known that this is an event stream."""
        self._opening: Opening | None = None
        """Finds the line that shows it, if it does not begin the body."""
        self._document: bytearray | None = None
        """The body so far, if it is a JSON document."""
        self._deltas = 0
        """The number of texts so far. Each is at least a token."""
        self._held: bytes | bytearray = b""
        """The beginning of a frame whose blank line has not arrived."""
        self._numbered = False
        """True once a frame with an id was forwarded."""
        self._replaced_cr = False
        """True if the last bytes were replaced and end with a CR, whose line feed may follow."""
        self._first = True
        """True until something was read: a byte order mark may follow."""

    def feed(self, data: bytes, /) -> bytes:
        """Returns the frames that `data` completes, with the model's name replaced; nothing after the terminal one."""
        observer, at = self.observer, 0
        if not self._is_stream:
            data = self._open(data)
            if self._document is not None and len(self._document) > self._limits.reply_body:
                self.done = True
                return self.error(LimitExceeded("reply_body", self._limits.reply_body, upstream=True).failure)
        if self._held or not data.endswith(b"\n\n"):
            data, self._held = complete_frames(self._held, data)
        elif (template := self._templates.template) is not None and len(data) <= self._longest:
            run = template.run(data)
            if run is not None:
                self._templates.fruitless = 0
                self._deltas += (count := len(run.pieces))
                observer.written += len(run.text)
                observer.on_template(count, template.last_number())
                self.begun = observer.progressed = True
                at = template.end
                if at == len(data):
                    return data if self._heads is None else data.replace(*self._heads)
        edits: list[Edit] = []
        end, fault = self._observe(data, at, edits)
        passed = data if end == len(data) else data[:end]
        if edits:
            pieces: list[bytes] = []
            at = 0
            for begin, stop, instead in edits:
                pieces += passed[at:begin], instead
                at = stop
            passed = b"".join((*pieces, passed[at:]))
            self._replaced_cr = at == len(data) and data.endswith(b"\r")
        if fault is None and not observer.closed and len(self._held) > self._longest:
            fault = self._too_long_so_far()
        if self._renamer is not None and passed:
            passed = self._rename(passed)
        if fault is not None or observer.closed or self.replayed:
            self.done = True
            self._held = b""
            if fault is not None:
                passed += self.error(fault)
            elif passed.endswith(b"\n\r"):  # the second half of a CR LF that is still on its way
                passed += b"\n"
        return passed

    def _open(self, data: bytes) -> bytes:
        """Returns the part of the first bytes that belongs to an event stream. A document is kept until its end."""
        if self._document is not None:
            self._document += data
            return b""
        if self._opening is None:
            if data.startswith(_USUAL_BEGINNINGS):
                self._is_stream, self._first = True, False
                return data
            self._opening = Opening()
        at = self._opening.find(data)
        if at < 0:
            return data
        if not begins_document(data, at):
            self._opening, self._is_stream = None, True
            return data
        self._document = bytearray(data[at:])
        return data[:at]

    def _observe(self, data: bytes, at: int, edits: list[Edit]) -> tuple[int, Failure | None]:
        """Observes complete frames from `at` on, and adds replacements of frames to `edits`.

        Returns the end of the frames to forward, and the fault of the frame after them.
        """
        observer, templates, size = self.observer, self._templates, len(data)
        measured = size > self._longest  # a frame may be too long
        odd = CR in data
        if self._replaced_cr and size:
            self._replaced_cr = False
            if data.startswith(b"\n"):
                edits.append((0, 1, b""))
        while at < size:
            if data[at] in b"\r\n":
                at = after_line_ends(data, at)
                self._first = False
                continue
            if (
                (template := templates.template) is not None
                and not measured
                and (run := template.run(data, at)) is not None
            ):
                templates.fruitless = 0
                self._deltas += (count := len(run.pieces))
                observer.written += len(run.text)
                observer.on_template(count, template.last_number())
                self.begun = observer.progressed = True
                at = template.end
                continue
            line, stop, end = next_frame(data, at, odd)
            if measured and (fault := self._too_long(data[at:stop])) is not None:
                return at, fault
            frames = self._frames(data, at, line, stop, end)
            for frame in frames:
                if frame.fault is not None:
                    return at, frame.fault.failure
                if not frame.data or is_blank(frame.data):
                    if frame.data is not None:
                        edits.append((at, end, b""))
                    elif len(frames) == 1 and (other := observer.instead_of_comment()) is not None:
                        edits.append((at, end, other))
                    continue
                templates.template = None
                if frame.id is not None:
                    self._numbered = True
                if frame.bare:
                    if not self._observe_bare(frame.data):
                        continue
                else:
                    observer.observe(frame.data, frame.event)
                if observer.whole is not None:
                    replayed, fault = self._replay(observer.whole or frame.data)
                    if fault is not None:
                        return at, fault
                    edits.append((at, end, replayed))
                    return end, None
                if observer.fault is not None:
                    return at, observer.fault
                if observer.instead is not None:
                    edits.append((at, end, self._instead()))
                elif observer.failure is not None and (clean := self._redacted(frame)) is not None:
                    edits.append((at, stop, clean[:-2]))  # its blank line stays
                if observer.closed:
                    if not observer.complete and observer.failure is None:
                        return at, StreamTruncated().failure  # the client would take the reply for complete
                    self.begun = True
                    return end, None
                self.begun = True
                if type(text := observer.sole_text) is str and text:
                    self._deltas += 1
                    if line >= 0:
                        templates.learn(data[at:line], frame.data, Delta(0, text))
                        self._note_heads(frame.data)
            at = end
        return at, None

    def _frames(self, data: bytes, at: int, line: int, stop: int, end: int) -> Sequence[Frame]:
        """Returns the frames of the complete frame at these places. The first one may begin with a byte order mark."""
        first, self._first = self._first, False
        if line >= 0:
            return (usual_frame(data, at, line, stop),)
        return parse_frame(data[at:end].removeprefix(BOM) if first else data[at:end], self._limits)

    def _observe_bare(self, data: bytes) -> bool:
        """Observes JSON without a field name. Returns False if it is no error: clients ignore it."""
        payload = loads(data)
        if not reports_error(payload):
            return False
        self.observer.refuse(read_error_payload(payload, self.observer.dialect))
        return True

    def _instead(self) -> bytes:
        """Returns the frames that take the place of the last one."""
        observer = self.observer
        instead, observer.instead = observer.instead, None
        if observer.repair and self._losses is not None:
            self._losses.add_once(LossCode.REPLY_REPAIRED, "", observer.repair)
        assert instead is not None
        return instead

    def _too_long(self, frame: bytes) -> Failure | None:
        """Returns the failure for the limit that a frame exceeds first when read byte by byte, or None."""
        limits = self._limits
        if len(frame) <= self._longest:
            return None
        lines = frame[: limits.sse_frame].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if max(map(len, lines)) > limits.sse_line:
            return LimitExceeded("sse_line", limits.sse_line, upstream=True).failure
        if len(frame.rstrip(b"\r\n")) > limits.sse_frame:
            return LimitExceeded("sse_frame", limits.sse_frame, upstream=True).failure
        return None

    def _too_long_so_far(self) -> Failure | None:
        """Returns the failure for a limit that the held frame exceeds, or None."""
        held = self._held
        line = len(held) - 1 - max(held.rfind(b"\n"), held.rfind(b"\r", 0, len(held) - 1))
        if line > self._limits.sse_line or len(held) - 2 > self._limits.sse_frame:
            return self._too_long(bytes(held))
        return None

    def _redacted(self, frame: Frame) -> bytes | None:
        """Returns the frame of an upstream's error as the client gets it; None if that is the same."""
        assert frame.data is not None
        failure = self.observer.failure
        assert failure is not None
        shown = for_client(failure, self.own_key)
        if shown is not failure:
            return encode(self.observer.error_frame(shown, self._request_id))
        try:
            clean = redact_json(frame.data, self._secrets)
        except ValueError:  # a plain text, which no client can parse
            return encode(self.observer.error_frame(failure, self._request_id))
        return encode(Frame(frame.event, clean)) if clean is not frame.data else None

    def _parse_last(self, data: bytes) -> list[Frame]:
        """Returns the frames of a last, incomplete frame."""
        parser = Parser(self._limits, bare=True)
        if not self._first:
            parser.skip_opening()
        return parser.parse(data) + parser.finish()

    def _note_heads(self, data: bytes) -> None:
        self._heads = None
        if self._renamer is not None and self._templates.template is not None:
            if self._renamer.repeats(data):  # one value is after the text
                self._templates.template = None
                return
            before = self._templates.template.before
            name, mark, payload = before.partition(b"data: ")
            renamed = self._renamer.apply(payload)
            if renamed is not payload:
                self._heads = before, name + mark + renamed

    def heartbeat(self) -> bytes:
        """Returns the bytes of a heartbeat.

        Once an event had an id, a comment has no blank line, and so is a part of the next event: OpenAI's Python SDK
        takes a blank line without data for an event then, and fails on it.
        """
        data = self.observer.heartbeat()
        return data[:-1] if self._numbered and data == COMMENT else data

    def _replay(self, reply: bytes) -> tuple[bytes, Failure | None]:
        """Returns the stream of a complete reply, or nothing and a failure."""
        try:
            written = self.replay(reply)
        except DragomanError as error:
            return b"", error.failure
        self.begun = self.replayed = True
        return written, None

    def _end_document(self) -> bytes:
        assert self._document is not None
        written, failure = self._replay(bytes(self._document))
        return written if failure is None else self.error(failure)

    def finish(self) -> bytes:
        """Returns the rest, and the dialect's error if the stream was not complete."""
        self.done = True
        if self._document is not None:
            return self._end_document()
        observer = self.observer
        held, self._held = bytes(self._held), b""
        if (fault := self._too_long(held)) is not None:
            return self.error(fault)
        sound = False
        for frame in self._parse_last(held) if held else ():
            if frame.fault is not None:
                sound = False
            elif frame.data and is_blank(frame.data):
                held = b""
            elif frame.data and (not frame.bare or self._observe_bare(frame.data)):
                if not frame.bare:
                    observer.observe(frame.data, frame.event)
                if observer.whole is not None:
                    held, failure = self._replay(observer.whole or frame.data)
                    return held if failure is None else self.error(failure)
                sound = observer.fault is None
                self.begun |= sound
                if observer.instead is not None:
                    held = self._instead()
                elif observer.failure is not None and (clean := self._redacted(frame)) is not None:
                    held = clean
        if observer.failure is not None and not observer.closed and not observer.complete:
            passed = held.rstrip(b"\r\n") + b"\n\n" if held and sound else b""
            return (self._rename(passed) if self._renamer is not None else passed) + self.error(observer.failure)
        if observer.failure is not None or observer.complete:
            if not sound:
                return b""  # an incomplete frame after the end: no client could read it
            held = ended(held)
            return self._rename(held) if self._renamer is not None else held
        end = observer.omitted_terminal() if not held else None
        if end is not None:
            observer.complete = True
            if self._losses is not None:
                self._losses.add_once(LossCode.REPLY_REPAIRED, end.event, f"the stream ended without {end.event}")
            return encode(end)
        cut = StreamTruncated().failure
        return self.error(observer.fault or cut if observer.closed else cut)

    def report(self, context: ReplyContext) -> None:
        """Records in the reply's context what was observed: the token counts, the error, the first violation."""
        observer = self.observer
        self.report_usage(context)
        failure = observer.failure or self.fault
        context.failure = redact_failure(failure, context.secrets) if failure is not None else None
        context.validated = True
        if observer.violations:
            context.violation = Violation(redact(observer.violations[0], context.secrets))

    def report_usage(self, context: ReplyContext) -> None:
        """Records the upstream's counts, and the length of the output by which a count of its own is estimated.

        A count of the output that came before its end is dropped if twice as much has passed since: some servers send
        the first count only.
        """
        if self.replayed:
            return
        observer, usage = self.observer, self.observer.usage
        context.output_text = length = max(observer.written, self._deltas * CHARACTERS)
        if usage is not None and not observer.counted and (usage.output_total or 0) * CHARACTERS * 2 < length:
            usage = replace(usage, output_total=None)
        context.usage = usage
        context.service = observer.service

    def error(self, failure: Failure) -> bytes:
        """Returns an in-band error of the dialect, and takes it for the failure of the stream.

        If the upstream sent an error before, that is the reason.
        """
        if (reason := self.observer.failure) is not None:
            failure = reason
            reason = for_client(redact_failure(reason, self._secrets), self.own_key)
        self.fault = failure
        opening = self.observer.opening(self._request_id)
        data = opening + encode(self.observer.error_frame(reason or failure, self._request_id))
        return self._rename(data) if self._renamer is not None else data  # a snapshot in it names the model

    def fail(self, failure: Failure, /) -> bytes:
        """Ends the stream in an error, and returns its last frame; nothing if it has ended."""
        if self.done or self.fault is not None:
            return b""
        self.done = True
        return self.error(redact_failure(failure, self._secrets))

    def _rename(self, data: bytes) -> bytes:
        """Returns complete frames with the model's name replaced."""
        return FRAME.sub(self._renamed, data)

    def _renamed(self, found: re.Match[bytes]) -> bytes:
        assert self._renamer is not None
        frame = found[0]
        data = data_of(frame)
        renamed = self._renamer.apply(data)
        return frame if renamed is data else with_data(frame, renamed)


def ended(frame: bytes) -> bytes:
    """Returns a last frame with the line ends that the upstream left out: clients ignore a frame without them."""
    if frame.endswith((b"\n\n", b"\n\r\n", b"\r\r")):
        return frame
    if frame.endswith(b"\r"):  # with a line feed it would be one line end
        return frame + b"\r"
    return frame + (b"\n" if frame.endswith(b"\n") else b"\n\n")


def _no_replay(reply: bytes) -> bytes:
    raise UpstreamProtocolError("upstream answered with a complete reply instead of a stream")

"""The stage for client and upstream of one dialect: it forwards the bytes unchanged and observes them.

Only complete frames are forwarded, so a stream that is cut inside one can still end in a well-formed error of the
dialect. That error is added to a stream that ends without its terminal event, which the official SDKs would take for
complete, and replaces a frame that no client could read. A frame whose data is empty is not forwarded: the SDKs cannot
read it. A complete reply in place of a stream, or in one frame, is read and written as a stream. A stream with a frame
that clients would misread is translated from that frame on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dragoman.dialects.errors.read import redact_failure
from dragoman.dialects.errors.redact import redact
from dragoman.errors import Failure, LimitExceeded, StreamTruncated, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.stages.base import ReplyPipeline
from dragoman.stages.client_frames import ClientFrames
from dragoman.stages.forwarded_frames import ForwardedFrames, is_ignored
from dragoman.stages.observer import Observer
from dragoman.stages.violation import Violation
from dragoman.tokens.stream_usage import CHARACTERS
from dragoman.wire.body_opening import Opening, begins_document
from dragoman.wire.frame_scanner import Edit, complete_frames, ended, exceeded_limit, exceeded_so_far, with_edits
from dragoman.wire.json_edit import JsonStringRewriter
from dragoman.wire.sse import COMMENT, Frame, FrameBatch, encode, encode_frames, is_blank
from dragoman.wire.sse_parser import Parser

_USUAL_BEGINNINGS: Final = (b"data:", b"event:")


def no_replay(reply: bytes) -> bytes:
    """Raise UpstreamProtocolError: a complete reply is not read."""
    raise UpstreamProtocolError("upstream answered with a complete reply instead of a stream")


class Passthrough:
    """Forwards the bytes of a stream unchanged, and observes its frames.

    `fault` is an error that this stage found. The same bytes are forwarded however they are split: complete frames, the
    blank lines between them, and nothing of a frame that ends the stream.
    """

    __slots__ = (
        "_client",
        "_context",
        "_document",
        "_frames",
        "_held",
        "_is_stream",
        "_longest",
        "_opening",
        "_pipeline",
        "_replaced_cr",
        "_translator",
        "done",
        "fault",
        "observer",
    )

    def __init__(
        self,
        observer: Observer,
        context: ReplyContext,
        renamer: JsonStringRewriter | None = None,
        replay: Callable[[bytes], bytes] = no_replay,
        translator: Callable[[], ReplyPipeline] | None = None,
    ) -> None:
        """`renamer` replaces the model's name, `replay` returns the stream of a complete reply, `translator` the stages
        that translate a stream within its dialect. Without it an odd frame ends the stream in an error."""
        self.done = False
        self.fault: Failure | None = None
        self.observer = observer
        self._context = context
        self._client = ClientFrames(observer, context, renamer)
        self._frames = ForwardedFrames(observer, self._client, context, replay)
        self._longest = min(context.limits.sse_line, context.limits.sse_frame)
        self._is_stream = False
        """True once it is known that this is an event stream."""
        self._opening: Opening | None = None
        """Finds the line that shows it, if it does not begin the body."""
        self._document: bytearray | None = None
        """The body so far, if it is a JSON document."""
        self._held: bytes | bytearray = b""
        """The beginning of a frame whose blank line has not arrived."""
        self._replaced_cr = False
        """True if the last bytes were replaced and end with a CR, whose line feed may follow."""
        self._translator = translator
        self._pipeline: ReplyPipeline | None = None
        """The stages that translate the rest of the stream, once it had an odd frame."""

    @property
    def begun(self) -> bool:
        """True once an event was forwarded."""
        return self._frames.begun

    @property
    def replayed(self) -> bool:
        """True if the stream is that of a complete reply: its results are in the reply's context."""
        return self._frames.replayed

    def feed(self, data: bytes, /) -> bytes:
        """Return the frames that `data` completes, with the model's name replaced; nothing after the terminal one."""
        if not self._is_stream:
            if self._pipeline is not None:
                return self._translated(self._pipeline.feed(data))
            data = self._open(data)
            limit = self._context.limits.reply_body
            if self._document is not None and len(self._document) > limit:
                self.done = True
                return self.error(LimitExceeded("reply_body", limit, upstream=True).failure)
        frames = self._frames
        template = frames.templates.template
        if self._held or not data.endswith(b"\n\n"):
            data, self._held = complete_frames(self._held, data)
        elif template is not None and len(data) <= self._longest and (run := template.only(data)) is not None:
            # As `observe_run`, whose call takes 2 % of the instructions of a chunk.
            observer = self.observer
            if observer.on_run is None or observer.on_run(run.text, run.pieces):
                frames.templates.fruitless = 0
                frames.deltas += 1
                observer.written += len(run.text)
                if observer.numbers_frames:
                    observer.on_template(1, template.last_number())
                frames.begun = observer.progressed = True
                return data if self._client.heads is None else data.replace(*self._client.heads)
        edits: list[Edit] = []
        if self._replaced_cr and data:
            self._replaced_cr = False
            if data.startswith(b"\n"):
                edits.append((0, 1, b""))
        end, fault = frames.observe(data, edits)
        passed = data[:end]
        if edits:
            passed = with_edits(passed, edits)
            self._replaced_cr = edits[-1][1] == len(data) and data.endswith(b"\r")
        if self._client.renamer is not None:
            passed = self._client.rename(passed)
        if self.observer.odd and fault is None:
            held, self._held = bytes(self._held), b""
            return passed + self._translate(frames.take_held() + data[end:] + held)
        closed = self.observer.closed
        if fault is None and not closed and len(self._held) > self._longest:
            fault = exceeded_so_far(self._held, self._context.limits)
        if fault is not None or closed or frames.replayed:
            self.done = True
            self._held = b""
            if fault is not None:
                passed += self.error(fault)
            elif passed.endswith(b"\n\r"):  # the second half of a CR LF that is still on its way
                passed += b"\n"
            elif passed.endswith(b"\r\r\n"):  # the line feed may come too late: the stream ended with the second CR
                passed = passed[:-1]
        return passed

    def _open(self, data: bytes) -> bytes:
        """Return the part of the first bytes that belongs to an event stream. A document is kept until its end."""
        if self._document is not None:
            self._document += data
            return b""
        if self._opening is None:
            if data.startswith(_USUAL_BEGINNINGS):
                self._is_stream, self._frames.first = True, False
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

    # --- a stream that clients would misread ------------------------------------------------------------------------

    def _translate(self, data: bytes) -> bytes:
        """Translate the rest of the stream, which begins with `data`, by stages that know what was forwarded."""
        misread = UpstreamProtocolError("upstream sent a frame that clients would misread").failure
        if self._translator is None:
            self.done = True
            return self.error(misread)
        context, observer = self._context, self.observer
        pipeline = self._pipeline = self._translator()
        self._is_stream = False
        context.logprobs = context.moderation_requested = True  # what the upstream sends was requested
        context.service = observer.service
        if self._client.renamer is None:
            context.knobs = replace(context.knobs, echo_model="upstream")
        if before := observer.so_far():
            context.begun = True
            pipeline.feed(b"".join([encode(Frame("", frame)) for frame in before]))
            if pipeline.done:  # it cannot read what was forwarded
                self._pipeline, self.done = None, True
                return self.error(context.failure or misread)
        context.output_text = observer.written
        return self._translated(pipeline.feed(data))

    def _translated(self, frames: FrameBatch) -> bytes:
        """Return the bytes of translated frames, and take over the state of the stages."""
        pipeline, observer = self._pipeline, self.observer
        assert pipeline is not None
        observer.tool_open = pipeline.tool_open
        observer.progressed |= pipeline.progressed
        pipeline.progressed = False
        self.done = observer.closed = pipeline.done
        self.fault = self._context.failure
        data = encode_frames(frames)
        if data and self.fault is None:
            self._frames.begun = True
        return data

    # --- the end -----------------------------------------------------------------------------------------------------

    def heartbeat(self) -> bytes:
        """Return the bytes of a heartbeat.

        Once an event had an id, a comment has no blank line, and so is a part of the next event: OpenAI's Python SDK
        takes a blank line without data for an event then, and fails on it.
        """
        if self._pipeline is not None:
            return self._pipeline.heartbeat()
        data = self.observer.heartbeat()
        return data[:-1] if self._frames.numbered and data == COMMENT else data

    def finish(self) -> bytes:
        """Return the rest, and the dialect's error if the stream was not complete."""
        return self._finish() if self._pipeline is None else self._translated(self._pipeline.finish())

    def _finish(self) -> bytes:
        self.done = True
        if self._document is not None:
            written, failure = self._frames.replay(bytes(self._document))
            return written if failure is None else self.error(failure)
        observer, client = self.observer, self._client
        held, self._held = bytes(self._held), b""
        if (fault := exceeded_limit(held, self._context.limits)) is not None:
            return self.error(fault)
        sound = False
        for frame in self._parse_last(held) if held else ():
            if frame.fault is not None:
                sound = False
            elif frame.data and is_blank(frame.data):
                held = b""
            elif frame.data and not (frame.bare and is_ignored(frame.data)):
                edits: list[Edit] = []
                fault = self._frames.observe_frame(frame, 0, len(held), len(held), edits)
                if observer.odd:
                    passed = self._translate(self._frames.take_held() + ended(held))
                    if not self.done and self._pipeline is not None:
                        passed += self._translated(self._pipeline.finish())
                    return passed
                if fault is not None and observer.fault is None:
                    return self.error(fault)
                held = with_edits(held, edits)
                if self.replayed:
                    return held
                sound = fault is None
        if observer.failure is not None and not observer.closed and not observer.complete:
            passed = held.rstrip(b"\r\n") + b"\n\n" if held and sound else b""
            return client.rename(passed) + self.error(observer.failure)
        if observer.failure is not None or observer.complete:
            # An incomplete frame after the end: no client could read it.
            return client.rename(ended(held)) if sound else b""
        end = observer.omitted_terminal() if not held else None
        if end is not None:
            observer.complete = True
            self._context.losses.add_once(LossCode.REPLY_REPAIRED, end.event, f"the stream ended without {end.event}")
            return encode(end)
        cut = StreamTruncated().failure
        return self.error(observer.fault or cut if observer.closed else cut)

    def _parse_last(self, data: bytes) -> list[Frame]:
        """Return the frames of a last, incomplete frame."""
        parser = Parser(self._context.limits, bare=True)
        if not self._frames.first:
            parser.skip_opening()
        return parser.parse(data) + parser.finish()

    def error(self, failure: Failure) -> bytes:
        """Return an in-band error of the dialect, and take it for the failure of the stream.

        If the upstream sent an error before, that is the reason.
        """
        self.fault = self.observer.failure or failure
        return self._client.error(failure)

    def fail(self, failure: Failure, /) -> bytes:
        """End the stream in an error, and return its last frame; nothing if it has ended."""
        if self.done or self.fault is not None:
            return b""
        if self._pipeline is not None:
            return self._translated(self._pipeline.fail(failure))
        self.done = True
        return self.error(self._client.without_secrets(failure))

    # --- the results -------------------------------------------------------------------------------------------------

    def report(self) -> None:
        """Record in the reply's context what was observed: the token counts, the error, the first violation."""
        if self._pipeline is not None:
            return
        observer, context = self.observer, self._context
        self.report_usage()
        failure = observer.failure or self.fault
        context.failure = redact_failure(failure, context.secrets) if failure is not None else None
        context.validated = True
        if observer.violations:
            context.violation = Violation(redact(observer.violations[0], context.secrets))

    def report_usage(self) -> None:
        """Record the upstream's counts, and the length of the output by which a count of its own is estimated.

        A count of the output that came before its end is dropped if twice as much has passed since: some servers send
        the first count only.
        """
        if self.replayed or self._pipeline is not None:
            return
        observer, context, usage = self.observer, self._context, self.observer.usage
        context.output_text = length = max(observer.written, self._frames.deltas * CHARACTERS)
        if usage is not None and not observer.counted and (usage.output_total or 0) * CHARACTERS * 2 < length:
            usage = replace(usage, output_total=None)
        context.usage = usage
        context.service = observer.service

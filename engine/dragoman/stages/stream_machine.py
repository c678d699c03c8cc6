"""The synchronous translator of one streamed reply, for programs that do their own I/O."""

from __future__ import annotations

from dragoman.canonical.events import Error, Usage
from dragoman.dialects.errors.read import redact_failure
from dragoman.errors import Failure
from dragoman.reply_context import ReplyContext
from dragoman.stages.base import EventBatch, ReplyPipeline, transform
from dragoman.stages.passthrough import Passthrough
from dragoman.tokens.stream_usage import usage_so_far


class StreamMachine:
    """Translates one streamed reply: the upstream's bytes in, the client's bytes out. Made by
    `Translation.stream_machine()`.

    Feed it every chunk of the upstream's body, cut anywhere, and send on what it returns, until `done` is True; call
    `finish` when the upstream's body ends before that. Neither raises for what the upstream sends: an invalid or
    truncated stream ends in an in-band error of the client's dialect, which `failure` then holds.

        machine = translation.stream_machine()
        for chunk in response:
            send(machine.feed(chunk))
            if machine.done:
                break
        send(machine.finish())
    """

    __slots__ = ("_context", "_passthrough", "_pipeline", "done")

    def __init__(self, stages: ReplyPipeline | Passthrough, context: ReplyContext) -> None:
        self._passthrough = stages if isinstance(stages, Passthrough) else None
        self._pipeline = stages if isinstance(stages, ReplyPipeline) else None
        self._context = context
        self.done = False
        """True once the client's stream has its terminal event: nothing more will be returned."""

    def __repr__(self) -> str:
        kind = "passthrough" if self._passthrough is not None else "translated"
        return f"<StreamMachine {kind}{' done' if self.done else ''}>"

    @property
    def usage(self) -> Usage | None:
        """The token counts so far; estimates where the upstream has not sent any yet; None if nothing is known."""
        if self._passthrough is not None:
            self._passthrough.report_usage(self._context)
        return usage_so_far(self._context)[0]

    @property
    def failure(self) -> Failure | None:
        """The error that ended the stream, or None."""
        return self._context.failure

    def feed(self, data: bytes, /) -> bytes:
        """Returns the client's bytes for a chunk of the upstream's body; empty if nothing can be sent yet."""
        if self.done:
            return b""
        if (stage := self._passthrough) is not None:
            out = stage.feed(data)
            if stage.done:
                self._end_passthrough(stage)
            return out
        stages = self._pipeline
        assert stages is not None
        parser, reader = stages.parser, stages.reader
        events = reader.feed(parser.feed(data))
        if parser.done and not reader.done:
            events = events + reader.finish()
        return self._write(stages, events, ended=reader.done or parser.done)

    def finish(self) -> bytes:
        """Returns the end of the client's stream, as the upstream's body has ended.

        That is an in-band error if the upstream's terminal event is missing, and empty if `done` is True already.
        """
        if self.done:
            return b""
        if (stage := self._passthrough) is not None:
            out = stage.finish()
            self._end_passthrough(stage)
            return out
        stages = self._pipeline
        assert stages is not None
        events: EventBatch = []
        if not stages.parser.done:
            events = stages.reader.feed(stages.parser.finish())
        if not stages.reader.done:
            events = events + stages.reader.finish()
        return self._write(stages, events, ended=True)

    def fail(self, failure: Failure) -> bytes:
        """Ends the stream with an in-band error of the client's dialect and returns its bytes.

        For a failure that the upstream's bytes do not show: a timeout, a broken connection, a shutdown. What the stages
        hold back is dropped, as the reply will not be complete. Returns nothing if `done` is True already.
        """
        if self.done:
            return b""
        failure = redact_failure(failure, self._context.secrets)
        if (stage := self._passthrough) is not None:
            out = stage.error(failure)
            self._end_passthrough(stage)
            return out
        stages = self._pipeline
        assert stages is not None
        self.done = True
        return stages.encoder.feed(stages.writer.feed([Error(failure)])) + stages.encoder.finish()

    def _write(self, stages: ReplyPipeline, events: EventBatch, *, ended: bool) -> bytes:
        """Passes events through the stages after the reader. `ended` is True if none follow."""
        events, ended = transform(stages.transforms, events, ended=ended)
        out = stages.encoder.feed(stages.writer.feed(events)) if events else b""
        if ended or stages.writer.done:
            self.done = True
            if not stages.writer.done:
                out += stages.encoder.feed(stages.writer.finish())
            out += stages.encoder.finish()
        return out

    def _end_passthrough(self, stage: Passthrough) -> None:
        self.done = True
        stage.report(self._context)

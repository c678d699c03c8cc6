"""The synchronous translator of one streamed reply, for programs that do their own I/O."""

from __future__ import annotations

from dragoman.canonical.events import Usage
from dragoman.errors import Failure
from dragoman.reply_context import ReplyContext
from dragoman.stages.base import ReplyPipeline
from dragoman.stages.passthrough import Passthrough
from dragoman.tokens.stream_usage import usage_so_far
from dragoman.wire.sse import FrameBatch, encode_frames


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

    __slots__ = ("_context", "_driver", "done")

    def __init__(self, stages: ReplyPipeline | Passthrough, context: ReplyContext) -> None:
        self._driver = stages
        self._context = context
        self.done = False
        """True once the client's stream has its terminal event: nothing more will be returned."""

    def __repr__(self) -> str:
        kind = "passthrough" if isinstance(self._driver, Passthrough) else "translated"
        return f"<StreamMachine {kind}{' done' if self.done else ''}>"

    @property
    def usage(self) -> Usage | None:
        """The token counts so far; estimates where the upstream has not sent any yet; None if nothing is known."""
        if isinstance(self._driver, Passthrough):
            self._driver.report_usage()
        return usage_so_far(self._context)[0]

    @property
    def failure(self) -> Failure | None:
        """The error that ended the stream, or None."""
        return self._context.failure

    def feed(self, data: bytes, /) -> bytes:
        """Return the client's bytes for a chunk of the upstream's body; empty if nothing can be sent yet."""
        return b"" if self.done else self._encode(self._driver.feed(data), ended=self._driver.done)

    def finish(self) -> bytes:
        """Return the end of the client's stream, as the upstream's body has ended.

        That is an in-band error if the upstream's terminal event is missing, and empty if `done` is True already.
        """
        return b"" if self.done else self._encode(self._driver.finish(), ended=True)

    def fail(self, failure: Failure) -> bytes:
        """End the stream with an in-band error of the client's dialect and return its bytes.

        For a failure that the upstream's bytes do not show: a timeout, a broken connection, a shutdown. What the stages
        hold back is dropped, as the reply will not be complete. Return nothing if `done` is True already.
        """
        return b"" if self.done else self._encode(self._driver.fail(failure), ended=True)

    def _encode(self, frames: FrameBatch, *, ended: bool) -> bytes:
        if ended:
            self.done = True
            if isinstance(self._driver, Passthrough):
                self._driver.report()
        return encode_frames(frames)

"""Frames of a forwarded stream that the client gets in place of the upstream's: renamed, redacted, or written here."""

from __future__ import annotations

import re

from dragoman.dialects.errors.own_key import for_client
from dragoman.dialects.errors.read import redact_failure
from dragoman.dialects.errors.redact import redact_json
from dragoman.errors import Failure
from dragoman.reply_context import ReplyContext
from dragoman.stages.observer import Observer
from dragoman.wire.delta_template import DeltaTemplate
from dragoman.wire.frame_scanner import FRAME, data_of, with_data
from dragoman.wire.json_edit import JsonStringRewriter
from dragoman.wire.sse import Frame, encode


class ClientFrames:
    """Changes frames of one stream for its client, and writes the errors that end it.

    `renamer` replaces the model's name, if the client requested another. `heads` are the first bytes of the frames that
    fit the stream's template, as received and with the name replaced; None if they are equal.
    """

    __slots__ = ("_context", "_observer", "heads", "renamer")

    def __init__(self, observer: Observer, context: ReplyContext, renamer: JsonStringRewriter | None) -> None:
        self._observer = observer
        self._context = context
        self.renamer = renamer
        self.heads: tuple[bytes, bytes] | None = None

    def note_heads(self, template: DeltaTemplate, data: bytes) -> bool:
        """Note the heads of a template's frames, one of which has this data. Return False if it has a name behind."""
        assert self.renamer is not None
        self.heads = None
        if self.renamer.repeats(data):  # one value is after the text
            return False
        name, mark, payload = template.before.partition(b"data: ")
        renamed = self.renamer.apply(payload)
        if renamed is not payload:
            self.heads = template.before, name + mark + renamed
        return True

    def rename(self, data: bytes) -> bytes:
        """Return complete frames with the model's name replaced."""
        return FRAME.sub(self._renamed, data) if self.renamer is not None else data

    def _renamed(self, found: re.Match[bytes]) -> bytes:
        assert self.renamer is not None
        frame = found[0]
        data = data_of(frame)
        renamed = self.renamer.apply(data)
        return frame if renamed is data else with_data(frame, renamed)

    def redacted(self, frame: Frame) -> bytes | None:
        """Return the frame of an upstream's error that was observed as the client gets it; None if it is the same."""
        failure = self._observer.failure
        assert failure is not None
        assert frame.data is not None
        shown = for_client(failure, self._context.own_key)
        if shown is not failure:
            return self._error_frame(shown)
        try:
            clean = redact_json(frame.data, self._context.secrets)
        except ValueError:  # a plain text, which no client can parse
            return self._error_frame(failure)
        return encode(Frame(frame.event, clean)) if clean is not frame.data else None

    def error(self, failure: Failure) -> bytes:
        """Return an in-band error of the dialect: for the error that the upstream sent, if it did, or for `failure`."""
        observer = self._observer
        if observer.failure is not None:
            failure = for_client(self.without_secrets(observer.failure), self._context.own_key)
        # A snapshot in it names the model.
        return self.rename(observer.opening(self._context.request_id or None) + self._error_frame(failure))

    def _error_frame(self, failure: Failure) -> bytes:
        return encode(self._observer.error_frame(failure, self._context.request_id or None))

    def without_secrets(self, failure: Failure) -> Failure:
        """Return a failure without secrets."""
        return redact_failure(failure, self._context.secrets)

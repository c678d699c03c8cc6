"""The translation of complete replies: those that pass through, those that are read and written again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dragoman.canonical.events import TEXTS
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import reply_of
from dragoman.canonical.request import Json
from dragoman.dialects.directions import Direction
from dragoman.dialects.errors.own_key import for_client
from dragoman.dialects.errors.read import read_error_response, reply_object, unwrapped
from dragoman.dialects.errors.redact import redact, redact_json
from dragoman.dialects.http_errors import read_error
from dragoman.dialects.openai.endpoint_usage import note_endpoint_service, read_audio_tokens, read_endpoint_usage
from dragoman.dialects.shared.completed_reply import completed
from dragoman.errors import UpstreamError, UpstreamStatusError
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.stages.null_arguments import trim_reply
from dragoman.stages.stop_sequences import cut_reply
from dragoman.stages.tool_restorer import restore_reply
from dragoman.tokens.reply_text import reply_length
from dragoman.wire.body_opening import document_in
from dragoman.wire.json_codec import dumps, loads, loads_exact
from dragoman.wire.json_edit import find_values, put
from dragoman.wire.sse_parser import Parser

_REPAIRS: Final = frozenset((LossCode.REPLY_REPAIRED, LossCode.CALL_ID, LossCode.FINISH_FIXED, LossCode.STOP_UNKNOWN))
"""The losses of a forwarded reply that was completed: all others are about what it keeps."""


class WholeReply:
    """The translator of one complete reply. What it finds is recorded in the context of the translation."""

    __slots__ = ("_context", "_direction")

    def __init__(self, direction: Direction, context: ReplyContext) -> None:
        self._direction = direction
        self._context = context

    def forward(self, body: bytes, headers: Mapping[str, str] | None, *, renamed: bool) -> bytes:
        """Return the body for a client of the upstream's dialect. If it is `renamed`, it names the client's model."""
        context = self._context
        if not body.startswith(b"{"):
            document = document_in(body)
            if document is None:
                body = self._join_stream(body)
            elif body.lstrip() != document:  # comments before it
                body = document
        payload = self._reply_object(body, headers, loads)
        upstream = self._direction.upstream
        if unwrapped(payload, upstream.dialect) is not payload:
            payload = unwrapped(loads_exact(body), upstream.dialect)
            body = dumps(payload)
        context.usage = upstream.note_service(payload, context)
        self._measure(payload)
        if not payload.get("error") and not upstream.is_usual(payload, context):
            payload = self._usual(unwrapped(loads_exact(body), upstream.dialect))
            body = dumps(payload)
        self.note_id(payload.get("id"))
        if payload.get("error"):
            self._check_key(body, headers)
            body = redact_json(body, context.secrets)
        elif upstream.check_end is not None:
            upstream.check_end(payload)
        return put(body, find_values(body, "model"), context.model) if renamed else body

    def _usual(self, payload: Json) -> Json:
        """Return a reply that clients would misread with what it means in the form that they read."""
        context, upstream, kept = self._context, self._direction.upstream, self._context.losses
        context.logprobs = context.moderation_requested = True  # what the upstream sends was requested
        losses = context.losses = Losses()
        try:
            reply = upstream.read_reply(payload, context)
            reply.id = reply.id or context.request_id
            written = self._direction.client.write_reply(reply, context)
        finally:
            context.losses = kept
        body: Json = loads_exact(dumps(written))
        usual: Json = completed(payload, body)
        whole = upstream.is_usual(usual, context)
        if LossCode.REPLY_REPAIRED not in losses.counts and LossCode.CALL_ID not in losses.counts:
            losses.add(LossCode.REPLY_REPAIRED, "", "a member that clients read was missing or of another type")
        for loss in losses.rows:
            if not whole or loss.code in _REPAIRS:
                kept.add_once(loss.code, loss.path, loss.done)
        return usual if whole else body

    def translate(self, body: bytes, headers: Mapping[str, str] | None) -> bytes:
        """Return the body in the client's dialect."""
        context, reply = self._context, self.read(body, headers)
        response = self._direction.client.write_reply(reply, context)
        written: bytes = dumps(response)
        if context.stored is not None:
            context.stored.final = written
            if context.stored.shaped is not None:
                return dumps(context.stored.shaped(response))
        return written

    def forward_untranslated(self, body: bytes) -> bytes:
        """Return the body for a client of an endpoint that is not translated.

        The body is returned unchanged, apart from secrets in an error, or in a body that is not JSON. Token counts are
        read if it is a JSON object; seconds of audio become an estimate of them.
        """
        secrets = self._context.secrets
        try:
            payload = loads(body)
        except ValueError:
            return redact(body.decode("utf-8", "surrogateescape"), secrets).encode("utf-8", "surrogateescape")
        note_endpoint_service(payload, self._context)
        self._context.usage = usage = read_endpoint_usage(payload)
        if usage is None and (tokens := read_audio_tokens(payload)) is not None:
            self._context.input_estimate = tokens
        if type(payload) is dict and payload.get("error"):
            self._check_key(body, None)
            return redact_json(body, secrets)
        return body

    def note_id(self, response_id: object) -> None:
        """Record the id of a response that passes through, where clients refer to it."""
        if self._direction.client.dialect.facts.stored and type(response_id) is str:
            self._context.response_id = response_id

    def read(self, body: bytes, headers: Mapping[str, str] | None) -> Reply:
        """Return the reply, with its tools restored and its texts cut as the request requires."""
        context, upstream = self._context, self._direction.upstream
        document = body if body.startswith(b"{") else document_in(body)
        if document is None:
            reply, _ = self._read_stream(body)
        else:
            payload = unwrapped(self._reply_object(document, headers, loads_exact), upstream.dialect)
            if payload.get("error"):
                self._note_usage(payload)
                raise self._reported(document, headers)
            try:
                reply = upstream.read_reply(payload, context)
            except UpstreamError:
                self._note_usage(payload)
                raise
            context.usage = reply.usage
            self._measure(payload)
        if context.tools:
            restore_reply(reply, context.tools, context.losses)
        if context.nullable is not None:
            trim_reply(reply, context.nullable, context.losses)
        if context.stops:
            cut_reply(reply, context.stops, context.losses)
        reply.id = reply.id or context.request_id
        context.usage = reply.usage
        if context.stored is not None and context.stored.summarised is not None:
            context.stored.summarise(reply)
        return reply

    def _note_usage(self, payload: Json) -> None:
        """Note the counts of a reply that the client does not get: the upstream may charge for them all the same."""
        self._context.usage = self._direction.upstream.note_service(payload, self._context)
        self._measure(payload)

    def _measure(self, payload: Json) -> None:
        """Note the length of a reply whose output was not counted, for an estimate."""
        usage = self._context.usage
        if usage is None or usage.output_total is None:
            self._context.output_text = reply_length(payload)

    def _reply_object(self, body: bytes, headers: Mapping[str, str] | None, parse: Callable[[bytes], Any]) -> Json:
        """Return the JSON object of a complete reply.

        Raises UpstreamProtocolError, or UpstreamStatusError for an error in place of a reply, in any form.
        """
        try:
            return reply_object(body, self._direction.upstream.dialect, parse)
        except UpstreamStatusError:
            raise self._reported(body, headers) from None

    def _reported(self, body: bytes, headers: Mapping[str, str] | None) -> UpstreamStatusError:
        """Return the error that a body with a 2xx status reports."""
        dialect, secrets = self._direction.upstream.dialect, self._context.secrets
        return UpstreamStatusError(read_error(dialect, 200, body, headers or {}, secrets=secrets))

    def _join_stream(self, body: bytes) -> bytes:
        """Return the complete reply of an event stream in the same dialect: the last event may hold all of it."""
        reply, last = self._read_stream(body)
        find_snapshot = self._direction.upstream.snapshot
        snapshot = find_snapshot(last) if find_snapshot is not None else None
        return snapshot if snapshot is not None else dumps(self._direction.client.write_reply(reply, self._context))

    def _read_stream(self, body: bytes) -> tuple[Reply, bytes]:
        """Return the reply that a complete event stream accumulates to, and the data of its last event."""
        context, upstream = self._context, self._direction.upstream
        parser, reader = Parser(context.limits), upstream.reader(context)
        frames = parser.parse(body)
        if not parser.done:
            frames += parser.finish()
        events = list(reader.feed(frames))
        if not reader.done:
            events += reader.finish()
        context.output_text = sum(len(event.text) for event in events if isinstance(event, TEXTS))
        last = next((frame.data for frame in reversed(frames) if frame.data and frame.data != b"[DONE]"), b"")
        return reply_of(events, upstream.dialect, upstream.join_block), last

    def _check_key(self, body: bytes, headers: Mapping[str, str] | None) -> None:
        """Raise UpstreamStatusError if an error body with a 2xx status is about the caller's key."""
        failure = read_error_response(200, body, headers or {}, self._direction.upstream.dialect)
        if for_client(failure, self._context.own_key) is not failure:
            raise UpstreamStatusError(failure)

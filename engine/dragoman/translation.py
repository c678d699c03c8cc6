"""A translated request, and the translator of its reply. Everything here is synchronous."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from dragoman.canonical.events import Error, Event, Usage, expand_runs
from dragoman.canonical.reply_events import events_of
from dragoman.canonical.request import Json
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects.directions import Direction
from dragoman.dialects.errors import headers as error_headers
from dragoman.dialects.errors.context_overflow import add_sizes
from dragoman.dialects.errors.own_key import for_client
from dragoman.dialects.errors.read import own_envelope, record_unread, redact_failure
from dragoman.dialects.http_errors import ErrorResponse, error_document, error_response, read_error
from dragoman.dialects.shared.service_report import tier_of
from dragoman.dialects.whole_reply import WholeReply
from dragoman.errors import Failure, LimitExceeded, UpstreamProtocolError
from dragoman.knobs import Knobs
from dragoman.losses import Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from dragoman.short_repr import short_repr
from dragoman.stages.base import EventBatch, ReplyPipeline, Stage
from dragoman.stages.output_validator import OutputValidator
from dragoman.stages.passthrough import Passthrough
from dragoman.stages.stop_sequences import StopCutter
from dragoman.stages.stream_machine import StreamMachine
from dragoman.stages.tool_restorer import ToolRestorer
from dragoman.stages.violation import Violation
from dragoman.tokens.stream_usage import usage_so_far
from dragoman.wire.json_edit import JsonStringRewriter
from dragoman.wire.sse import encode_frames
from dragoman.wire.sse_parser import Parser


@dataclass(slots=True)
class Translation:
    """A translated request, and the translator of its reply. Made by `translate`.

    One translation serves one exchange: what it reports (`losses`, `usage`, `failure`, `violation`) is about the one
    reply that was translated with it.
    """

    direction: Direction
    """The dialects of the client and of the upstream."""
    body: bytes
    """The request body to send upstream."""
    stream: bool
    """True if the client requested a stream."""
    context: ReplyContext
    """The parameters of the reply and its results. Internal: use the properties of this class."""
    upstream_model: str
    """The name of the model that the body holds."""
    rewritten: bool = False
    """True if a request of the upstream's own dialect was read and written again (profile `rewrite`)."""
    _answered: ErrorResponse | None = None
    """The last response that `error` returned."""

    def __repr__(self) -> str:
        return short_repr(self, self.direction, f"{len(self.body)} bytes", "stream" if self.stream else "")

    @classmethod
    def for_reply(
        cls, direction: Direction, upstream_model: str, *, model: str | None = None, profile: Profile, knobs: Knobs
    ) -> Translation:
        """Return a translation for a reply, complete or streamed, whose request is unknown, such as a recorded one.

        `upstream_model` is the model that the reply names, `model` the one to write instead. The reply is translated
        as for a client that requested every optional part.
        """
        envelope = None
        if direction.client.restore_reasoning is not None:
            envelope = Envelope(profile.family or direction.upstream.dialect, upstream_model)
        context = ReplyContext(
            model or upstream_model,
            include_usage=True,
            input_estimate=1,
            logprobs=True,
            moderation_requested=True,
            envelope=envelope,
            profile=profile,
            knobs=knobs,
        )
        return cls(direction, b"", True, context, upstream_model)

    # --- the request -------------------------------------------------------------------------------------------------

    @property
    def model(self) -> str:
        """The name of the model that the client requested."""
        return self.context.model

    @property
    def knobs(self) -> Knobs:
        """The knobs that it was translated with."""
        return self.context.knobs

    @property
    def same_body(self) -> bool:
        """True if the upstream gets the client's own body, apart from the model's name and reasoning that is restored.

        The client's headers and query for that dialect may then be forwarded as well.
        """
        return self.direction.passthrough and not self.rewritten

    @property
    def stop_sequences(self) -> tuple[str, ...]:
        """The stop sequences at which the reply is cut here, because the upstream was not sent them."""
        return self.context.stops

    @property
    def renamed_tools(self) -> dict[str, str]:
        """The tools sent under another name: the name sent, and the client's (`namespace.name` if it is in one)."""
        names = dict(self.context.names)
        for sent, tool in self.bridged_tools.items():
            name = f"{tool['namespace']}.{tool['name']}" if "namespace" in tool else tool["name"]
            if name != sent:
                names[sent] = name
        return names

    @property
    def bridged_tools(self) -> dict[str, Json]:
        """The tools sent as another kind, or without their namespace: the name sent, and what the client declared."""
        # The bridge names a tool first; that name may have been shortened for the upstream afterwards.
        shortened = {name: sent for sent, name in self.context.names.items()}
        tools: dict[str, Json] = {}
        for bridged, declared in self.context.tools.items():
            tool: Json = {"name": declared.name, "kind": declared.kind}
            if declared.namespace is not None:
                tool["namespace"] = declared.namespace
            tools[shortened.get(bridged, bridged)] = tool
        return tools

    # --- the results -------------------------------------------------------------------------------------------------

    @property
    def losses(self) -> Losses:
        """The losses recorded so far."""
        return self.context.losses

    @property
    def usage(self) -> Usage | None:
        """The reply's token counts so far; estimates where a stream has none yet; None if nothing is known."""
        return usage_so_far(self.context)[0]

    def usage_and_estimates(self) -> tuple[Usage | None, tuple[str, ...]]:
        """Return `usage`, and the names of its fields that are estimates."""
        return usage_so_far(self.context)

    @property
    def failure(self) -> Failure | None:
        """The error that the reply ended in, or None."""
        return self.context.failure

    @property
    def violation(self) -> Violation | None:
        """The first violation of the client dialect's grammar in a stream, or None."""
        return self.context.violation

    @property
    def response_id(self) -> str | None:
        """The id of the response in a reply of the Responses API that passes through, or None.

        It is known once a whole reply was translated, and once the first event of a stream was read.
        """
        return self.context.response_id

    # --- a streamed reply --------------------------------------------------------------------------------------------

    @property
    def passthrough(self) -> bool:
        """True if the reply's bytes are forwarded unchanged, as no part of the request has to be undone in them."""
        if not self.direction.passthrough:
            return False
        if not self.rewritten:
            return True
        context = self.context
        undo = (context.names, context.tools, context.plain_calls, context.built_in, context.stops, context.stored)
        return not any(undo) and (context.include_usage or not self.stream)

    @property
    def _renames(self) -> bool:
        """True if a reply that passes through names another model than the upstream does."""
        context = self.context
        return self.upstream_model != context.model and context.knobs.echo_model == "requested"

    def stages(self) -> ReplyPipeline | Passthrough:
        """Return new stages for one streamed reply, for a driver such as `stream_machine`."""
        return self._stages(self.context.validates)

    def _stages(self, validates: Callable[[], bool]) -> ReplyPipeline | Passthrough:
        context, client = self.context, self.direction.client
        if self.passthrough:
            renamer = None
            if self._renames:
                renamer = JsonStringRewriter(context.model, *client.model_paths)
            observer = client.observer()
            observer.knobs = context.knobs
            observer.lenient = not context.profile.message_stop
            observer.several = context.several
            observer.content_parts = context.profile.reasoning_key == "thinking"
            kind = client.usage_remover if context.remove_usage else Passthrough
            return kind(observer, context, renamer, self.replay, self._rest_of_stream)
        return self._pipeline(not context.logprobs, self._validator(validates()))

    def _pipeline(self, whole: bool, validator: OutputValidator | None) -> ReplyPipeline:
        """Return new stages. `whole` is that of the `Parser`."""
        context, client, upstream = self.context, self.direction.client, self.direction.upstream
        parser, reader = Parser(context.limits, whole=whole, bare=True), upstream.reader(context)
        return ReplyPipeline(parser, reader, self._transforms(), client.writer(context), validator)

    def _rest_of_stream(self) -> ReplyPipeline:
        """Return the stages for the rest of a stream that was forwarded so far."""
        return self._pipeline(True, None)

    def _transforms(self) -> list[Stage[EventBatch, EventBatch]]:
        context = self.context
        stages: list[Stage[EventBatch, EventBatch]] = []
        if context.tools:
            stages.append(ToolRestorer(context.tools, context.losses))
        if context.stops:
            stages.append(StopCutter(context, context.stops))
        return stages

    def stage_names(self) -> list[str]:
        """Return the class names of the stages of a reply that is validated, if any are, in their order."""
        stages = self._stages(lambda: self.context.validate is not False)
        if isinstance(stages, Passthrough):
            return [type(stages).__name__]
        row = (stages.parser, stages.reader, *stages.transforms, stages.writer, stages.validator)
        return [type(stage).__name__ for stage in row if stage is not None]

    def _validator(self, validates: bool) -> OutputValidator | None:
        return OutputValidator(self.context, self.direction.client.grammar(self.context)) if validates else None

    def _written(self, events: EventBatch, *, validates: bool) -> bytes:
        """Return the client's bytes for the events of a whole stream."""
        frames = self.direction.client.writer(self.context).feed(events)
        if (validator := self._validator(validates)) is not None:
            validator.feed(frames)
        return encode_frames(frames)

    def stream_machine(self) -> StreamMachine:
        """Return a new translator of one streamed reply: `feed(bytes) -> bytes`, `finish() -> bytes`."""
        return StreamMachine(self.stages(), self.context)

    def events(self, chunks: Iterable[bytes]) -> Iterator[Event]:
        """Yield the canonical events (`dragoman.canonical.events`) of an upstream's stream, one for each of its texts.

        For tools that inspect a reply. `chunks` are the upstream's bytes, cut anywhere. The events are those that the
        client's writer gets, in passthrough those that it would get. An invalid or truncated stream ends in an `Error`
        event; nothing is raised.
        """
        pipeline = self._pipeline(False, None)
        for chunk in chunks:
            yield from expand_runs(pipeline.read(chunk))
            if pipeline.ended:
                return
        yield from expand_runs(pipeline.read_end())

    def error_stream(self, failure: Failure) -> bytes:
        """Return a complete stream for the client that only reports an error, in any direction.

        For a stream whose status and headers were sent before the upstream's response came.
        """
        self.context.failure = failure
        # A sample's function is not called: a provider's first streams are to be replies.
        return self._written([Error(failure)], validates=self.context.validate is not False)

    # --- a complete reply --------------------------------------------------------------------------------------------

    def reply(self, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the client's response body for a complete reply. `headers` are the upstream's.

        A body that is an event stream is read as well, whatever its content type. Raises UpstreamProtocolError for one
        that is not of the dialect, UpstreamStatusError for an error body, and LimitExceeded for one that is too large.
        """
        if len(body) > self.context.limits.reply_body:
            raise LimitExceeded("reply_body", self.context.limits.reply_body, upstream=True)
        try:
            whole = WholeReply(self.direction, self.context)
            if self.passthrough:
                return whole.forward(body, headers, renamed=self._renames)
            return whole.translate(body, headers)
        except UpstreamProtocolError as error:
            error.forbid_retry()
            raise

    def forwarded_reply(self, body: bytes) -> bytes:
        """Return the client's response body for a complete reply of an endpoint that is not translated.

        The body is returned unchanged, apart from secrets in an error, or in a body that is not JSON. Token counts are
        read if it is a JSON object; seconds of audio become an estimate of them.
        """
        return WholeReply(self.direction, self.context).forward_untranslated(body)

    def record_usage(self, usage: Usage | None, written: int, service: ServiceReport | None) -> None:
        """Set what was read from a stream that is not translated: token counts, length of its texts, service."""
        self.context.usage, self.context.output_text, self.context.service = usage, written, service

    def replay(self, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """Return a complete reply as the client's whole event stream.

        For an upstream that answers a request for a stream with plain JSON. Raises as `reply` does.
        """
        whole = WholeReply(self.direction, self.context)
        try:
            reply = whole.read(body, headers)
        except UpstreamProtocolError as error:
            error.forbid_retry()
            raise
        if self.passthrough:
            whole.note_id(reply.id)
        self.context.output_text = 0  # the writer counts
        events = events_of(reply, tier_of(self.context), self.context.moderation)
        return self._written(events, validates=self.context.validates())

    # --- headers and errors ------------------------------------------------------------------------------------------

    def reply_headers(
        self, headers: Mapping[str, str], *, now: float | None = None, rate_limits: bool = True
    ) -> dict[str, str]:
        """Return the headers of the client's response for those of the upstream's response.

        These are `retry-after` and its relatives, the rate limits in the client dialect's terms, and the request id:
        the upstream's if it sent one, else the translation's. All others are dropped. `now` is the time in Unix
        seconds, by which durations and times are converted into each other; by default the translation's `clock`
        is read. Without `rate_limits` those are left out, for a server that sends its own.
        """
        context, client = self.context, self.direction.client.dialect
        if now is None:
            now = context.clock() if context.clock is not None else float(context.created)
        upstream = self.direction.upstream.dialect
        found = error_headers.reply_headers(
            upstream, client, headers, now=now, secrets=context.secrets, rate_limits=rate_limits
        )
        if context.request_id:
            found.setdefault(client.request_id_header, context.request_id)
        return found

    def error(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str],
        *,
        now: float | None = None,
        failure: Failure | None = None,
    ) -> ErrorResponse:
        """Return the client's response for an upstream's error response, and record its failure. Never raises.

        Any body is read. Within one dialect a body that is in its error format is passed on, without secrets, and every
        error status is kept. An error about the caller's own key is a 502. The response's failure is the upstream's.
        `now` is as in `reply_headers`, `failure` is what `read_error` has returned for this response, if it was called.
        """
        context, same = self.context, self.direction.passthrough
        client, upstream = self.direction.client.dialect, self.direction.upstream.dialect
        sent, body = self.reply_headers(headers, now=now), error_document(body)
        if failure is None:
            failure = read_error(upstream, status, body, headers, secrets=context.secrets)
        # The body may state when to retry, as Google's does.
        sent = {name: failure.headers[name] for name in error_headers.RETRY if name in failure.headers} | sent
        if (shown := for_client(failure, context.own_key)) is not failure:
            shown.headers = sent | shown.headers
            response = error_response(client, shown, context.request_id)
            response.failure = failure
        elif same and (own := own_envelope(body, context.secrets)) is not None:
            response = ErrorResponse(status, sent, own, failure)
        else:
            record_unread(failure, context.losses)
            failure = add_sizes(failure, context)
            failure.headers = sent
            response = error_response(client, failure, context.request_id)
            if same and status >= 400:  # a foreign body, perhaps a load balancer's: the status is still the client's
                response.status = status
        context.failure = failure
        self._answered = response
        return response

    def error_of(self, error: Failure) -> ErrorResponse:
        """Return the client's response for a failure, such as a timeout. Never raises.

        Secrets are masked, and estimated sizes added if the knob `overflow_sizes` requests them. An error about the
        caller's own key is a 502; the response's failure is the upstream's. For the failure that `error` read last, it
        is the response that `error` returned.
        """
        if self._answered is not None and self._answered.failure is error:
            return self._answered
        context = self.context
        record_unread(error, context.losses)
        failure = add_sizes(redact_failure(error, context.secrets), context)
        client = self.direction.client.dialect
        response = error_response(client, for_client(failure, context.own_key), context.request_id)
        response.failure = failure
        return response

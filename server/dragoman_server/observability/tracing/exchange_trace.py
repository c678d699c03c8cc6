"""The trace of one exchange: its span, and one span for each attempt to get the reply of an upstream.

Names of attributes are those of OpenTelemetry's conventions for HTTP and generative AI, and `dragoman.*`. Values are
names of the configuration and of models, counts, and Dragoman's own words: no text of a prompt, a reply or a key, and
no message of an error, which may quote them. Token counts are on the attempts only, so that no backend adds them twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dragoman import Failure
from dragoman.aio import UpstreamRequest
from dragoman.errors import FailureOrigin
from dragoman.gateway import quote
from dragoman_server.config.provider import Provider
from dragoman_server.observability.access_log import error_word
from dragoman_server.observability.tracing.span import Span, SpanSink, Value
from dragoman_server.observability.tracing.trace_context import TraceContext, new_span_id
from dragoman_server.receipt import Receipt

CHAT = "chat"
"""The operation of all three dialects in the conventions."""
_OPERATIONS = {"completions": "text_completion"}
"""Operations of forwarded endpoints in the conventions that differ from the first part of their paths."""
_NAMES = {
    "azure": "azure.ai.openai",
    "amazon-bedrock": "aws.bedrock",
    "bedrock-invoke": "aws.bedrock",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
}
"""Names of providers in the conventions that differ from those of our profiles."""
_USAGE = (
    ("gen_ai.usage.input_tokens", "input_total"),
    ("gen_ai.usage.output_tokens", "output_total"),
    ("gen_ai.usage.cache_read.input_tokens", "cache_read"),
    ("gen_ai.usage.cache_creation.input_tokens", "cache_write"),
    ("gen_ai.usage.reasoning.output_tokens", "reasoning"),
)


@dataclass(slots=True)
class _Attempt:
    provider: Provider
    model: str
    context: TraceContext
    start: int
    number: int


class ExchangeTrace:
    """The trace of one exchange, which ends with its receipt.

    Args:
        context: The span of the exchange.
        parent: The client's span, or None.
        now: A function that returns Unix nanoseconds.
        sink: Takes the spans; None if they are not recorded.
        endpoint: The path of a forwarded endpoint below `/v1`, which names the operation.
    """

    __slots__ = ("_attempt", "_attempts", "_now", "_operation", "_parent", "_sink", "_start", "context")

    def __init__(
        self,
        context: TraceContext,
        parent: TraceContext | None,
        now: Callable[[], int],
        sink: SpanSink | None,
        endpoint: str = "",
    ) -> None:
        self._operation = _OPERATIONS.get(endpoint, endpoint.partition("/")[0]) or CHAT
        self.context = context
        self._parent = parent
        self._now = now
        self._sink = sink
        self._start = now()
        self._attempt: _Attempt | None = None
        self._attempts = 0

    @property
    def trace_id(self) -> str:
        """The id of the trace, for the log."""
        return self.context.trace_id

    def start_attempt(self, call: UpstreamRequest, provider: Provider, model: str) -> UpstreamRequest:
        """Begin an attempt, and return its request with the headers of the trace. It ends with the exchange."""
        context = self.context
        if self._sink is not None:
            self._attempts += 1
            context = context._replace(span_id=new_span_id())
            self._attempt = _Attempt(provider, model, context, self._now(), self._attempts)
        return replace(call, headers={**call.headers, **context.headers()})

    def fail_attempt(self, failure: Failure) -> None:
        """End an attempt that failed and is followed by another one."""
        if self._sink is not None and self._attempt is not None:
            self._put_attempt(self._sink, self._attempt, failure, {})

    def _put_attempt(self, sink: SpanSink, attempt: _Attempt, failure: Failure | None, more: dict[str, Value]) -> None:
        self._attempt = None
        provider, model = attempt.provider, quote(attempt.model)
        host, _, port = provider.address().rpartition(":")
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": self._operation,
            "gen_ai.provider.name": _provider_name(provider),
            "gen_ai.request.model": model,
            "server.address": host.strip("[]"),
            "dragoman.provider": provider.name,
            "dragoman.attempt": attempt.number,
            **more,
        }
        if port.isdecimal():
            attributes["server.port"] = int(port)
        failed = failure is not None and failure.origin is FailureOrigin.UPSTREAM
        if failure is not None and failed:
            attributes["error.type"] = error_word(failure)
        sink.put(
            Span(
                f"{self._operation} {model}",
                attempt.context,
                self.context.span_id,
                remote=False,
                server=False,
                start=attempt.start,
                end=self._now(),
                attributes=attributes,
                failed=failed,
            )
        )

    def end(self, receipt: Receipt, failure: Failure | None) -> None:
        """Record the end of the exchange. Its receipt must still have its translation."""
        sink, attempt = self._sink, self._attempt
        if sink is None:
            return
        if failure is None and receipt.translation is not None:
            failure = receipt.translation.context.failure
        if attempt is not None and receipt.ended == "rejected":
            self._attempts -= 1  # there was no place at the provider, or the request's form was invalid
        elif attempt is not None:
            self._put_attempt(sink, attempt, failure, self._reply_attributes(receipt, attempt))
        status = receipt.status or 0
        path = f"/v1/{receipt.endpoint or receipt.client.path}"
        sink.put(
            Span(
                f"POST {path}",
                self.context,
                self._parent.span_id if self._parent is not None else None,
                remote=self._parent is not None,
                server=True,
                start=self._start,
                end=self._now(),
                attributes=self._attributes(receipt, failure, status, path),
                # The client's own errors are no errors of this span in the conventions.
                failed=status >= 500 or receipt.ended == "failed",
            )
        )

    def _attributes(self, receipt: Receipt, failure: Failure | None, status: int, path: str) -> dict[str, Value]:
        attributes: dict[str, Value] = {
            "http.request.method": "POST",
            "http.route": path,
            "url.path": path,
            "http.response.status_code": status,
            "gen_ai.operation.name": self._operation,
            "dragoman.request_id": receipt.request_id,
            "dragoman.client.dialect": receipt.client.value,
            "dragoman.ended": receipt.ended,
            "dragoman.attempts": self._attempts,
        }
        if receipt.model:
            attributes["gen_ai.request.model"] = quote(receipt.model)
        if receipt.provider is not None:
            attributes["dragoman.provider"], attributes["dragoman.route"] = receipt.provider, receipt.route
        if receipt.client_profile is not None:
            attributes["dragoman.client.profile"] = receipt.client_profile
        if receipt.key is not None:
            attributes["dragoman.key.name"] = receipt.key.name
        if receipt.tag is not None:
            attributes["dragoman.tag"] = receipt.tag
        if (translation := receipt.translation) is not None:
            attributes["dragoman.upstream.dialect"] = translation.direction.upstream.dialect.value
            attributes["gen_ai.request.stream"] = translation.stream
            if losses := translation.context.losses:
                attributes["dragoman.losses"] = len(losses)
        if failure is not None:
            attributes["error.type"] = error_word(failure)
        return attributes

    def _reply_attributes(self, receipt: Receipt, attempt: _Attempt) -> dict[str, Value]:
        attributes: dict[str, Value] = {}
        if receipt.begun_at is not None:
            before = (attempt.start - self._start) / 1e9
            attributes["gen_ai.response.time_to_first_chunk"] = max(0.0, receipt.begun_at - receipt.opened_at - before)
        if (translation := receipt.translation) is not None:
            attributes["gen_ai.request.stream"] = translation.stream
            usage, estimated = translation.usage_and_estimates()
            if usage is not None:
                for name, count in _USAGE:
                    if (tokens := getattr(usage, count)) is not None:
                        attributes[name] = tokens
                if estimated:
                    attributes["dragoman.usage.estimated"] = True
        return attributes


def _provider_name(provider: Provider) -> str:
    """Return the name of a provider in the conventions; that of the configuration if its vendor is not known."""
    profile = provider.profile_name
    return _NAMES.get(profile) or (profile if profile not in ("", "compatible") else provider.name)

"""One request of a client, from its arrival to its end: what it uses, what is known of it, and what ends with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aiohttp import web

from dragoman import Dialect, Failure, Translation
from dragoman.aio import Downstream, StreamTimers
from dragoman.gateway import short_repr
from dragoman_server.proxy.auth import WITHOUT_KEY, Caller
from dragoman_server.proxy.limits import NO_RATE_HEADERS
from dragoman_server.receipt import Ending, Receipt
from dragoman_server.services import Services

if TYPE_CHECKING:
    from dragoman_server.accounts.limits.claim import Claim
    from dragoman_server.observability.captures.recording import Recording
    from dragoman_server.observability.throttled_log import UpstreamWarnings
    from dragoman_server.observability.tracing.exchange_trace import ExchangeTrace
    from dragoman_server.proxy.attached.attachment import Attachment
    from dragoman_server.proxy.background_run import BackgroundRun
    from dragoman_server.routing.response_issuers import ContinuedObject, ExpectedResponse

log = logging.getLogger("dragoman")
OpenStream = Callable[[StreamTimers, dict[str, str]], Downstream]
"""A function that returns what the stream of an exchange with these timers is sent to.

It may add to the headers of the response.
"""


class RequestScope:
    """One request. Only its `Draft` has what is freed when the reply begins, such as the client's HTTP request.

    Args:
        services: What all requests share.
        receipt: What is known of the request. It outlives the scope.
    """

    __slots__ = (
        "_endings",
        "_is_open",
        "attachment",
        "caller",
        "claim",
        "expected",
        "open_stream",
        "rate_headers",
        "receipt",
        "record",
        "recording",
        "run",
        "services",
        "trace",
        "unknown",
        "warnings",
    )

    def __init__(self, services: Services, receipt: Receipt) -> None:
        self.services = services
        self.receipt = receipt
        self.warnings: UpstreamWarnings = services.loaded.upstream_warnings
        """Decides which failures are warnings in the log. An open stream keeps nothing else of its configuration."""
        self.open_stream: OpenStream | None = None
        """A function that returns what receives the stream in place of the client's connection; None for that."""
        self.caller: Caller = WITHOUT_KEY
        """The client, once it is admitted."""
        self.claim: Claim | None = None
        """The claim on the limits of its key, once the request is counted in them."""
        self.trace: ExchangeTrace | None = None
        """The trace of the request, if it is traced."""
        self.recording: Recording | None = None
        """The recording of the exchange, if it is captured."""
        self.record: Callable[[bytes], None] | None = None
        """Records the batches of a stream that are sent, if the console shows them."""
        self.run: BackgroundRun | None = None
        """The run in the background that the request belongs to."""
        self.attachment: Attachment | None = None
        """The link of a run to its response at the upstream; None for what only this process runs."""
        self.expected: ExpectedResponse | None = None
        """The response that the upstream is to store, if a request that continues it must go to the same upstream."""
        self.unknown: ContinuedObject | None = None
        """The response or conversation that the request continues, if only another process may know its provider."""
        self.rate_headers: Mapping[str, str] = NO_RATE_HEADERS
        """Headers of the reply with the rate limits of the client's key. They replace the upstream's."""
        self._endings: list[Ending] = []
        self._is_open = False

    def __repr__(self) -> str:
        return short_repr(self, self.receipt, f"{len(self._endings)} endings")

    @classmethod
    def begin(cls, services: Services, request: web.Request, client: Dialect, endpoint: str = "") -> RequestScope:
        """Return the scope of a request that has arrived, which is counted as open until `end`.

        `endpoint` is the path of a forwarded endpoint below `/v1`.
        """
        scope = cls(services, Receipt(services.new_id(), client, int(services.now()), endpoint=endpoint))
        services.instruments.metrics.opened(scope.receipt)
        scope._is_open = True
        scope._endings += services.endings
        if (tracer := services.instruments.tracer) is not None:
            scope.trace = trace = tracer.begin(request.headers, endpoint)
            scope.receipt.trace_id = trace.trace_id
            scope.at_end(trace.end)
        return scope

    def reopen(self, age: float) -> None:
        """Count a request that another process has begun, `age` seconds ago, as open until `end`."""
        self.services.instruments.metrics.opened(self.receipt)
        self.receipt.opened_at -= max(0.0, age)
        self._is_open = True
        self._endings += self.services.endings

    def admitted(self, caller: Caller) -> None:
        """Record the client of the request."""
        self.caller = caller
        self.receipt.owner, self.receipt.principal, self.receipt.key = caller

    @property
    def translation(self) -> Translation:
        """The translation of the request, once it is translated and until it has ended."""
        translation = self.receipt.translation
        assert translation is not None
        return translation

    def seconds(self) -> float:
        """Return the seconds since the request arrived; 0 for one that is not counted."""
        return self.services.instruments.metrics.seconds(self.receipt) if self._is_open else 0.0

    def begun(self) -> None:
        """Record the first event of a streamed reply."""
        if self._is_open:
            self.services.instruments.metrics.begun(self.receipt)

    def at_end(self, ending: Ending) -> None:
        """Set another ending: called once when the request has ended, however that is, after those that are set."""
        self._endings.append(ending)

    def end(self, ended: str, status: int, failure: Failure | None = None, *, ours: bool = False) -> None:
        """Complete the receipt, and call the endings; only the first call has an effect.

        An ending that raises does not keep the others from being called. `ours` is that of `Receipt.complete`.
        """
        receipt = self.receipt
        if receipt.ended != "open":
            return
        receipt.complete(ended, status, failure, duration=self.seconds(), ours=ours)
        endings, self._endings = self._endings, []
        for ending in endings:
            try:
                ending(receipt, failure)
            except Exception:
                log.exception("%s the end of the request failed by a defect", receipt.request_id)
        # This frees the losses, the tools and the parts of the request that replies repeat.
        receipt.translation = None

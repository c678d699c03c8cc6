"""The receipts of the last requests, by Dragoman's request id: result, token counts, losses and violations.

A receipt holds field names, codes and counts, and no text of a prompt or a completion. Its texts are Dragoman's own,
cut to `TEXT_MAX`, as paths may end in a name that the client chose. Only the key that made a request may read its
receipt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from hmac import compare_digest
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dragoman import ClientRequestError, Dialect, Failure, Losses, Translation, Usage
from dragoman.aio import UpstreamRequest
from dragoman.errors import FailureOrigin
from dragoman.gateway import StoredReply, Violation, quote, redact, short_repr
from dragoman.wire import Json, json_dumps
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.config.provider import Provider
from dragoman_server.observability.exchange_record import Principal

if TYPE_CHECKING:
    from decimal import Decimal

    from dragoman_server.observability.captures.recording import Recording
    from dragoman_server.proxy.background import BackgroundRun

TEXT_MAX = 300
"""Longest text of a receipt, in characters."""
RENAMES_MAX = 256
"""Most renamed tools of a receipt."""
LIST_DEFAULT, LIST_MAX = 20, 100
"""Receipts in a list, by default and at most."""
SCAN_MAX = 10_000
"""Most receipts that are looked at for a list."""
_LONG = ("attempts", "cache", "losses", "renames", "violations")


CostOf = Callable[[Usage, str, "str | None"], "Decimal | None"]


_SENT = ("answered", "abandoned")
"""The outcomes of attempts that an upstream may have accepted."""
_INTERRUPTIONS = ("defect", "stopping", "given_up")
"""Reasons for which the gateway ends a request that it has accepted."""


def ended_by(failure: Failure) -> str:
    """Return how a translated request ends if this failure is its response: `failed` or `rejected`."""
    if failure.origin is FailureOrigin.UPSTREAM or failure.reason in _INTERRUPTIONS:
        return "failed"
    return "rejected"


class AttemptRow(NamedTuple):
    """One upstream request of a client request that may be sent several times.

    `key` is the place of the key in the provider's list, from 1; 0 if there is one key. `outcome` is as in the metric
    `dragoman_upstream_attempts_total`. `waited` is the time in pauses and queues before it, of the whole request.
    """

    provider: str
    upstream_model: str
    key: int
    outcome: str
    status: int | None
    seconds: float
    waited: float

    def __str__(self) -> str:
        key = f" (key {self.key})" if self.key else ""
        status = f" {self.status}" if self.status is not None else ""
        model = quote(self.upstream_model)
        return f"{model} at {self.provider}{key} {self.outcome}{status} after {self.seconds:.3f} s"

    def json(self) -> Json:
        """Return the row for a receipt."""
        return {
            "provider": self.provider,
            "upstream_model": self.upstream_model[:TEXT_MAX],
            "key": self.key or None,
            "outcome": self.outcome,
            "status": self.status,
            "seconds": round(self.seconds, 6),
            "waited": round(self.waited, 6),
        }


@dataclass(slots=True)  # made in two thirds of the time of a named tuple
class Facts:
    """The facts of an exchange that has ended: its translation without the parts that only an open one needs.

    `estimated` are the names of the fields of `usage` that are estimates. `rest` has what few exchanges have, as in the
    receipt's JSON: violations, renames and the upstream's error. Its losses become JSON when they are shown: a long
    history adds hundreds, whose texts cost a tenth of an agent's request.
    """

    upstream: Dialect
    upstream_model: str
    stream: bool
    usage: Usage | None
    estimated: tuple[str, ...]
    rest: Json | None
    service: Any = None
    """The statements of the upstream about its service (`dragoman.canonical.service_report`)."""
    losses: Losses | None = None
    secrets: Sequence[str] = ()
    """Masked in the texts of the losses."""


class ReceiptCounter(Protocol):
    """Counts what happens to a receipt's request."""

    def seconds(self, receipt: Receipt) -> float:
        """Return the seconds since the request arrived."""
        ...

    def begun(self, receipt: Receipt) -> None:
        """Count the first event of the streamed reply."""
        ...

    def ended(self, receipt: Receipt, failure: Failure | None) -> None:
        """Count the end. The receipt still has its translation."""
        ...


class StoredTurn(Protocol):
    """The use of stored responses by a receipt's request."""

    @property
    def reply(self) -> StoredReply:
        """The parameters by which its reply is stored."""
        ...

    def relocate(self, error: ClientRequestError) -> None:
        """Let an error name a field of the client's own request."""
        ...


class ReceiptTrace(Protocol):
    """The trace of a receipt's request."""

    @property
    def trace_id(self) -> str:
        """The id of the trace."""
        ...

    def start_attempt(self, call: UpstreamRequest, provider: Provider, model: str) -> UpstreamRequest:
        """Begin an attempt, and return its request with the headers of the trace."""
        ...

    def fail_attempt(self, failure: Failure) -> None:
        """End an attempt that failed and is followed by another one."""
        ...

    def end(self, receipt: Receipt, failure: Failure | None) -> None:
        """Record the end. The receipt still has its translation."""
        ...


@dataclass(slots=True)
class Receipt:
    """One request. `ended` is `open` until the reply has ended; then only the receipt's own facts are kept.

    `ended` becomes `completed`, `failed` (before the reply or within it), `refused` (the upstream returned an error
    status), `rejected` (the gateway did: no upstream is at fault) or `abandoned` (the client disconnected). `status` is
    the HTTP status that the client got.
    """

    request_id: str
    client: Dialect
    created: int
    owner: bytes = field(default=b"", repr=False)
    """The digest of the client's key."""
    model: str | None = None
    provider: str | None = None
    translation: Translation | None = None
    ended: str = "open"
    status: int | None = None
    error: Json | None = None
    client_profile: str | None = None
    """The known client that sent it (`routing.client_profiles`)."""
    cache: Json | None = None
    """The result of `prompt_cache` for the request."""
    route: str = ""
    """The pattern of the route, or the name of the rule, that chose the provider."""
    metrics: ReceiptCounter | None = field(default=None, repr=False)
    """The counters of the request, until it has ended."""
    principal: Principal[Any] | None = None
    """The user that the hook `authorize` found."""
    on_end: Callable[[Receipt, Failure | None], None] | None = field(default=None, repr=False)
    """Called once, when the exchange ends."""
    key: KeyRecord | None = field(default=None, repr=False)
    """The named key of the client."""
    settle: Callable[[Receipt], None] | None = field(default=None, repr=False)
    """Counts what the request used in the limits of its key; called once, when the exchange ends."""
    attempts: tuple[AttemptRow, ...] = ()
    """The upstream requests, if there may be several."""
    trace: ReceiptTrace | None = field(default=None, repr=False)
    """The trace of the request, if it is traced, until it has ended."""
    capture: Recording | None = field(default=None, repr=False)
    """The recording of the exchange, if it is captured, until it has ended."""
    turn: StoredTurn | None = field(default=None, repr=False)
    """Its use of stored responses, until it has ended; None if it uses none."""
    background: BackgroundRun | None = field(default=None, repr=False)
    """The run in the background that it belongs to."""
    endpoint: str = ""
    """The path of a forwarded endpoint, such as `embeddings`; empty for those that translate."""
    opened_at: float = 0.0
    begun_at: float | None = None
    duration: float | None = None
    """Seconds from the arrival of a request to its end, if it was translated and has ended."""
    facts: Facts | None = field(default=None, repr=False)
    """The facts of the translation, once the reply has ended."""

    def __repr__(self) -> str:
        return short_repr(self, self.request_id, self.client, self.ended, self.status)

    @property
    def losses(self) -> Losses | None:
        """The losses, from the translation of the request until the end of the reply."""
        return self.translation.losses if self.translation is not None else None

    def seconds(self) -> float:
        """Return the seconds since the request arrived; 0 for a receipt that is not counted, or that has ended."""
        return self.metrics.seconds(self) if self.metrics is not None else 0.0

    def begin(self) -> None:
        """Record the first event of a streamed reply."""
        if self.metrics is not None:
            self.metrics.begun(self)

    def end(self, ended: str, status: int, failure: Failure | None = None, *, ours: bool = False) -> None:
        """Complete the receipt; only the first call has an effect.

        `ours` is True for a failure of the upstream whose message is Dragoman's.
        """
        if self.ended != "open":
            return
        self.ended, self.status = ended, status
        if failure is not None:
            self.error = _error(failure, ours=ours)
        if self.translation is not None:
            self.duration = self.metrics.seconds(self) if self.metrics is not None else 0.0
            self.keep_facts(self.translation)
        if self.on_end is not None:
            self.on_end(self, failure)
        if self.settle is not None:
            self.settle(self)
            self.settle = None
        if self.trace is not None:
            self.trace.end(self, failure)
            self.trace = None
        if self.metrics is not None:
            self.metrics.ended(self, failure)
            self.metrics = None
        self.turn = None
        # This frees the losses, the tools and the parts of the request that replies repeat.
        self.translation = None

    def keep_facts(self, translation: Translation) -> None:
        """Keep the facts of the translation, whose reply has ended. Only the first call has an effect."""
        if self.facts is None:
            # Not yet as JSON, which takes longer than the rest and is needed for few receipts.
            self.facts = _facts_of(translation)
            if (losses := self.facts.losses) is not None:
                losses.shorten(TEXT_MAX, partial(redact, secrets=self.facts.secrets))

    @property
    def usage(self) -> Usage | None:
        """The usage of a complete receipt; None if it is open or has none."""
        return self.facts.usage if self.facts is not None else None

    @property
    def reached_upstream(self) -> bool:
        """True if the upstream accepted the request, so that its tokens may be charged."""
        if self.attempts and self.attempts[-1].outcome not in _SENT:
            return False  # the client has disconnected in a pause or in a queue
        return self.begun_at is not None or self.ended in ("completed", "abandoned")

    def json(self) -> bytes:
        """Return the body of `GET /v1/dragoman/receipts/{request_id}`."""
        return json_dumps(self._shown())

    def summary(self) -> Json:
        """Return the receipt without its long parts, for a list."""
        return {name: value for name, value in self._shown().items() if name not in _LONG}

    def _shown(self) -> Json:
        facts = self.facts if self.translation is None else _facts_of(self.translation)
        shown: dict[str, Any] = {
            "object": "dragoman.receipt",
            "request_id": self.request_id,
            "created": self.created,
            "client": self.client.value,
            "client_profile": self.client_profile,
            "endpoint": self.endpoint or None,
            "upstream": None,
            "provider": self.provider,
            "model": self.model[:TEXT_MAX] if self.model else None,
            "upstream_model": None,
            "stream": None,
            "ended": self.ended,
            "status": self.status,
            "error": self.error,
            "usage": None,
            "losses": [],
            "losses_total": 0,
            "violations": [],
            "cache": self.cache,
            "renames": {},
        }
        if self.attempts:
            shown["attempts"] = [row.json() for row in self.attempts]
        if facts is not None:
            shown["upstream"], shown["stream"] = facts.upstream, facts.stream
            shown["upstream_model"] = facts.upstream_model
            if facts.usage is not None:
                shown["usage"] = _counts(facts.usage, facts.estimated)
            if facts.service is not None:
                shown["service"] = {name: value for name, value in asdict(facts.service).items() if value is not None}
            shown.update(facts.rest or {})
            if facts.losses is not None:
                shown["losses"] = loss_rows(facts.losses, TEXT_MAX, facts.secrets)
            shown["error"] = self.error or shown["error"]
        return shown


def _facts_of(translation: Translation) -> Facts:
    context = translation.context
    usage, estimated = translation.usage_and_estimates()
    rest: Json | None = None
    # Only what there is: receipts are kept for long, and few have any of this.
    if context.losses or context.violation is not None or context.names or context.tools or context.failure is not None:
        rest = _rest(translation)
    model = translation.upstream_model[:TEXT_MAX]
    facts = Facts(
        translation.direction.upstream.dialect, model, translation.stream, usage, estimated, rest, context.service
    )
    if context.losses:
        facts.losses, facts.secrets = context.losses, context.secrets
    return facts


def _rest(translation: Translation) -> Json:
    context = translation.context
    rest: Json = {}
    if context.losses:
        rest["losses_total"] = len(context.losses)
    if context.violation is not None:
        rest["violations"] = [_violation(context.violation, context.secrets)]
    if context.names or context.tools:
        names = list(translation.renamed_tools.items())[:RENAMES_MAX]
        rest["renames"] = {sent[:TEXT_MAX]: name[:TEXT_MAX] for sent, name in names}
    if context.failure is not None:
        rest["error"] = _error(context.failure)
    return rest


def _counts(usage: Usage, estimated: tuple[str, ...]) -> Json:
    counts: Json = asdict(usage)
    if estimated:
        counts["estimated"] = estimated
    return counts


def _violation(violation: Violation, secrets: Sequence[str]) -> Json:
    """Return a violation of the client's dialect: its place, the rule, and the frame without its texts."""
    facts = violation._asdict()
    return {name: redact(fact, secrets)[:TEXT_MAX] if isinstance(fact, str) else fact for name, fact in facts.items()}


def loss_rows(losses: Losses, longest: int | None = None, secrets: Sequence[str] = ()) -> list[Json]:
    """Return the losses with their meaning. Texts are cut to `longest`; `secrets` in them are masked."""
    return [
        {
            "code": code.value,
            "path": redact(path, secrets)[:longest],
            "done": redact(done, secrets)[:longest],
            "meaning": code.meaning,
        }
        for code, path, done in losses.rows
    ]


def _error(failure: Failure, *, ours: bool = False) -> Json:
    """Return an error; with its message only if that is Dragoman's, as an upstream's may quote the request."""
    error: Json = {"kind": failure.kind.value, "status": failure.status, "code": failure.code, "param": failure.param}
    if ours or failure.origin is not FailureOrigin.UPSTREAM:
        error["message"] = failure.message[:TEXT_MAX]
    return {name: value[:TEXT_MAX] if isinstance(value, str) else value for name, value in error.items()}


class Receipts:
    """The receipts of the last `keep` requests, in memory. The oldest is dropped first."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        # A dict searches the gaps of all keys that it dropped for its first one.
        self._filed: OrderedDict[str, Receipt] = OrderedDict()

    def __len__(self) -> int:
        return len(self._filed)

    def resize(self, keep: int) -> None:
        """Set the number of receipts to keep."""
        self._keep = keep
        while len(self._filed) > keep:
            self._filed.popitem(last=False)

    def file(self, receipt: Receipt) -> None:
        """Add a receipt. It may still be open, and is completed later."""
        if not self._keep:
            return
        if len(self._filed) >= self._keep:
            self._filed.popitem(last=False)
        self._filed[receipt.request_id] = receipt

    def newest(self) -> Iterator[Receipt]:
        """Yield the receipts of all clients, the newest first. No receipt may be filed meanwhile."""
        return reversed(self._filed.values())

    def last(self, owner: bytes, most: int) -> list[Json]:
        """Return summaries of the last `most` requests of the key with the digest `owner`, the newest first."""
        mine = (each for each in islice(self.newest(), SCAN_MAX) if each.owner == owner)
        return [each.summary() for each in islice(mine, most)]

    def of_any_client(self, request_id: str) -> Receipt | None:
        """Return the receipt of a request, whichever client made it, or None."""
        return self._filed.get(request_id)

    def find(self, request_id: str, owner: bytes) -> Receipt | None:
        """Return the receipt of a request that the key with the digest `owner` made, or None."""
        receipt = self._filed.get(request_id)
        # Compared also if there is no receipt, so that the time taken reveals nothing about other requests.
        mine = compare_digest(receipt.owner if receipt is not None else b"", owner)
        return receipt if mine else None

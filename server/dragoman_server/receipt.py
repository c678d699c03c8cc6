"""The receipt of a request: result, token counts, losses and violations.

A receipt holds field names, codes and counts, and no text of a prompt or a completion. Its texts are Dragoman's own,
cut to `TEXT_MAX`, as paths may end in a name that the client chose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from dragoman import Dialect, Failure, Losses, Translation, Usage
from dragoman.errors import FailureOrigin
from dragoman.gateway import ServiceReport, Violation, quote, redact, short_repr
from dragoman.wire import Json, json_dumps
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.observability.attempt_usage import AttemptUsage, with_attempts, with_input
from dragoman_server.observability.exchange_record import RUNNING, Principal

TEXT_MAX = 300
"""Longest text of a receipt, in characters."""
RENAMES_MAX = 256
"""Most renamed tools of a receipt."""
_LONG = ("attempts", "cache", "losses", "renames", "violations")
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
    service: ServiceReport | None = None
    """The statements of the upstream about its service."""
    losses: Losses | None = None
    secrets: Sequence[str] = ()
    """Masked in the texts of the losses."""


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
    """The translation, until the request has ended."""
    ended: str = "open"
    status: int | None = None
    error: Json | None = None
    client_profile: str | None = None
    """The known client that sent it (`routing.client_profiles`)."""
    cache: Json | None = None
    """The result of `prompt_cache` for the request."""
    route: str = ""
    """The pattern of the route, or the name of the rule, that chose the provider."""
    principal: Principal[Any] | None = None
    """The user that the hook `authorize` found."""
    key: KeyRecord | None = field(default=None, repr=False)
    """The named key of the client."""
    tag: str | None = None
    """The tag of the request, else that of its key, by which usage is added up."""
    attempts: tuple[AttemptRow, ...] = ()
    """The upstream requests, if there may be several."""
    skipped: tuple[str, ...] = ()
    """The providers that came before the one that was asked first, and paused."""
    trace_id: str | None = None
    """The id of its trace, if it is traced."""
    endpoint: str = ""
    """The path of a forwarded endpoint, such as `embeddings`; empty for those that translate."""
    opened_at: float = 0.0
    """When the request arrived, by the clock of the counters (`Metrics`)."""
    begun_at: float | None = None
    """When its streamed reply began, by the same clock."""
    cut: bool = False
    """True if the whole reply of the last attempt began, and could not be read to its end."""
    runs_on: bool | None = None
    """True for a response that its upstream runs in the background, whose end is not known; False once it is. None for
    all others."""
    is_held: bool = False
    """True if its row waits until it is known that no other process books it."""
    used_before: tuple[AttemptUsage, ...] = ()
    """The usage of attempts that others followed: an upstream may charge for a reply that had begun."""
    duration: float = 0.0
    """Seconds from the arrival of the request to its end, once it has ended."""
    facts: Facts | None = field(default=None, repr=False)
    """The facts of the translation, once the reply has ended."""

    def __repr__(self) -> str:
        return short_repr(self, self.request_id, self.client, self.ended, self.status)

    @property
    def losses(self) -> Losses | None:
        """The losses, from the translation of the request until the end of the reply."""
        return self.translation.losses if self.translation is not None else None

    def complete(
        self, ended: str, status: int, failure: Failure | None = None, *, duration: float = 0.0, ours: bool = False
    ) -> None:
        """Record how the request has ended, `duration` seconds after its arrival.

        `ours` is True for a failure of the upstream whose message is Dragoman's.
        """
        self.ended, self.status, self.duration = ended, status, duration
        if failure is not None:
            self.error = _error(failure, ours=ours)
        if self.translation is not None:
            self.keep_facts(self.translation)

    def complete_run(
        self, ended: str, usage: Usage, estimated: Sequence[str], service: ServiceReport | None, duration: float
    ) -> None:
        """Record the end of a response that its upstream ran, `duration` seconds after the request arrived."""
        self.runs_on, self.ended, self.duration = False, ended, duration
        if self.facts is not None:
            self.facts.usage, self.facts.estimated = usage, tuple(estimated)
            self.facts.service = service or self.facts.service

    def keep_facts(self, translation: Translation) -> None:
        """Keep the facts of the translation, whose reply has ended. Only the first call has an effect."""
        if self.facts is None:
            # Not yet as JSON, which takes longer than the rest and is needed for few receipts.
            self.facts = _facts_of(translation)
            if self.used_before:
                self._add_attempts(self.facts, translation)
            if (losses := self.facts.losses) is not None:
                losses.shorten(TEXT_MAX, partial(redact, secrets=self.facts.secrets))

    def keep_attempt(self, translation: Translation) -> None:
        """Keep what an attempt has used, as another one follows."""
        usage, estimated = translation.usage_and_estimates()
        if self.cut:
            usage, estimated = with_input(usage, estimated, translation)
            self.cut = False
        if usage is not None:
            self.used_before += (AttemptUsage(translation.upstream_model, usage, estimated),)

    def _add_attempts(self, facts: Facts, translation: Translation) -> None:
        last = facts.usage, facts.estimated
        if self.reached_upstream:
            last = with_input(*last, translation)
        facts.usage, facts.estimated = with_attempts(*last, translation.upstream_model, self.used_before)

    @property
    def usage(self) -> Usage | None:
        """The usage of a complete receipt; None if it is open or has none."""
        return self.facts.usage if self.facts is not None else None

    @property
    def reached_upstream(self) -> bool:
        """True if the upstream accepted the request, so that its tokens may be charged."""
        if self.cut:
            return True
        if self.attempts and self.attempts[-1].outcome not in _SENT:
            return False  # the client has disconnected in a pause or in a queue
        return self.begun_at is not None or self.ended in ("completed", "abandoned")

    def json(self, host: str = "") -> bytes:
        """Return the body of `GET /v1/dragoman/receipts/{request_id}`. `host` is the name of the gateway's host."""
        return json_dumps(self.shown(host))

    def summary(self, host: str = "") -> Json:
        """Return the receipt without its long parts, for a list."""
        return without_long_parts(self.shown(host))

    def shown(self, host: str = "") -> Json:
        """Return what is shown of the request. `host` is the name of the gateway's host."""
        facts = self.facts
        if facts is None and self.translation is not None:
            facts = _facts_of(self.translation)
        shown: dict[str, Any] = {
            "object": "dragoman.receipt",
            "request_id": self.request_id,
            "host": host or None,
            "created": self.created,
            "client": self.client.value,
            "client_profile": self.client_profile,
            "tag": self.tag,
            "endpoint": self.endpoint or None,
            "upstream": None,
            "provider": self.provider,
            "model": self.model[:TEXT_MAX] if self.model else None,
            "upstream_model": None,
            "stream": None,
            "ended": RUNNING if self.runs_on and self.ended != "open" else self.ended,
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
        if self.skipped:
            shown["skipped"] = [{"provider": name, "reason": "paused"} for name in self.skipped]
        if facts is not None:
            shown["upstream"], shown["stream"] = facts.upstream, facts.stream
            shown["upstream_model"] = facts.upstream_model
            if facts.usage is not None:
                shown["usage"] = counts_shown(facts.usage, facts.estimated)
            if facts.service is not None:
                shown["service"] = {name: value for name, value in asdict(facts.service).items() if value is not None}
            shown.update(facts.rest or {})
            if facts.losses is not None:
                shown["losses"] = loss_rows(facts.losses, TEXT_MAX, facts.secrets)
            shown["error"] = self.error or shown["error"]
        return shown


def without_long_parts(shown: Json) -> Json:
    """Return what is shown of a request without its long parts."""
    return {name: value for name, value in shown.items() if name not in _LONG}


Ending = Callable[[Receipt, "Failure | None"], None]
"""Called when a request has ended, with the failure of the gateway, if any. The receipt still has its translation."""


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


def counts_shown(usage: Usage, estimated: tuple[str, ...]) -> Json:
    """Return the counts of a usage as a receipt shows them."""
    counts: Json = asdict(usage)
    del counts["other_models"]
    if others := usage.other_models:
        counts["other_models"] = [
            {"model": model[:TEXT_MAX] or None, **counts_shown(part, ())} for model, part in others
        ]
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

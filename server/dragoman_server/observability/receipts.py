"""What became of the last requests, by our own request id: how each ended, and all that it lost on the way.

A receipt holds field names, codes and counts, never a word of a prompt or a completion: its texts are the gateway's own
and cut short, as paths may end in a name that the client chose. Only the key that made a request may read its receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hmac import compare_digest
from typing import Any, Protocol

from dragoman.canonical.events import Usage
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.redact import redact
from dragoman.errors import Failure
from dragoman.losses import MEANING, LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.stages.violation import Violation
from dragoman.tokens.stream_usage import usage_so_far
from dragoman.translate import Translation
from dragoman.wire.json_codec import dumps
from dragoman_server.observability.exchange_record import ExchangeRecord, Principal

TEXT_MAX = 300
"""Longest text of a receipt, in characters."""
RENAMES_MAX = 256
"""Most renamed tools of a receipt."""


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


@dataclass(slots=True)
class Receipt:
    """One request. `ended` is `open` until the reply has ended, and only what is told is then kept.

    `ended` becomes `completed`, `failed` (before the reply or within it), `refused` (the upstream answered an error
    status), `rejected` (the gateway did: nothing was sent upstream) or `abandoned` (the client left); `status` is the
    HTTP status that the client got.
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
    """The known client that sent it, told by its headers (`clients`)."""
    cache: Json | None = None
    """How far it repeats the previous request of its conversation (`prefixes`)."""
    route: str = ""
    """Which rule of the configuration led to the provider."""
    metrics: ReceiptCounter | None = field(default=None, repr=False)
    """Who counts the end."""
    principal: Principal | None = None
    """The user that the hook `authorize` found."""
    on_end: Callable[[Receipt, Failure | None], None] | None = field(default=None, repr=False)
    """Called once, when the exchange ends."""
    opened_at: float = 0.0
    begun_at: float | None = None
    _told: Json | None = field(default=None, repr=False)
    """What the translation had to tell, once the reply has ended."""

    @property
    def losses(self) -> Losses | None:
        """The ledger, once the request was translated and until the reply has ended."""
        return self.translation.losses if self.translation is not None else None

    def seconds(self) -> float:
        """Seconds since the request came, until its end is counted; 0 for a receipt that no metrics count."""
        return self.metrics.seconds(self) if self.metrics is not None else 0.0

    def begin(self) -> None:
        """The first event of a streamed reply came."""
        if self.metrics is not None:
            self.metrics.begun(self)

    def end(self, ended: str, status: int, failure: Failure | None = None, *, ours: bool = False) -> None:
        """Complete the receipt. Only the first end counts. `ours`: the failure's words are the gateway's own."""
        if self.ended != "open":
            return
        self.ended, self.status = ended, status
        if failure is not None:
            self.error = _told(failure, ours or ended == "rejected")
        if self.translation is not None:
            # Not as JSON, which takes longer than all else here and is asked for of very few.
            self._told = self._translated(self.translation)
        if self.on_end is not None:
            self.on_end(self, failure)
        if self.metrics is not None:
            self.metrics.ended(self, failure)
            self.metrics = None
        # With it go the ledger, the tools and what a reply repeats of its request.
        self.translation = None

    def record(self, failure: Failure | None) -> ExchangeRecord:
        """Return the record of the exchange, which has just ended with this failure, if any."""
        translation, usage = self.translation, None
        estimated: tuple[str, ...] = ()
        losses: Mapping[LossCode, int] = {}
        if translation is not None:
            context = translation.context
            failure = failure or context.failure
            usage, estimated = usage_so_far(context)
            losses = dict(context.losses.counts)
        return ExchangeRecord(
            request_id=self.request_id,
            client=self.client,
            ended=self.ended,
            status=self.status or 0,
            principal=self.principal,
            model=self.model,
            provider=self.provider,
            upstream=translation.direction.upstream.dialect if translation is not None else None,
            upstream_model=translation.upstream_model if translation is not None else None,
            route=self.route,
            client_profile=self.client_profile,
            stream=translation.stream if translation is not None else None,
            created=self.created,
            duration=self.seconds(),
            first_event=self.begun_at - self.opened_at if self.begun_at is not None else None,
            usage=usage,
            estimated=estimated,
            losses=losses,
            error_kind=failure.kind if failure is not None else None,
            error_origin=failure.origin if failure is not None else None,
            error_code=failure.code if failure is not None else None,
        )

    def json(self) -> bytes:
        """The receipt as `GET /v1/dragoman/receipts/{request_id}` tells it."""
        translation = self.translation
        facts: dict[str, Any] = {
            "object": "dragoman.receipt",
            "request_id": self.request_id,
            "created": self.created,
            "client": self.client.value,
            "client_profile": self.client_profile,
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
        told = self._told if translation is None else self._translated(translation)
        if told is not None:
            error = facts["error"]
            facts.update(told)
            facts["error"] = error or facts["error"]
            if (usage := facts["usage"]) is not None:
                facts["usage"] = _counts(*usage)
        return dumps(facts)

    def _translated(self, translation: Translation) -> Json:
        context = translation.context
        facts: dict[str, Any] = {
            "upstream": translation.direction.upstream.dialect,
            "upstream_model": translation.upstream_model[:TEXT_MAX],
            "stream": translation.stream,
        }
        # Only what there is: a receipt is kept for long, and few have any of it.
        usage, estimated = usage_so_far(context)
        if usage is not None:
            facts["usage"] = usage, estimated
        if context.losses:
            facts["losses"] = loss_rows(context.losses, TEXT_MAX, context.secrets)
            facts["losses_total"] = len(context.losses)
        if context.violation is not None:
            facts["violations"] = [_broken(context.violation, context.secrets)]
        if context.names or context.tools:
            names = list(renamed_tools(context).items())[:RENAMES_MAX]
            facts["renames"] = {sent[:TEXT_MAX]: name[:TEXT_MAX] for sent, name in names}
        if context.failure is not None:
            facts["error"] = _told(context.failure, ours=False)
        return facts


def _counts(usage: Usage, estimated: tuple[str, ...]) -> Json:
    counts: Json = asdict(usage)
    if estimated:
        counts["estimated"] = estimated
    return counts


def _broken(violation: Violation, secrets: Sequence[str]) -> Json:
    """A breach of the client's dialect in a stream: where, by which rule, and the frame without its texts."""
    facts = violation._asdict()
    return {name: redact(fact, secrets)[:TEXT_MAX] if isinstance(fact, str) else fact for name, fact in facts.items()}


def loss_rows(losses: Losses, longest: int | None = None, secrets: Sequence[str] = ()) -> list[Json]:
    """The ledger's rows with their meaning. Their texts may hold a word of the upstream's, without `secrets`."""
    return [
        {
            "code": code.value,
            "path": redact(path, secrets)[:longest],
            "done": redact(done, secrets)[:longest],
            "meaning": MEANING[code],
        }
        for code, path, done in losses.rows
    ]


def _told(failure: Failure, ours: bool) -> Json:
    """An error without the upstream's words for it, which may quote the request."""
    told: Json = {"kind": failure.kind.value, "status": failure.status, "code": failure.code, "param": failure.param}
    if ours:
        told["message"] = failure.message[:TEXT_MAX]
    return {name: value[:TEXT_MAX] if isinstance(value, str) else value for name, value in told.items()}


class Receipts:
    """The receipts of the last `keep` requests, in memory; the oldest goes first."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._filed: dict[str, Receipt] = {}

    def __len__(self) -> int:
        return len(self._filed)

    def resize(self, keep: int) -> None:
        """Keep `keep` from now on."""
        self._keep = keep
        for request_id in list(self._filed)[: max(0, len(self._filed) - keep)]:
            del self._filed[request_id]

    def file(self, receipt: Receipt) -> None:
        """Keep a receipt, from now on and while it is being completed."""
        if not self._keep:
            return
        if len(self._filed) >= self._keep:
            del self._filed[next(iter(self._filed))]
        self._filed[receipt.request_id] = receipt

    def find(self, request_id: str, owner: bytes) -> Receipt | None:
        """The receipt of a request that the key with the digest `owner` made; another's is as none."""
        receipt = self._filed.get(request_id)
        # Compared in any case, so that the time taken tells nothing about the ids of others.
        mine = compare_digest(receipt.owner if receipt is not None else b"", owner)
        return receipt if mine else None


def renamed_tools(context: ReplyContext) -> dict[str, str]:
    """Return the client's names of tools by the name that was sent, where they differ (mapping §11).

    A tool in a namespace is `namespace.name`.
    """
    names = dict(context.names)
    for sent, tool in bridged_tools(context).items():
        name = f"{tool['namespace']}.{tool['name']}" if "namespace" in tool else tool["name"]
        if name != sent:
            names[sent] = name
    return names


def bridged_tools(context: ReplyContext) -> dict[str, Json]:
    """Return the client's declarations, by the name that was sent, of tools sent as another kind or out of their
    namespace (mapping §11)."""
    # The bridge's name of a tool may have been changed again for the characters that the upstream allows.
    sent_names = {name: sent for sent, name in context.names.items()}
    tools: dict[str, Json] = {}
    for flat, declared in context.tools.items():
        tool: Json = {"name": declared.name, "kind": declared.kind.value}
        if declared.namespace is not None:
            tool["namespace"] = declared.namespace
        tools[sent_names.get(flat, flat)] = tool
    return tools

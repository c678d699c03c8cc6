"""An exchange that has just ended: what is booked of it, and the record that the hook `on_end` gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragoman import Dialect, Failure, LossCode, Usage
from dragoman.gateway import ServiceReport, short_repr
from dragoman_server.observability.attempt_usage import with_input
from dragoman_server.observability.exchange_record import NOT_COMPLETE, RUNNING, ExchangeRecord
from dragoman_server.receipt import Receipt

if TYPE_CHECKING:
    from decimal import Decimal

CostOf = Callable[[Usage, str, "str | None", "ServiceReport | None"], "Decimal | None"]
"""A function that returns the cost of tokens at an upstream's model of a provider, with its service, if it is known."""


@dataclass(slots=True)
class EndedExchange:
    """An exchange that has just ended. Its receipt is complete and still has its translation.

    `usage` has the token counts; None if nothing was sent upstream, or if the upstream refused the request or did not
    reply. `estimated` are the names of its fields that are estimates, `cost` is that of the usage if it has a price.
    """

    receipt: Receipt
    failure: Failure | None
    usage: Usage | None
    estimated: tuple[str, ...]
    cost: Decimal | None
    duration: float
    """Seconds from the request's arrival to the end of the reply."""
    first_event: float | None
    """Seconds from the request's arrival to the first event of a streamed reply."""
    attempts: int
    """The number of requests that were prepared for an upstream."""
    other_costs: tuple[Decimal | None, ...] = ()
    """The parts of the cost that belong to the `other_models` of the usage, in their order. Empty without a cost."""

    def __repr__(self) -> str:
        return short_repr(self, self.receipt)

    @classmethod
    def of(cls, receipt: Receipt, failure: Failure | None, cost_of: CostOf) -> EndedExchange:
        """Return the end of a receipt's exchange. `failure` is that of the gateway, if any."""
        duration = receipt.duration
        first_event = None if receipt.begun_at is None else receipt.begun_at - receipt.opened_at
        translation, facts = receipt.translation, receipt.facts
        if translation is None or facts is None:
            return cls(receipt, failure, None, (), None, duration, first_event, len(receipt.attempts))
        context = translation.context
        usage, estimated = facts.usage, facts.estimated
        if (usage is None or usage.input_total is None) and receipt.reached_upstream:
            usage, estimated = with_input(usage, estimated, translation)
        cost = None if usage is None else cost_of(usage, translation.upstream_model, receipt.provider, facts.service)
        attempts = len(receipt.attempts) or int(receipt.ended != "rejected")
        ended = cls(receipt, failure or context.failure, usage, estimated, cost, duration, first_event, attempts)
        if cost is not None and usage is not None and usage.other_models:
            ended.other_costs = _other_costs(
                usage, cost_of, translation.upstream_model, receipt.provider, facts.service
            )
        return ended

    @property
    def partial(self) -> bool:
        """True if `usage` has the counts of a reply that was not sent to its end, or that goes on at its upstream."""
        receipt = self.receipt
        return self.usage is not None and (receipt.ended in NOT_COMPLETE or receipt.runs_on is True)

    def record(self) -> ExchangeRecord[Any]:
        """Return the record for the hook."""
        receipt, failure = self.receipt, self.failure
        upstream: Dialect | None = None
        upstream_model: str | None = None
        stream: bool | None = None
        losses: Mapping[LossCode, int] = {}
        if (translation := receipt.translation) is not None and (facts := receipt.facts) is not None:
            upstream, upstream_model, stream = facts.upstream, translation.upstream_model, facts.stream
            if translation.context.losses:
                losses = dict(translation.context.losses.counts)
        return ExchangeRecord(
            request_id=receipt.request_id,
            client=receipt.client,
            ended=RUNNING if receipt.runs_on else receipt.ended,
            status=receipt.status or 0,
            principal=receipt.principal,
            model=receipt.model,
            provider=receipt.provider,
            upstream=upstream,
            upstream_model=upstream_model,
            route=receipt.route,
            client_profile=receipt.client_profile,
            stream=stream,
            created=receipt.created,
            duration=self.duration,
            first_event=self.first_event,
            usage=self.usage,
            estimated=self.estimated,
            losses=losses,
            error_kind=failure.kind if failure is not None else None,
            error_origin=failure.origin if failure is not None else None,
            error_code=failure.code if failure is not None else None,
            key=receipt.key.name if receipt.key is not None else None,
            attempts=self.attempts,
            cost=self.cost,
            endpoint=receipt.endpoint,
            service=receipt.facts.service if receipt.facts is not None else None,
            tag=receipt.tag,
        )


def _other_costs(
    usage: Usage, cost_of: CostOf, model: str, provider: str | None, service: ServiceReport | None
) -> tuple[Decimal | None, ...]:
    """Return the cost of each part of another model: at its own price, else at that of the requested model.

    The speed is that of the reply, and calls of tools are the requested model's.
    """
    own = theirs = None
    if service is not None:
        own, theirs = ServiceReport(service.tier, service.speed), ServiceReport(service.tier)
    costs = []
    for other, part in usage.other_models:
        cost = cost_of(part, other, provider, theirs) if other else None
        costs.append(cost_of(part, model, provider, own) if cost is None else cost)
    return tuple(costs)

"""Reports the ends of responses that upstreams run in the background: to receipts, counters and the hook `on_end`."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from dragoman import Dialect, Failure, LossCode, Usage
from dragoman.gateway import ServiceReport, short_repr
from dragoman_server.accounts.usage.row import UsageRow
from dragoman_server.observability.exchange_record import ExchangeRecord, Principal
from dragoman_server.observability.metrics import Metrics, RunEnding
from dragoman_server.observability.receipts import Receipts
from dragoman_server.proxy.hooks import EndReporter
from dragoman_server.proxy.hosts.shared_hosts import SharedHosts
from dragoman_server.receipt import counts_shown

_ATTRIBUTES = {"input": "input_total", "output": "output_total"}
"""Name of a count in a row → its attribute of the usage."""


@dataclass(slots=True)
class RunEnd:
    """The end of a response that was read: its row, and what no row has. `losses` are those of the request, by code."""

    row: UsageRow
    usage: Usage
    service: ServiceReport | None
    failure: Failure | None
    losses: dict[LossCode, int]

    def __repr__(self) -> str:
        return short_repr(self, self.row.id, self.row.ended)

    @property
    def estimated(self) -> tuple[str, ...]:
        """The names of the fields of `usage` that are estimates."""
        return tuple(_ATTRIBUTES[name] for name in self.row.estimated)


class RunReports:
    """The reports of one gateway. Without a store that processes share there are no `hosts`."""

    def __init__(
        self, receipts: Receipts, metrics: Metrics, reporter: EndReporter | None, hosts: SharedHosts | None
    ) -> None:
        self._receipts = receipts
        self._metrics = metrics
        self._reporter = reporter
        self._hosts = hosts

    def report(self, end: RunEnd) -> Coroutine[Any, Any, None] | None:
        """Report an end that is booked. Return what to run if the receipt is another process's."""
        row = end.row
        ending = RunEnding(row.client, row.provider or "", row.route, row.ended, row.status)
        self._metrics.count_run(ending, end.usage, end.estimated)
        if end.failure is not None and row.ended == "failed":
            self._metrics.count_error(ending.provider, end.failure)
        receipt = self._receipts.of_any_client(row.id)
        if receipt is not None:
            receipt.complete_run(row.ended, end.usage, end.estimated, end.service, row.duration)
            if self._hosts is not None:
                self._hosts.ended(receipt, None)
        if self._reporter is not None:
            principal = receipt.principal if receipt is not None else None
            self._reporter.report_run(_record(end, principal))
        if receipt is not None or self._hosts is None:
            return None
        fields: dict[str, Any] = {"ended": row.ended, "usage": counts_shown(end.usage, end.estimated)}
        if end.service is not None:
            fields["service"] = {name: value for name, value in asdict(end.service).items() if value is not None}
        return self._hosts.amend(row.id, fields)


def _record(end: RunEnd, principal: Principal[Any] | None) -> ExchangeRecord[Any]:
    from decimal import Decimal  # 0.5 MB of memory, needed only with background responses

    row, failure = end.row, end.failure
    if principal is None and row.principal is not None:
        principal = Principal(row.principal)
    return ExchangeRecord(
        request_id=row.id,
        client=Dialect(row.client),
        ended=row.ended,
        status=row.status,
        principal=principal,
        model=row.model,
        provider=row.provider,
        upstream=Dialect(row.upstream) if row.upstream is not None else None,
        upstream_model=row.upstream_model,
        route=row.route,
        client_profile=row.client_profile,
        stream=row.stream,
        created=int(datetime.fromisoformat(row.time).timestamp()),
        duration=row.duration,
        first_event=None,
        usage=end.usage,
        estimated=end.estimated,
        losses=end.losses,
        error_kind=failure.kind if failure is not None else None,
        error_origin=failure.origin if failure is not None else None,
        error_code=failure.code if failure is not None else None,
        key=row.key,
        attempts=row.attempts,
        cost=Decimal(str(row.cost)) if row.cost is not None else None,
        service=end.service,
        tag=row.tag,
    )

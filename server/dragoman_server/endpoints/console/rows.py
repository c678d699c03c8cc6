"""The rows of the table of exchanges, read from receipts. They hold names, codes and counts, and no texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import dropwhile, islice
from typing import Any

from dragoman.wire import Json
from dragoman_server.receipt import TEXT_MAX, Receipt

ROWS_MAX = 200
"""Most rows of one answer."""
SCAN_MAX = 5000
"""Most receipts that are looked at for one answer."""
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,20})?(e-?[0-9]{1,2})?")
Known = frozenset[tuple[str, str]]
"""Rows that a page has: their ids and stages."""
WAITING, BEGUN = "waiting", "begun"
"""Stages of open requests, before and after the first event of a streamed reply. Other stages are states."""
CHANGING = ("id", "time", "opened", "stage", "characters", "losses")
"""Members of a row that change within a stage, and those that identify it."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Selects receipts; an empty field selects all.

    `state` is that of the receipt or `ended` for all that have ended. `text` is a part of an id or a name, in any case.
    With `losses` only those with losses are selected. `rows` is the most rows. `before` is a time in Unix seconds: only
    requests of this second and of those before are selected; with `opened` only those before the request of both.
    """

    state: str = ""
    client: str = ""
    upstream: str = ""
    provider: str = ""
    key: str = ""
    text: str = ""
    losses: bool = False
    rows: int = 100
    before: int = 0
    opened: float = 0.0

    @classmethod
    def read(cls, query: Mapping[str, Any]) -> RowFilter:
        """Return the filter of a query. Values that are not valid are ignored, as a page may be older than this."""
        texts = {name: str(query.get(name, ""))[:TEXT_MAX] for name in ("state", "client", "upstream")}
        texts |= {name: str(query.get(name, ""))[:TEXT_MAX] for name in ("provider", "key", "text")}
        most = min(ROWS_MAX, int(_number(query, "rows", 100)))
        losses = str(query.get("losses", "")) in ("1", "True")
        before, opened = int(_number(query, "before", 0)), _number(query, "opened", 0.0)
        return cls(**texts, losses=losses, rows=max(1, most), before=before, opened=opened)

    def json(self) -> Json:
        """Return the query of this filter, for another worker."""
        return asdict(self)

    def selects(self, receipt: Receipt) -> bool:
        """True if a receipt belongs into the table."""
        values = (receipt.endpoint or receipt.client, receipt.provider, _key_name(receipt), _upstream(receipt))
        names = (receipt.request_id, receipt.model, receipt.provider, receipt.route, receipt.client_profile, values[2])
        return (
            self._selects(receipt.created, receipt.opened_at, receipt.ended, values)
            and (not self.losses or losses_of(receipt) > 0)
            and self._finds_text(names)
        )

    def selects_row(self, row: Json) -> bool:
        """True if the row of another host belongs into the table."""
        values = (row["client"], row["provider"], row["key"], row["upstream"])
        names = (row[name] for name in ("id", "model", "provider", "route", "profile", "key", "host"))
        return (
            self._selects(row["time"], row.get("opened", 0.0), row["state"], values)
            and (not self.losses or bool(row["losses"]))
            and self._finds_text(names)
        )

    def _selects(self, created: int, opened: float, state: str, values: tuple[str | None, ...]) -> bool:
        """True for a time, a state, and the client, provider, key and upstream of a request that belongs there."""
        if self.before and not self.is_before(created, opened):
            return False
        if self.state and state != self.state and (self.state != "ended" or state == "open"):
            return False
        wanted = (self.client, self.provider, self.key, self.upstream)
        return all(not each or each == value for each, value in zip(wanted, values, strict=True))

    def is_before(self, created: int, opened: float) -> bool:
        """True if a request comes after `before` in the table, which has the newest first."""
        return (created, opened) < (self.before, self.opened) if self.opened else created <= self.before

    def _finds_text(self, names: Iterable[str | None]) -> bool:
        wanted = self.text.lower()
        return not wanted or any(name is not None and wanted in name.lower() for name in names)


def _number(query: Mapping[str, Any], name: str, default: float) -> float:
    word = str(query.get(name, ""))
    return float(word) if _NUMBER.fullmatch(word) else default


def newest_rows(
    receipts: Iterable[Receipt], wanted: RowFilter, seconds_of: Callable[[Receipt], float], known: Known = frozenset()
) -> list[Json]:
    """Return the rows of the selected receipts. `receipts` has the newest first.

    Rows that are `known` have only the members that still change. `seconds_of` is that of `row_of`.
    """
    if wanted.before:
        receipts = dropwhile(lambda receipt: receipt.created > wanted.before, receipts)
    found = (each for each in islice(receipts, SCAN_MAX) if wanted.selects(each))
    selected = islice(found, wanted.rows)
    return [
        _changes(each) if (each.request_id, _stage(each)) in known else row_of(each, seconds_of) for each in selected
    ]


def known_rows(rows: Iterable[Json]) -> Known:
    """Return the rows that a page knows after it got these."""
    return frozenset((row["id"], row["stage"]) for row in rows if row["stage"] != WAITING)


def without_known(rows: Iterable[Json], known: Known) -> list[Json]:
    """Return the rows of another worker like those of `newest_rows`."""
    return [{name: row[name] for name in CHANGING} if (row["id"], row["stage"]) in known else row for row in rows]


def merged_rows(rows: list[Json], more: Iterable[Json], most: int) -> list[Json]:
    """Return the newest of the rows of several workers."""
    for answer in more:
        rows += answer.get("rows", ())
    # The workers of a host have one clock. Between hosts the order within a second does not matter, if it is one.
    rows.sort(key=lambda row: (row["time"], row.get("opened", 0.0)), reverse=True)
    return rows[:most]


def _stage(receipt: Receipt) -> str:
    if receipt.ended != "open":
        return receipt.ended
    return WAITING if receipt.begun_at is None else BEGUN


def _changes(receipt: Receipt) -> Json:
    return {
        "id": receipt.request_id,
        "time": receipt.created,
        "opened": receipt.opened_at,
        "stage": _stage(receipt),
        "characters": _characters(receipt),
        "losses": losses_of(receipt),
    }


def _characters(receipt: Receipt) -> int | None:
    """Return the characters so far, which are counted in translated streams only: others are not looked at."""
    return receipt.translation.context.output_text or None if receipt.translation is not None else None


def row_of(receipt: Receipt, seconds_of: Callable[[Receipt], float]) -> Json:
    """Return the row of a request. `seconds_of` returns the seconds since one that is open arrived."""
    translation, facts = receipt.translation, receipt.facts
    seconds: float | None = None
    if receipt.ended == "open":
        seconds = seconds_of(receipt)
    elif facts is not None:  # else it was rejected at once
        seconds = receipt.duration
    first = receipt.begun_at - receipt.opened_at if receipt.begun_at is not None else None
    stream: bool | None
    upstream_model: str | None
    tokens_in = tokens_out = None
    if translation is not None:
        stream, upstream_model = translation.stream, translation.upstream_model
    else:
        stream, upstream_model = (None, None) if facts is None else (facts.stream, facts.upstream_model)
        if (usage := receipt.usage) is not None:
            tokens_in, tokens_out = usage.input_total, usage.output_total
    return {
        **_changes(receipt),
        "client": receipt.endpoint or receipt.client.value,
        "upstream": _upstream(receipt),
        "model": _cut(receipt.model),
        "upstream_model": _cut(upstream_model),
        "provider": receipt.provider,
        "route": receipt.route,
        "profile": receipt.client_profile,
        "key": _key_name(receipt),
        "state": receipt.ended,
        "status": receipt.status,
        "seconds": round(seconds, 3) if seconds is not None else None,
        "first": round(first, 3) if first is not None else None,
        "stream": stream,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "attempts": len(receipt.attempts),
        "reason": _reason(receipt),
    }


def _upstream(receipt: Receipt) -> str | None:
    if receipt.translation is not None:
        return receipt.translation.direction.upstream.dialect.value
    return receipt.facts.upstream.value if receipt.facts is not None else None


def losses_of(receipt: Receipt) -> int:
    """Return the number of losses of a request, so far if it is open."""
    if (losses := receipt.losses) is not None:
        return len(losses)
    rest = receipt.facts.rest if receipt.facts is not None else None
    return int(rest.get("losses_total", 0)) if rest is not None else 0


def _reason(receipt: Receipt) -> str | None:
    """Return Dragoman's message of the error of a request, else its code or kind; None without an error."""
    rest = receipt.facts.rest if receipt.facts is not None else None
    error = receipt.error or (rest.get("error") if rest is not None else None)
    return str(error.get("message") or error["code"] or error["kind"]) if error else None


def _key_name(receipt: Receipt) -> str | None:
    if receipt.key is not None:
        return receipt.key.name
    return receipt.principal.id[:TEXT_MAX] if receipt.principal is not None else None


def _cut(text: str | None) -> str | None:
    return text[:TEXT_MAX] if text is not None else None

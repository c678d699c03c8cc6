"""The report on tool calls: a table of at most 80 columns, and the same as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dragoman.gateway import quote
from dragoman.wire import Json
from dragoman_server.cli.tool_calls.ask import Answer
from dragoman_server.cli.tool_calls.differences import Difference, differences
from dragoman_server.config.provider import Provider

WIDTH: Final = 80
_HEAD: Final = ("provider", "model", "client", "seconds", "differences")
_LONGEST: Final = (18, 28, 9, 7, 11)
"""Widths of the columns, with four gaps of one column at most `WIDTH`."""


class Report:
    """The answers with their differences. `unasked` has the providers of which no model was asked, and the reasons."""

    def __init__(self, answers: Iterable[Answer], unasked: Iterable[tuple[Provider, str]]) -> None:
        self._rows = [(answer, differences(answer)) for answer in answers]
        self._unasked = list(unasked)

    @property
    def ok(self) -> bool:
        """True if at least one model was asked, and all answered as their profiles state."""
        return bool(self._rows) and not any(found for _, found in self._rows)

    def json(self) -> Json:
        """Return the report as data."""
        return {
            "asked": [_row(answer, found) for answer, found in self._rows],
            "not_asked": [{"provider": provider.name, "reason": reason} for provider, reason in self._unasked],
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        if self._rows:
            cells = [_HEAD, *(_cells(answer, found) for answer, found in self._rows)]
            widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD))]
            yield from (" ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
        for title, clients, difference in self._merged():
            yield ""
            yield from _wrapped(f"{title} ({', '.join(clients)}):", "")
            yield from _wrapped(f"{difference.code}: {difference.message}", "  ")
            if difference.repair is not None:
                yield f"  repair, in [{difference.repair.table}]:"
                yield f"    {difference.repair}"  # not wrapped, as it is a line to copy
        for provider, reason in self._unasked:
            yield ""
            yield from _wrapped(f"{provider.name} was not asked: {reason}", "")

    def _merged(self) -> Iterator[tuple[str, list[str], Difference]]:
        """Yield each difference of a model once, with the clients that have it."""
        merged: dict[tuple[str, Difference], list[str]] = {}
        for answer, found in self._rows:
            title = f"{answer.model.provider.name}, {quote(answer.model.name)}"
            for difference in found:
                merged.setdefault((title, difference), []).append(answer.client.value)
        for (title, difference), clients in merged.items():
            yield title, clients, difference


def _row(answer: Answer, found: Sequence[Difference]) -> Json:
    provider, reply = answer.model.provider, answer.reply
    return {
        "provider": provider.name,
        "model": answer.model.name,
        "profile": provider.profile_name or None,
        "client": answer.client.value,
        "upstream": provider.dialect.value,
        "ok": not found,
        "status": answer.upstream_status,
        "seconds": round(answer.seconds, 3),
        "calls": [] if reply is None else [_call(call.name, call.arguments) for call in reply.calls.values()],
        "stop": reply.stop or None if reply is not None else None,
        "usage": reply is not None and reply.usage,
        "differences": [_difference(each) for each in found],
    }


def _call(name: str, arguments: str) -> Json:
    return {"name": name, "arguments": arguments}


def _difference(each: Difference) -> Json:
    repair = each.repair
    return {
        "code": each.code,
        "message": each.message,
        "repair": {"path": repair.path, "value": repair.value} if repair is not None else None,
    }


def _cells(answer: Answer, found: Sequence[Difference]) -> tuple[str, ...]:
    codes = list(dict.fromkeys(each.code for each in found))
    more = f" +{len(codes) - 1}" if len(codes) > 1 else ""
    cells = (
        answer.model.provider.name,
        quote(answer.model.name),
        answer.client.value,
        f"{answer.seconds:.2f}",
        f"{codes[0]}{more}" if codes else "none",
    )
    widths = (*_LONGEST[:-1], WIDTH)
    return tuple(
        cell if len(cell) <= most else f"{cell[: most - 1]}…" for cell, most in zip(cells, widths, strict=True)
    )


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)

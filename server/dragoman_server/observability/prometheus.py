"""The page of `GET /metrics`: Prometheus text format 0.0.4, with names that OpenMetrics also accepts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from dragoman_server.observability.metric_families import FAMILIES, Family, Kind, Labels, Totals

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(totals: Totals) -> bytes:
    """Return the page. A family without numbers is omitted."""
    lines: list[str] = []
    for name, family in FAMILIES.items():
        if series := totals.values.get(name):
            lines += (f"# HELP {name} {_escaped(family.doc, quotes=False)}", f"# TYPE {name} {family.kind}")
            for labels, numbers in sorted(series.items()):
                lines += _samples(family, labels, numbers)
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _samples(family: Family, labels: Labels, numbers: list[float]) -> Iterator[str]:
    pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(family.labels, labels, strict=True)]
    if family.kind is not Kind.HISTOGRAM:
        yield f"{family.name}{_braces(pairs)} {number(numbers[0])}"
        return
    *buckets, total = numbers
    counts = list(accumulate(buckets))
    for end, count in zip((*map(number, family.buckets), "+Inf"), counts, strict=True):
        yield f"{family.name}_bucket{_braces([*pairs, f'le={_quoted(end)}'])} {number(count)}"
    yield f"{family.name}_sum{_braces(pairs)} {number(total)}"
    yield f"{family.name}_count{_braces(pairs)} {number(counts[-1])}"


def _braces(pairs: list[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _quoted(text: str) -> str:
    return f'"{text}"'


def number(value: float) -> str:
    """Return a number as in the page."""
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text

"""Charts in SVG: bars, rows of dots and lines over time, for light and dark pages, without scripts or dependencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Literal

_WIDTH = 860
_LABELS = 256
"""Width of the names at the left, in pixels."""
_VALUES = 154
"""Width of the figures at the right, in pixels."""
_PLOT = _WIDTH - _LABELS - _VALUES
_LINE = 28
_TOP = 62
_BOTTOM = 40
_PANEL_LINES = 5
"""Height of a panel, in lines."""

Tone = Literal["own", "bare", "other"]
"""Colour of a row: our gateway, a reference that translates nothing, or another gateway."""

_STYLE = """<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.muted { fill: #59636e; font-size: 12px }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.mark { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 4 3 }
.own { fill: #0969da; stroke: #0969da }
.bare { fill: #b6bec7; stroke: #b6bec7 }
.other { fill: #818b98; stroke: #818b98 }
.line { stroke-width: 1.5 }
.range { stroke: #1f2328; stroke-width: 1.5; fill: none }
.gap { stroke: #ffffff; stroke-width: 3; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.muted { fill: #9198a1 }
.grid { stroke: #3d444d }
.mark { stroke: #f85149 }
.own { fill: #4493f8; stroke: #4493f8 }
.bare { fill: #525a64; stroke: #525a64 }
.other { fill: #7d8590; stroke: #7d8590 }
.range { stroke: #f0f6fc }
.gap { stroke: #0d1117 }
}
</style>"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A value, its range (drawn if it is not empty), and the text at its right."""

    label: str
    value: float
    low: float
    high: float
    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Dots:
    """Values by name on one line, in rising order."""

    label: str
    values: Mapping[str, float]
    tone: Tone


@dataclass(frozen=True, slots=True)
class Panel:
    """A diagram over time, one of several: lines by name, each of points (seconds, value), and their colours."""

    label: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    tones: Mapping[str, Tone]


def bars(title: str, subtitle: str, rows: Sequence[Bar], *, mark: tuple[float, str] | None = None) -> str:
    """Return bars from zero. Bars longer than four times the median (or `mark`) are cut, and drawn as cut."""
    middle = sorted(row.value for row in rows)[len(rows) // 2]
    reach = max(min(max(row.high for row in rows), 4 * max(middle, mark[0] if mark else 0.0)), 1e-9)
    step = _round_step(reach)
    end = ceil(reach / step - 1e-9) * step
    steps = [number * step for number in range(round(end / step) + 1)]
    body = [_grid_line(_LABELS + at / end * _PLOT, _format(at), len(rows)) for at in steps]
    body += [_bar(row, _TOP + number * _LINE, end) for number, row in enumerate(rows)]
    if mark is not None:
        x = _LABELS + mark[0] / end * _PLOT
        bottom = _TOP + len(rows) * _LINE
        body.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{bottom}"/>')
        body.append(f'<text class="muted" x="{x:.1f}" y="{_TOP - 10}" text-anchor="middle">{escape(mark[1])}</text>')
    return _drawing(title, subtitle, body, len(rows))


def dots(title: str, subtitle: str, rows: Sequence[Dots], unit: str) -> str:
    """Return rows of dots on a logarithmic scale, for percentiles."""
    values = [value for row in rows for value in row.values.values() if value > 0]
    low, high = floor(log10(min(values))), max(ceil(log10(max(values))), floor(log10(min(values))) + 1)

    def at(value: float) -> float:
        return _LABELS + (log10(max(value, 10.0**low)) - low) / (high - low) * _PLOT

    body = [_grid_line(at(10.0**power), f"{_format(10.0**power)} {unit}", len(rows)) for power in range(low, high + 1)]
    for number, row in enumerate(rows):
        y = _TOP + number * _LINE + _LINE / 2
        places = [at(value) for value in row.values.values()]
        left, right = min(places), max(places)
        body.append(_label(row.label, y))
        body.append(f'<line class="{row.tone}" x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}" stroke-width="2"/>')
        for size, (name, value) in zip((4.0, 5.5, 7.0), row.values.items(), strict=False):
            tooltip = escape(f"{row.label} {name}: {_format(value)} {unit}")
            body.append(
                f'<circle class="{row.tone}" cx="{at(value):.1f}" cy="{y}" r="{size}"><title>{tooltip}</title></circle>'
            )
        values_text = " · ".join(_format(value, 2) for value in row.values.values())
        body.append(f'<text class="muted" x="{_LABELS + _PLOT + 10}" y="{y + 4}">{values_text}</text>')
    return _drawing(title, subtitle, body, len(rows))


def over_time(title: str, subtitle: str, panels: Sequence[Panel]) -> str:
    """Return panels with a common axis of minutes, each with a linear scale from zero."""
    end = max(max(at for panel in panels for line in panel.lines.values() for at, _ in line) / 60, 1e-9)
    step = _round_step(end)
    body = [
        _grid_line(_LABELS + at * step / end * _PLOT, f"{_format(at * step)} min", len(panels) * _PANEL_LINES)
        for at in range(int(end / step + 1e-9) + 1)
    ]
    for number, panel in enumerate(panels):
        body += _panel(panel, _TOP + number * _PANEL_LINES * _LINE, end * 60)
    return _drawing(title, subtitle, body, len(panels) * _PANEL_LINES)


def _panel(panel: Panel, top: float, end: float) -> list[str]:
    height, bottom = _PANEL_LINES * _LINE - 24, top + _PANEL_LINES * _LINE - 8
    reach = max((value for line in panel.lines.values() for _, value in line), default=0.0) or 1.0
    out = [
        f'<line class="grid" x1="{_LABELS}" x2="{_LABELS + _PLOT}" y1="{bottom}" y2="{bottom}"/>',
        _label(panel.label, bottom - height / 2),
        f'<text class="muted" x="{_LABELS - 10}" y="{bottom}" text-anchor="end">0</text>',
        f'<text class="muted" x="{_LABELS - 10}" y="{bottom - height + 8}" text-anchor="end">{_format(reach)}</text>',
    ]
    for number, (name, line) in enumerate(panel.lines.items()):
        places = " ".join(
            f"{_LABELS + at / end * _PLOT:.1f},{bottom - value / reach * height:.1f}" for at, value in line
        )
        tone, y = panel.tones[name], bottom - height + 16 + number * 18
        out.append(f'<polyline class="line {tone}" style="fill: none" points="{places}"/>')
        out.append(f'<rect class="{tone}" x="{_LABELS + _PLOT + 10}" y="{y - 9}" width="10" height="10"/>')
        out.append(f'<text class="muted" x="{_LABELS + _PLOT + 26}" y="{y}">{escape(name)}</text>')
    return out


def _bar(row: Bar, top: float, end: float) -> str:
    y, height = top + 5, _LINE - 10
    length = min(row.value, end) / end * _PLOT
    out = [
        _label(row.label, top + _LINE / 2),
        f'<rect class="{row.tone}" stroke="none" x="{_LABELS}" y="{y}" width="{length:.1f}" height="{height}" rx="2"/>',
    ]
    if row.value > end:
        x = _LABELS + _PLOT - 26
        out.append(
            f'<path class="gap" d="M{x} {y + height + 3} l8 -{height + 6} M{x + 8} {y + height + 3} l8 -{height + 6}"/>'
        )
    elif row.high - row.low > end / 100:
        left, right = (_LABELS + min(value, end) / end * _PLOT for value in (row.low, row.high))
        out.append(
            f'<path class="range" d="M{left:.1f} {y + 9} H{right:.1f} M{left:.1f} {y + 5} v8 M{right:.1f} {y + 5} v8"/>'
        )
    out.append(f'<text x="{_LABELS + _PLOT + 10}" y="{top + _LINE / 2 + 4}">{escape(row.text)}</text>')
    return "\n".join(out)


def _label(text: str, middle: float) -> str:
    return f'<text x="{_LABELS - 10}" y="{middle + 4}" text-anchor="end">{escape(text)}</text>'


def _grid_line(x: float, text: str, rows: int) -> str:
    bottom = _TOP + rows * _LINE
    return (
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom + 4}"/>\n'
        f'<text class="muted" x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{text}</text>'
    )


def _drawing(title: str, subtitle: str, body: Sequence[str], rows: int) -> str:
    height = _TOP + rows * _LINE + _BOTTOM
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">'
    )
    titles = (
        f'<text class="title" x="8" y="20">{escape(title)}</text>\n'
        f'<text class="muted" x="8" y="38">{escape(subtitle)}</text>'
    )
    return "\n".join([head, _STYLE, titles, *body, "</svg>", ""])


def _round_step(reach: float) -> float:
    """Return a step of 1, 2 or 5 times a power of ten that divides the axis into four to ten parts."""
    power: float = 10.0 ** floor(log10(reach / 4))
    return next(step for factor in (5, 2, 1) if reach / (step := factor * power) >= 4)


def _format(value: float, digits_that_matter: int = 3) -> str:
    """Return the value with three significant digits and no trailing zeros."""
    if value == 0:
        return "0"
    digits = max(0, digits_that_matter - 1 - floor(log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

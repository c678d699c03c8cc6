"""The charts of the console in a browser: their scales, history, values under the pointer, and what they compute."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dragoman import Dialect
from support.browser import page
from support.console_page import gateway, send

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUANTILE = "async ([counts, ends, share]) => (await import('./series.js')).quantile(counts, ends, share)"
ROUND_UP = "async (value) => (await import('./scale.js')).roundUp(value)"
TIME = "async ([unix, now]) => (await import('./clock.js')).time(unix, new Date(now * 1000))"


async def test_charts_begin_with_the_receipts_and_show_values(browser: Any) -> None:
    async with gateway() as up:
        for _ in range(3):
            await send(up.url, Dialect.MESSAGES, "sim-thinking")
        await send(up.url, Dialect.CHAT, "sim-error-429", status=429)
        async with page(browser, f"{up.url}/ui/#health", viewport={"width": 1280, "height": 800}) as shown:
            order = await shown.locator("#view-health h3").all_inner_texts()
            assert order == ["Providers", "Charts", "Tokens and cost by key"], "providers first"
            chart = shown.get_by_role("slider", name="Requests", exact=True)
            await chart.wait_for()
            assert await values(chart, r"([0-9.]+)/s") == pytest.approx(0.4), "4 in a bin of 10 seconds"
            first = shown.get_by_role("slider", name="First event")
            median, highest = await both(first)
            assert 0 < median <= highest
            labels = await chart.locator("text").all_text_contents()
            assert "0/s" in labels
            assert any(re.fullmatch(r"\d\d:\d\d", each) for each in labels), "a time axis"
            assert await shown.get_by_role("slider", name="Between tokens").locator(".second").count() >= 1


LEFT = """chart => {
  const moment = () => Number(chart.getAttribute("aria-valuenow"));
  const last = moment();
  chart.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft", bubbles: true}));
  return [last, moment()];
}"""
"""Press a key at once: a bin may leave between two calls of the browser."""


@pytest.mark.whole
async def test_values_are_shown_under_the_pointer_and_with_the_keys(browser: Any) -> None:
    async with gateway() as up:
        await send(up.url, Dialect.MESSAGES, "sim-text")
        async with page(browser, f"{up.url}/ui/#health") as shown:
            figure = shown.locator("figure", has=shown.get_by_role("slider", name="Tokens", exact=True))
            chart = figure.get_by_role("slider")
            await chart.hover(position={"x": 60, "y": 40})
            value = figure.locator("strong")
            assert re.fullmatch(r"\d\d:\d\d:\d\d\s+in –, out –", await value.inner_text()), "not known before the start"
            assert await figure.locator(".cursor").count() == 1
            await shown.mouse.move(0, 0)
            assert await figure.locator(".cursor").count() == 0
            await chart.focus()
            await shown.keyboard.press("End")
            last, before = await chart.evaluate(LEFT)
            assert before == last - 1
            assert re.match(r"\d\d:\d\d:\d\d: in .*, out ", await chart.get_attribute("aria-valuetext"))
            await shown.keyboard.press("Home")
            assert await chart.get_attribute("aria-valuenow") == "0"
            await shown.keyboard.press("Escape")
            assert await figure.locator(".cursor").count() == 0


async def values(chart: Any, pattern: str) -> float:
    """The sum of the numbers of a chart's points, read with the keys from the last point back."""
    await chart.focus()
    await chart.press("End")
    total = 0.0
    for _ in range(12):
        found = re.search(pattern, await chart.get_attribute("aria-valuetext"))
        total += float(found[1]) if found else 0.0
        await chart.press("ArrowLeft")
    await chart.press("Escape")
    return total


async def both(chart: Any) -> tuple[float, float]:
    """The median and the 99th percentile of the last point that has them, in milliseconds."""
    text = await chart.get_attribute("aria-valuetext")
    found = [float(number) * (1000 if unit == "s" else 1) for number, unit in re.findall(r"([0-9.]+) (ms|s)", text)]
    assert len(found) == 2, text
    return found[0], found[1]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([0, 0, 0, 0, 0.0], 0.5, None),
        ([0, 10, 0, 0, 9.0], 0.5, 1.5),
        ([4, 4, 0, 0, 9.0], 0.5, 1.0),
        ([1, 0, 99, 0, 300.0], 0.99, 3.98),
        ([0, 0, 0, 5, 99.0], 0.99, 4.0),
    ],
)
async def test_quantiles_are_estimated_within_a_bucket(
    browser: Any, counts: list[float], share: float, expected: float | None
) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui") as shown:
        found = await shown.evaluate(QUANTILE, [counts, [1.0, 2.0, 4.0], share])
    assert found == (None if expected is None else pytest.approx(expected, abs=0.01))


@pytest.mark.whole
async def test_axes_end_at_round_numbers_and_times_have_dates(browser: Any) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui", timezone_id="UTC") as shown:
        found = [await shown.evaluate(ROUND_UP, value) for value in (0, 0.0003, 0.11, 1, 2.1, 40, 99, 101)]
        assert found == pytest.approx([1, 0.0004, 0.2, 1, 4, 40, 100, 200])
        now = 1_795_764_162  # 2026-11-27 07:22:42
        assert await shown.evaluate(TIME, [now - 60, now]) == "07:21:42"
        assert await shown.evaluate(TIME, [now - 86_400, now]) == "26 Nov 07:22:42"
        assert await shown.evaluate(TIME, [now - 366 * 86_400, now]) == "26 Nov 2025 07:22:42"

"""Numbers of several processes: added up, sent between them, and written for Prometheus."""

from __future__ import annotations

import json

from hypothesis import given

from dragoman_server.observability.metric_families import (
    DURATION,
    LAG_MAX,
    LOSSES,
    OPEN_STREAMS,
    REQUESTS,
    STARTED,
    Totals,
)
from support.totals import some_totals


def copy(totals: Totals) -> Totals:
    return Totals.unpack(json.loads(json.dumps(totals.pack())))


def merged(*several: Totals) -> Totals:
    out = Totals()
    for totals in several:
        out.merge(totals)
    return out


@given(some_totals())
def test_packing_keeps_everything(totals: Totals) -> None:
    assert copy(totals).values == totals.values


@given(some_totals(), some_totals(), some_totals())
def test_merging_is_adding(a: Totals, b: Totals, c: Totals) -> None:
    before = copy(a)
    assert merged(a, b).values == merged(b, a).values
    assert merged(merged(a, b), c).values == merged(a, merged(b, c)).values
    assert a.values == before.values, "a merge must not change what it takes"


def test_the_longest_lag_is_that_of_one_process() -> None:
    totals = Totals()
    for lag in (0.25, 2.0, 0.5):
        other = Totals()
        other.put(LAG_MAX, (), lag)
        totals.merge(other)
    assert totals.read(LAG_MAX) == [2.0]


def test_what_is_gone_leaves_no_gauges() -> None:
    gone = Totals()
    gone.add(REQUESTS, ("chat", "up", "*", "completed", "2xx"), 3)
    gone.add(OPEN_STREAMS, ("chat",), 2)
    gone.observe(DURATION, ("chat", "up", "true"), 1.5)
    left = Totals()
    left.merge(gone, counters_only=True)
    assert set(left.values) == {REQUESTS.name, DURATION.name}


def test_numbers_of_another_version_are_left_out() -> None:
    packed = {
        "dragoman_from_the_future_total": [[["x"], [1]]],
        LOSSES.name: [[["only-one"], [1]], [["top_k", "*"], [1, 2]], [["top_k", "*"], [4]]],
        STARTED.name: [[[], [7]]],
    }
    assert Totals.unpack(packed).values == {LOSSES.name: {("top_k", "*"): [4]}, STARTED.name: {(): [7]}}

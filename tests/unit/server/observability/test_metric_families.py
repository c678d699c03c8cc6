"""Numbers of several processes: added up, sent between them, and written for Prometheus."""

from __future__ import annotations

import json

from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman_server.observability.metric_families import (
    DURATION,
    FAMILIES,
    LOSSES,
    OPEN_STREAMS,
    REQUESTS,
    SECONDS,
    STARTED,
    Kind,
    Totals,
)
from dragoman_server.observability.prometheus import exposition
from support.exposed import read_exposition, total

LABEL = st.text(st.characters(codec="utf-8"), max_size=8)


@st.composite
def some_totals(draw: st.DrawFn) -> Totals:
    totals = Totals()
    for family in draw(st.lists(st.sampled_from(list(FAMILIES.values())), max_size=6)):
        labels = tuple(draw(LABEL) for _ in family.labels)
        if family.kind is Kind.HISTOGRAM:
            totals.observe(family, labels, draw(st.integers(0, 1000)) / 4)
        else:
            totals.add(family, labels, draw(st.integers(0, 1000)))
    return totals


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


@given(some_totals())
def test_every_page_can_be_read(totals: Totals) -> None:
    assume(totals.values)
    samples = read_exposition(exposition(totals))
    for name, series in totals.values.items():
        family = FAMILIES[name]
        for labels, numbers in series.items():
            pairs = tuple(zip(family.labels, labels, strict=True))
            if family.kind is Kind.HISTOGRAM:
                assert samples[f"{name}_count", pairs] == sum(numbers[:-1])
            else:
                assert samples[name, pairs] == numbers[0]


def test_what_is_gone_leaves_no_gauges() -> None:
    gone = Totals()
    gone.add(REQUESTS, ("chat", "up", "*", "completed", "2xx"), 3)
    gone.add(OPEN_STREAMS, ("chat",), 2)
    gone.observe(DURATION, ("chat", "up", "true"), 1.5)
    left = Totals()
    left.merge(gone, counters_only=True)
    assert set(left.values) == {REQUESTS.name, DURATION.name}


def test_buckets_hold_what_is_at_most_their_end() -> None:
    totals = Totals()
    for seconds in (0, SECONDS[0], SECONDS[0] + 0.001, SECONDS[-1], SECONDS[-1] + 1):
        totals.observe(DURATION, ("chat", "up", "true"), seconds)
    samples = read_exposition(exposition(totals))
    name = "dragoman_request_duration_seconds_bucket"
    counts = [total(samples, name, le=end) for end in ("0.05", "0.1", "300", "600", "+Inf")]
    assert counts == [2, 3, 3, 4, 5]


def test_numbers_of_another_version_are_left_out() -> None:
    packed = {
        "dragoman_from_the_future_total": [[["x"], [1]]],
        LOSSES.name: [[["only-one"], [1]], [["top_k", "*"], [1, 2]], [["top_k", "*"], [4]]],
        STARTED.name: [[[], [7]]],
    }
    assert Totals.unpack(packed).values == {LOSSES.name: {("top_k", "*"): [4]}, STARTED.name: {(): [7]}}

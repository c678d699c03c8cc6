"""The page of metrics can be read, whatever it contains."""

from __future__ import annotations

from hypothesis import assume, given

from dragoman_server.observability.metric_families import (
    DURATION,
    FAMILIES,
    SECONDS,
    Kind,
    Totals,
)
from dragoman_server.observability.prometheus import exposition
from support.exposed import read_exposition, total
from support.totals import some_totals


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


def test_buckets_hold_what_is_at_most_their_end() -> None:
    totals = Totals()
    for seconds in (0, SECONDS[0], SECONDS[0] + 0.001, SECONDS[-1], SECONDS[-1] + 1):
        totals.observe(DURATION, ("chat", "up", "true"), seconds)
    samples = read_exposition(exposition(totals))
    name = "dragoman_request_duration_seconds_bucket"
    counts = [total(samples, name, le=end) for end in ("0.05", "0.1", "300", "600", "+Inf")]
    assert counts == [2, 3, 3, 4, 5]

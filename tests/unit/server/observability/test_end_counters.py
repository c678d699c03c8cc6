"""The counters of requests that end in the same way: the same values as those of their labels."""

from __future__ import annotations

from itertools import product

import pytest

from dragoman import Dialect, Usage, direction, translate
from dragoman_server.observability.end_counters import EndCounters, Ending, Endings, LabelledSeries
from dragoman_server.observability.metric_families import (
    DURATION,
    FIRST_EVENT,
    OPEN_REQUESTS,
    OPEN_STREAMS,
    REQUESTS,
    SHORT,
    TOKEN_TIME,
    TOKENS,
    Totals,
    observe,
)
from dragoman_server.observability.metrics import Metrics
from dragoman_server.receipt import Receipt
from support.clocks import Clock

CHAT, MESSAGES, *_ = Dialect
COUNTED = (OPEN_REQUESTS, OPEN_STREAMS, REQUESTS, DURATION, FIRST_EVENT, TOKEN_TIME, TOKENS)
USAGES = (None, Usage(), Usage(10, 4, 3, 20, 5), Usage(7, 0, None, 1), Usage(None, None, None, 30))


def count_by_labels(totals: Totals, receipt: Receipt, usage: Usage | None, begun_after: float | None) -> None:
    """Count one request that took a second, each number by all labels of its family."""
    client, provider = receipt.client, receipt.provider or ""
    totals.add(OPEN_REQUESTS, (client,), 0)
    totals.add(REQUESTS, (client, provider, receipt.route, receipt.ended, f"{(receipt.status or 500) // 100}xx"))
    if begun_after is not None:
        totals.add(OPEN_STREAMS, (client,), 0)
        totals.observe(FIRST_EVENT, (client, provider), begun_after)
    if receipt.facts is None:
        return
    times = totals.series(DURATION)[client, provider, "true" if receipt.facts.stream else "false"]
    if receipt.ended == "rejected":
        return
    observe(times, 1.0)
    if usage is None:
        return
    kinds = {"input": usage.input_total, "cache_read": usage.cache_read, "cache_write": usage.cache_write}
    kinds |= {"output": usage.output_total, "reasoning": usage.reasoning}
    for kind, tokens in kinds.items():
        if tokens:
            totals.add(TOKENS, (provider, kind), tokens)
    written = usage.output_total or 0
    if begun_after is not None and receipt.ended == "completed" and written > 1:
        gaps = totals.series(TOKEN_TIME)[client, provider]
        observe(gaps, (1.0 - begun_after) / (written - 1), SHORT)


def test_each_request_is_counted_as_by_its_labels() -> None:
    clock = Clock()
    clock.now = 64.0
    counted, expected = Metrics(clock=clock), Totals()
    cases = product(
        (CHAT, MESSAGES),
        ("up", None),
        (True, False, None),
        (0.25, None),
        (("completed", 200), ("failed", 502), ("rejected", 401), ("abandoned", 499)),
        USAGES,
    )
    for client, provider, stream, begun_after, (ended, status), usage in cases:
        receipt = Receipt("req_1", client, 7, provider=provider, route="*" if provider else "")
        counted.opened(receipt)
        if stream is not None:
            body = b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"stream":%s}'
            translation = translate(direction(client, CHAT), body % (b"true" if stream else b"false"))
            translation.context.usage = usage
            receipt.translation = translation
        if begun_after is not None:
            clock.now += begun_after
            counted.begun(receipt)
        clock.now += 1.0 - (begun_after or 0.0)
        receipt.complete(ended, status, duration=counted.seconds(receipt))
        counted.ended(receipt, None)
        count_by_labels(expected, receipt, usage, begun_after)
    for family in COUNTED:
        found, wanted = counted.totals.series(family), expected.series(family)
        assert found.keys() == wanted.keys()
        for labels, numbers in wanted.items():
            assert found[labels] == pytest.approx(numbers)


def test_equal_endings_have_the_same_counters() -> None:
    totals = Totals()
    endings = Endings(totals)
    ending: Ending = (CHAT, "up", "*", "completed", 2, True, True)
    counters = endings[ending]
    counters.requests[0] += 1
    endings[CHAT, "up", "*", "completed", 2, True, True].requests[0] += 1
    assert len(endings) == 1
    assert totals.read(REQUESTS, CHAT, "up", "*", "completed", "2xx") == [2]
    other = endings[CHAT, "up", "*", "completed", 2, False, False]
    assert other.requests is counters.requests
    assert other.tokens is counters.tokens
    assert other.durations is not counters.durations
    assert (other.first_events, other.open_streams) == ([], [])


def test_gaps_between_tokens_exist_once_there_are_some() -> None:
    totals = Totals()
    counters = EndCounters(
        totals, (CHAT, "up", "*", "completed", 2, True, True), LabelledSeries(totals.series(TOKENS), "up")
    )
    assert counters.token_times is None
    assert not totals.series(TOKEN_TIME)
    assert counters.add_token_times() is counters.token_times
    assert list(totals.series(TOKEN_TIME)) == [(CHAT, "up")]


def test_a_series_by_its_last_label() -> None:
    series = Totals().series(TOKENS)
    by_kind = LabelledSeries(series, "up")
    assert not series
    by_kind["input"][0] += 3
    by_kind["input"][0] += 4
    assert dict(series) == {("up", "input"): [7]}

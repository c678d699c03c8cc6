"""The counters of requests: their labels, and that nothing is counted while a stream runs."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from dragoman import direction, translate
from dragoman.aio import proxy_stream
from dragoman.canonical.events import Usage
from dragoman.dialects import Dialect
from dragoman.errors import (
    DragomanError,
    Failure,
    FailureKind,
    FailureOrigin,
    StreamTruncated,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from dragoman_server.observability import metrics
from dragoman_server.observability.metric_families import CPU, FAMILIES, FILES, MEMORY, OPEN_STREAMS, TOKENS, Kind
from dragoman_server.observability.metrics import Metrics
from dragoman_server.observability.prometheus import exposition
from dragoman_server.receipt import Receipt
from support.clocks import Clock
from support.exposed import read_exposition, total

CHAT, MESSAGES, *_ = Dialect


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counted(clock: Clock) -> Metrics:
    return Metrics(clock=clock, now=lambda: 1_795_000_000.0)


def taken(counted: Metrics, *, stream: bool = False, translated: bool = True, **more: Any) -> Receipt:
    """A request that was taken, and perhaps translated."""
    receipt = Receipt("req_1", CHAT, 7)
    counted.opened(receipt)
    if translated:
        body = {"model": "some-client-model", "messages": [{"role": "user", "content": "Hi"}], "stream": stream, **more}
        receipt.model, receipt.provider, receipt.route = "some-client-model", "up", "claude-*"
        receipt.translation = translate(direction(CHAT, MESSAGES), json.dumps(body).encode())
    return receipt


def end(counted: Metrics, receipt: Receipt, ended: str, status: int, failure: Failure | None = None) -> None:
    """The end of a request, as its scope reports it."""
    receipt.complete(ended, status, failure, duration=counted.seconds(receipt))
    counted.ended(receipt, failure)


def value(counted: Metrics, name: str, **labels: str) -> float:
    return total(read_exposition(exposition(counted.alone())), name, **labels)


def test_a_whole_reply(counted: Metrics, clock: Clock) -> None:
    receipt = taken(counted, seed=7)
    assert value(counted, "dragoman_open_requests") == 1
    assert receipt.translation is not None
    receipt.translation.context.usage = Usage(10, 4, None, 20, 5)
    clock.now += 0.3
    end(counted, receipt, "completed", 200)
    labels = {"client": "chat", "provider": "up"}
    assert value(counted, "dragoman_requests_total", **labels, route="claude-*", ended="completed", status="2xx") == 1
    assert value(counted, "dragoman_open_requests") == 0
    seconds = "dragoman_request_duration_seconds"
    assert value(counted, f"{seconds}_bucket", **labels, stream="false", le="0.25") == 0
    assert value(counted, f"{seconds}_bucket", **labels, stream="false", le="0.5") == 1
    assert value(counted, f"{seconds}_sum", **labels) == pytest.approx(0.3)
    assert value(counted, "dragoman_first_event_seconds_count") == 0
    counts = {labels[1]: numbers[0] for labels, numbers in counted.totals.values[TOKENS.name].items()}
    assert counts == {"input": 10, "cache_read": 4, "output": 20, "reasoning": 5}
    assert value(counted, "dragoman_losses_total", code="sampling_unsupported", route="claude-*") == 1
    assert value(counted, "dragoman_upstream_errors_total") == 0


def test_a_stream(counted: Metrics, clock: Clock) -> None:
    receipt = taken(counted, stream=True)
    clock.now += 0.7
    counted.begun(receipt)
    counted.begun(receipt)
    assert value(counted, "dragoman_open_streams", client="chat") == 1
    clock.now += 30
    end(counted, receipt, "abandoned", 200)
    assert value(counted, "dragoman_open_streams") == 0
    assert value(counted, "dragoman_requests_total", ended="abandoned") == 1
    assert value(counted, "dragoman_requests_total") == 1
    assert value(counted, "dragoman_first_event_seconds_bucket", le="0.5") == 0
    assert value(counted, "dragoman_first_event_seconds_bucket", le="1") == 1
    assert value(counted, "dragoman_request_duration_seconds_sum", stream="true") == pytest.approx(30.7)


@pytest.mark.parametrize(("ended", "tokens", "count"), [("completed", 21, 1), ("completed", 1, 0), ("failed", 21, 0)])
def test_the_mean_gap_between_the_tokens_of_a_complete_stream(
    counted: Metrics, clock: Clock, ended: str, tokens: int, count: int
) -> None:
    receipt = taken(counted, stream=True)
    assert receipt.translation is not None
    receipt.translation.context.usage = Usage(10, None, None, tokens)
    clock.now += 0.7
    counted.begun(receipt)
    clock.now += 0.4
    end(counted, receipt, ended, 200)
    seconds, labels = "dragoman_time_per_output_token_seconds", {"client": "chat", "provider": "up"}
    assert value(counted, f"{seconds}_count", **labels) == count
    assert value(counted, f"{seconds}_sum", **labels) == pytest.approx(0.02 * count)
    assert value(counted, f"{seconds}_bucket", **labels, le="0.01") == 0
    assert value(counted, f"{seconds}_bucket", **labels, le="0.025") == count


def test_open_requests(counted: Metrics) -> None:
    receipts = [taken(counted, translated=False) for _ in range(3)]
    end(counted, receipts[0], "abandoned", 499)
    assert counted.open_requests == 2


def test_numbers_that_are_read(counted: Metrics) -> None:
    counted.gauges.append(lambda totals: totals.put(OPEN_STREAMS, ("chat",), 7))
    assert value(counted, "dragoman_open_streams") == 7


def test_a_request_that_was_never_sent_on(counted: Metrics) -> None:
    end(counted, taken(counted, translated=False), "rejected", 401, Failure(FailureKind.AUTHENTICATION, "no", 401))
    assert value(counted, "dragoman_requests_total", ended="rejected", status="4xx", provider="", route="") == 1
    assert value(counted, "dragoman_request_duration_seconds_count") == 0
    assert value(counted, "dragoman_upstream_errors_total") == 0


@pytest.mark.parametrize(
    ("error", "ended", "kind"),
    [
        (UpstreamTimeout("idle", 5), "failed", "timeout"),
        (UpstreamUnreachable("no"), "failed", "upstream_unreachable"),
        (StreamTruncated(), "failed", "stream_truncated"),
        (DragomanError(Failure(FailureKind.RATE_LIMIT, "slow down", 429, code="their-own")), "refused", "rate_limit"),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_whose_fault_it_was(counted: Metrics, error: DragomanError, ended: str, kind: str, late: bool) -> None:
    receipt = taken(counted)
    assert receipt.translation is not None
    if late:
        receipt.translation.context.failure = error.failure
        end(counted, receipt, ended, 200)
    else:
        end(counted, receipt, ended, error.failure.status, error.failure)
    assert value(counted, "dragoman_upstream_errors_total", provider="up", kind=kind) == 1
    assert value(counted, "dragoman_gateway_errors_total") == 0


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (proxy_stream.STOPPING, "stopping"),
        (proxy_stream._GIVEN_UP, "given_up"),
        (proxy_stream.DEFECT, "defect"),
    ],
)
def test_the_gateways_own_errors_are_not_the_upstreams(counted: Metrics, failure: Failure, kind: str) -> None:
    end(counted, taken(counted), "failed", 500, failure)
    assert value(counted, "dragoman_gateway_errors_total", kind=kind) == 1
    assert value(counted, "dragoman_upstream_errors_total") == 0


@pytest.mark.parametrize("translated", [False, True])
def test_what_the_gateway_rejects_is_no_use_of_the_provider(counted: Metrics, translated: bool) -> None:
    limit = Failure(FailureKind.RATE_LIMIT, "", 429, origin=FailureOrigin.CLIENT, reason="requests")
    place = Failure(FailureKind.OVERLOADED, "", 503, origin=FailureOrigin.PROXY, reason="no_provider")
    for failure in (limit, place):
        end(counted, taken(counted, translated=translated), "rejected", failure.status, failure)
    assert value(counted, "dragoman_requests_total", ended="rejected") == 2
    assert value(counted, "dragoman_gateway_errors_total") == 1
    assert value(counted, "dragoman_gateway_errors_total", kind="no_provider") == 1
    assert value(counted, "dragoman_upstream_errors_total") == 0
    assert value(counted, "dragoman_request_duration_seconds_count") == 0


def test_a_defect_before_the_translation_is_counted(counted: Metrics) -> None:
    end(counted, taken(counted, translated=False), "failed", 500, proxy_stream.DEFECT)
    assert value(counted, "dragoman_gateway_errors_total", kind="defect") == 1


def test_a_clients_words_never_become_labels(counted: Metrics) -> None:
    before = sum(len(series) for series in counted.totals.values.values())
    for number in range(50):
        receipt = Receipt(f"req_{number}", CHAT, 7, model=f"made-up-{number}")
        counted.opened(receipt)
        end(
            counted,
            receipt,
            "rejected",
            404,
            Failure(FailureKind.NOT_FOUND, f"model made-up-{number}", 404, code=f"c{number}"),
        )
    page = exposition(counted.alone())
    assert b"made-up" not in page
    assert b"some-client-model" not in page
    assert sum(len(series) for series in counted.totals.values.values()) == before + 2


def test_the_process_reports_its_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    own = metrics.footprint()
    assert own.read(CPU)[0] > 0
    assert own.read(MEMORY)[0] > 1 << 20
    with open(os.devnull):
        assert metrics.footprint().read(FILES)[0] == own.read(FILES)[0] + 1

    def missing(*_: object) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    assert list(metrics.footprint().values) == [CPU.name]


def test_names_follow_the_rules_of_both_formats() -> None:
    for name, family in FAMILIES.items():
        assert name == family.name
        assert name.startswith("dragoman_")
        assert name.endswith("_total") == (family.kind is Kind.COUNTER)
        assert not family.doc.startswith(name)
        assert len(set(family.labels)) == len(family.labels)
        assert not {"le", "job", "instance"} & set(family.labels)

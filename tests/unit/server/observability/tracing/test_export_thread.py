"""The thread that sends spans."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest

from dragoman_server.observability.metric_families import SPANS, Totals
from dragoman_server.observability.tracing import export_thread
from dragoman_server.observability.tracing.export_thread import ExportThread
from dragoman_server.observability.tracing.span import Span
from dragoman_server.observability.tracing.trace_context import TraceContext
from support.gateways import until


def span(name: str) -> Span:
    return Span(name, TraceContext("a" * 32, "b" * 16, True), None, False, True, 1, 2, {}, False)


class Collector:
    """The exported spans, and the thread that exports them."""

    def __init__(self, queue: int = 10_000) -> None:
        self.names: list[str] = []
        self.threads: set[int] = set()
        self.answers: bool | Exception = True
        self.resume = threading.Event()
        self.resume.set()
        self.entered = threading.Event()
        self.stopped = 0
        self.totals = Totals()
        self.thread = ExportThread(self._export, self._stop, self.totals, queue)

    def _export(self, spans: Sequence[Span]) -> bool:
        self.entered.set()
        self.resume.wait(30)
        self.threads.add(threading.get_ident())
        self.names += (each.name for each in spans)
        if isinstance(self.answers, Exception):
            raise self.answers
        return self.answers

    def _stop(self) -> None:
        self.stopped += 1

    def counts(self) -> dict[str, float]:
        return {word: self.totals.read(SPANS, word)[0] for word in ("exported", "failed", "dropped")}


async def test_spans_are_sent_in_order_by_another_thread() -> None:
    collector = Collector()
    names = [str(number) for number in range(2000)]
    for name in names:
        collector.thread.put(span(name))
    await collector.thread.close(30)
    assert collector.names == names
    assert collector.threads.isdisjoint({threading.get_ident()})
    assert collector.counts() == {"exported": 2000, "failed": 0, "dropped": 0}
    assert collector.stopped == 1


async def test_few_spans_are_sent_after_the_interval() -> None:
    collector = Collector()
    collector.thread.put(span("one"))
    await until(lambda: collector.names == ["one"])
    collector.thread.put(span("two"))
    await until(lambda: collector.names == ["one", "two"])
    await collector.thread.close(30)


async def test_a_full_queue_drops_what_comes() -> None:
    collector = Collector(queue=3)
    collector.resume.clear()
    collector.thread.put(span("first"))
    await until(collector.entered.is_set)
    for number in range(5):
        collector.thread.put(span(str(number)))
    collector.resume.set()
    await collector.thread.close(30)
    assert collector.names == ["first", "0", "1", "2"]
    assert collector.counts() == {"exported": 4, "failed": 0, "dropped": 2}


async def test_a_collector_that_hangs_does_not_keep_the_gateway() -> None:
    collector = Collector()
    collector.resume.clear()
    collector.thread.put(span("first"))
    await until(collector.entered.is_set)
    collector.thread.put(span("second"))
    await collector.thread.close(0.05)
    assert collector.stopped == 1
    collector.resume.set()
    assert collector.counts()["dropped"] == 1


@pytest.mark.parametrize("answer", [False, RuntimeError("no")], ids=["refused", "defect"])
async def test_what_is_not_taken_is_counted_and_logged_once(
    answer: bool | Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(export_thread, "BATCH", 2)
    caplog.set_level(logging.WARNING, "dragoman")
    collector = Collector()
    collector.answers = answer
    for number in range(6):
        collector.thread.put(span(str(number)))
    await collector.thread.close(30)
    assert collector.counts() == {"exported": 0, "failed": 6, "dropped": 0}
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warnings] == [
        "spans could not be sent to the collector of traces: 2 are lost"
    ]


async def test_without_spans_there_is_no_thread() -> None:
    before = threading.active_count()
    collector = Collector()
    await collector.thread.close(30)
    assert threading.active_count() == before
    assert collector.stopped == 0

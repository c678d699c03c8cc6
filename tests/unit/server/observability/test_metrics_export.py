"""The task that sends metrics."""

from __future__ import annotations

import threading

import pytest

from dragoman_server.config.telemetry import Telemetry
from dragoman_server.observability import metrics_export
from dragoman_server.observability.metric_families import STORE_UP, Totals
from dragoman_server.observability.metrics_export import MetricsExport, create_metrics_export
from support.gateways import until


class Exports:
    """The exported metrics, by an export that can fail or hang."""

    def __init__(self, interval: float) -> None:
        self.numbers: list[float] = []
        self.threads: set[int] = set()
        self.error: Exception | None = None
        self.resume = threading.Event()
        self.resume.set()
        self.stopped = 0
        self.task = MetricsExport(self._snapshot, self._export, self._stop, interval)
        self._snapshots = 0

    def _snapshot(self) -> Totals:
        self._snapshots += 1
        totals = Totals()
        totals.put(STORE_UP, (), self._snapshots)
        return totals

    def _export(self, totals: Totals) -> bool:
        self.threads.add(threading.get_ident())
        self.numbers.append(totals.read(STORE_UP)[0])
        self.resume.wait(30)
        if self.error is not None:
            raise self.error
        return True

    def _stop(self) -> None:
        self.stopped += 1


async def test_snapshots_are_sent_by_another_thread_until_the_end() -> None:
    exports = Exports(0.02)
    exports.task.start()
    await until(lambda: len(exports.numbers) >= 3)
    await exports.task.close()
    count = len(exports.numbers)
    assert exports.numbers == list(range(1, count + 1))
    assert threading.get_ident() not in exports.threads
    assert exports.stopped == 1


async def test_the_last_numbers_are_sent_at_the_end() -> None:
    exports = Exports(3600)
    exports.task.start()
    await exports.task.close()
    assert exports.numbers == [1]


async def test_an_error_does_not_end_the_exports(caplog: pytest.LogCaptureFixture) -> None:
    exports = Exports(0.02)
    exports.error = RuntimeError("no")
    exports.task.start()
    await until(lambda: len(exports.numbers) >= 2)
    await exports.task.close()
    assert "the export of metrics failed by a defect" in caplog.text


async def test_a_collector_that_hangs_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metrics_export, "CLOSE_SECONDS", 0.05)
    exports = Exports(3600)
    exports.resume.clear()
    exports.task.start()
    await exports.task.close()
    exports.resume.set()
    assert exports.stopped == 1
    assert "the last metrics could not be sent" in caplog.text


async def test_without_the_setting_there_is_none() -> None:
    assert create_metrics_export(Telemetry(endpoint="http://collector:4318"), Totals) is None
    exports = Exports(1)
    await exports.task.close()
    assert exports.stopped == 0

"""Sends the metrics of one process to a collector, again and again."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from dragoman_server.config.telemetry import Telemetry
from dragoman_server.observability.metric_families import Totals

log = logging.getLogger("dragoman")
CLOSE_SECONDS = 2.0
"""Seconds that the last export has when the gateway closes."""


class MetricsExport:
    """Exports a snapshot every `interval` seconds, and a last one at the end.

    Args:
        snapshot: A function that returns the numbers; called in the event loop.
        export: Sends them; called in another thread.
        stop: Ends a call of `export` early.
        interval: Seconds between two exports.
    """

    def __init__(
        self,
        snapshot: Callable[[], Totals],
        export: Callable[[Totals], bool],
        stop: Callable[[], None],
        interval: float,
    ) -> None:
        self._snapshot = snapshot
        self._export = export
        self._stop_export = stop
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin. Must be called in the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self._send()

    async def _send(self) -> None:
        totals, loop, ended = self._snapshot(), asyncio.get_running_loop(), asyncio.Event()

        def send() -> None:
            try:
                self._export(totals)
            except Exception:
                log.exception("the export of metrics failed by a defect")
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(ended.set)

        # Not in the loop's own threads, which the end of the process waits for.
        threading.Thread(target=send, name="dragoman-metrics", daemon=True).start()
        await ended.wait()

    async def close(self) -> None:
        """Export the last numbers, and end."""
        if self._task is None:
            return
        self._task.cancel()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._send()
        except TimeoutError:
            log.warning("the last metrics could not be sent to the collector")
        self._stop_export()


def create_metrics_export(options: Telemetry, snapshot: Callable[[], Totals], host: str = "") -> MetricsExport | None:
    """Return the export of these options, None without `metrics`. It names `host`."""
    if not options.metrics:
        return None
    # Imported here: it needs an extra.
    from dragoman_server.observability.otlp.metrics import OtlpMetrics

    exporter = OtlpMetrics(options, host=host)
    return MetricsExport(snapshot, exporter.export, exporter.stop, options.interval)

"""Registry of the running workers: it sums their metrics and finds the one that has a receipt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from dragoman.wire import Json
from dragoman_server.observability.metric_families import WORKER_UP, WORKERS_LEAVING, Totals
from dragoman_server.observability.metrics import footprint, identify
from dragoman_server.workers.ipc import Unanswered
from dragoman_server.workers.worker_process import WorkerProcess

ANSWER_SECONDS = 1.0
"""Maximum wait for one worker's answer, in seconds."""


class WorkerRegistry:
    """The running workers, and the metrics of those that have ended, so that no counter ever goes down.

    `serving` maps a worker's number to the worker that accepts connections under it; `expected` is how many there
    should be. `supervisor_totals` holds the supervisor's own metrics, and `gauges` are called to add those that are
    read.
    """

    def __init__(self) -> None:
        self.workers: list[WorkerProcess] = []
        self.serving: dict[int, WorkerProcess] = {}
        self.expected = 0
        self.supervisor_totals = Totals()
        self.gauges: list[Callable[[Totals], None]] = []
        self._ended_totals = Totals()
        self._started = time.time()
        self._asking: asyncio.Task[None] | None = None

    def remove(self, worker: WorkerProcess) -> None:
        """Remove a worker whose process has ended, and keep its counters."""
        self.workers.remove(worker)
        if worker.totals is not None:
            self._ended_totals.merge(worker.totals, counters_only=True)

    async def answer(self, asker: WorkerProcess, what: str, message: Json) -> Any:
        """Answer a worker's question: for `totals` of all, for a `receipt` or `receipts` of the others, or to their
        consoles."""
        if what == "console":
            return await self._console(asker, message["question"])
        if what == "receipt":
            return await self._receipt(asker, message["id"], message["owner"])
        if what == "receipts":
            return await self._receipts(asker, message["owner"], message["most"])
        # Concurrent scrapes share one round of questions, so that they cannot keep the workers busy.
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_all())
        await asyncio.shield(self._asking)
        return self.totals().pack()

    async def open_requests(self) -> int:
        """Return the number of open requests of all workers that answer in time."""

        async def ask(worker: WorkerProcess) -> int:
            try:
                return int(await worker.channel.ask("open", ANSWER_SECONDS))
            except Unanswered:
                return 0

        return sum(await asyncio.gather(*(ask(worker) for worker in self.workers if worker.started)))

    def totals(self) -> Totals:
        """Return the sum of all metrics as last received."""
        totals = footprint()
        for some in (self.supervisor_totals, self._ended_totals, *(worker.totals for worker in self.workers)):
            if some is not None:
                totals.merge(some)
        for number in range(1, self.expected + 1):
            worker = self.serving.get(number)
            totals.put(WORKER_UP, (str(number),), int(worker is not None and worker.answered))
        totals.put(WORKERS_LEAVING, (), sum(worker.leaving for worker in self.workers))
        for add in self.gauges:
            add(totals)
        identify(totals, self._started)
        return totals

    async def _ask_all(self) -> None:
        async def ask(worker: WorkerProcess) -> None:
            try:
                worker.totals = Totals.unpack(await worker.channel.ask("totals", ANSWER_SECONDS))
                worker.answered = True
            except Unanswered:
                worker.answered = False

        await asyncio.gather(*(ask(worker) for worker in self.workers if worker.started))

    async def _receipt(self, asker: WorkerProcess, request_id: str, owner: str) -> str | None:
        found: list[str] = await self._ask_others(asker, "receipt", id=request_id, owner=owner)
        return next(iter(found), None)

    async def _receipts(self, asker: WorkerProcess, owner: str, most: int) -> list[Json]:
        answers: list[list[Json]] = await self._ask_others(asker, "receipts", owner=owner, most=most)
        rows = [row for answer in answers for row in answer]
        return sorted(rows, key=lambda row: row["created"], reverse=True)[:most]

    async def _console(self, asker: WorkerProcess, question: Json) -> list[Json]:
        return await self._ask_others(asker, "console", question=question)

    async def _ask_others(self, asker: WorkerProcess, what: str, **more: Any) -> list[Any]:
        """Return the answers of the other workers to a question, without those that have none or are late."""

        async def ask(worker: WorkerProcess) -> Any:
            try:
                return await worker.channel.ask(what, ANSWER_SECONDS, **more)
            except Unanswered:
                return None

        others = [worker for worker in self.workers if worker is not asker and worker.started]
        return [answer for answer in await asyncio.gather(*map(ask, others)) if answer is not None]

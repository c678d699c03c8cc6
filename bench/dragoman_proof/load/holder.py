"""A process that holds streams open: `python -m dragoman_proof.load.holder`, used by `open_streams`.

The first line of stdin is a plan (`dragoman_bench.plan.Plan`) as JSON. The process opens its streams and prints how
many have begun. At the next line it waits for their ends, and prints its counts as JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable

from dragoman_bench.load import Load
from dragoman_bench.plan import Plan
from dragoman_bench.processes import open_files_limit
from dragoman_bench.receiver import Receiver

_STEP = 0.05
_ENDED_WITHIN = 120.0


class Holder:
    """The streams of one process."""

    def __init__(self, plan: Plan) -> None:
        self._load = Load(plan)
        self._beginning = 0
        self.open = 0

    async def run(self) -> None:
        """Open the streams, report, and wait for their ends."""
        plan, tally = self._load.plan, self._load.tally
        started = time.monotonic()
        for number in range(plan.streams):
            if (wait := started + number / plan.ramp_per_s - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            while self._beginning >= plan.opening:  # noqa: ASYNC110 - the counts are moved by callbacks
                await asyncio.sleep(_STEP)
            receiver = await self._load.connect(lambda: Receiver(plan.dialect, tally, self._done))
            if receiver is not None:
                self.open += 1
                self._beginning += 1
                receiver.started = self._begun
                receiver.send(self._load.request, time.monotonic_ns())
        await self._until(lambda: self._beginning == 0)
        print(json.dumps({"begun": tally.begun, "open": self.open, "errors": tally.errors}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await self._until(lambda: self.open == 0)
        counts = {"opened": tally.opened, "streams": tally.streams, "chunks": tally.chunks, "left": self.open}
        print(json.dumps({**counts, "errors": tally.errors}), flush=True)

    async def _until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _ENDED_WITHIN
        while not reached() and time.monotonic() < deadline:  # noqa: ASYNC110 - as above
            await asyncio.sleep(_STEP)

    def _begun(self, receiver: Receiver) -> None:
        self._beginning -= 1

    def _done(self, receiver: Receiver, error: str | None) -> None:
        self.open -= 1
        if not receiver.seen:
            self._beginning -= 1
        if receiver.transport is not None:
            receiver.transport.abort()


def main() -> None:
    """Run on a uvloop event loop."""
    import uvloop

    plan = Plan.of_json(sys.stdin.readline())
    open_files_limit()
    gc.disable()
    uvloop.run(Holder(plan).run())


if __name__ == "__main__":
    main()

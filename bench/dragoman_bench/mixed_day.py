"""The load shape `day`: requests of all kinds arrive on a random schedule, and figures are drawn over time.

Of the requests, most ask for a short stream, some for a long one or a whole reply. Some clients leave in the middle of
a stream; half of these ask again at once. A point of the series has the percentiles of the delays since the last one.
"""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from dragoman_bench.delays import Delays
from dragoman_bench.load import Load
from dragoman_bench.load_shapes import ArrivalSchedule
from dragoman_bench.pacer import Pacer
from dragoman_bench.probe import probe
from dragoman_bench.processes import cpu_ns, resident_bytes, tree
from dragoman_bench.receiver import Receiver

LEAVERS = 0.12
"""Share of the streams whose client leaves."""
RETRIES = 0.5
"""Share of the leaving clients that send their request again."""
_LEAVES_WITHIN_MS = 1500
_POINTS = 240
_SHORTEST = 0.5
_STEP = 0.1


class TimedDelays(Delays):
    """Delays that are also kept by order, in microseconds, for percentiles of parts of the time."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        super().__init__()
        self.values = array("I")

    def add(self, duration_ns: int) -> None:
        """Count a duration in nanoseconds."""
        super().add(duration_ns)
        self.values.append(min(max(0, duration_ns // 1000), 0xFFFFFFFF))

    def share(self, begin: int, end: int, percent: float) -> float | None:
        """Return a percentile in ms of the values from `begin` to `end`, or None without values."""
        part = sorted(self.values[begin:end])
        return part[min(len(part) - 1, int(len(part) * percent / 100))] / 1000 if part else None


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters at a moment: seconds since the begin, numbers of delays and lags so far, and the gateway's use."""

    at_s: float
    delays: int
    lags: int
    open_replies: int
    cpu_ns: int
    memory_bytes: int


class MixedDay:
    """One run of the shape: the arrivals, the clients that leave, and the samples for the series."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._chance = random.Random(load.plan.seed)
        self._idle: deque[Receiver] = deque()
        self._moved = asyncio.Event()
        self._going = 0
        self._delay, self._lag = TimedDelays(), TimedDelays()
        plan = load.plan
        self._requests = [(plan.request(model, stream=streamed), streamed) for model, _, streamed in plan.mix]
        self._weights = [share for _, share, _ in plan.mix]
        self._tree = tree(plan.watch.get("gateway", 0))

    async def run(self) -> None:
        """Run the arrivals, then wait for the replies that have begun."""
        load, plan = self._load, self._load.plan
        load.spawn(probe(plan, lambda lag: self._lag.add(lag)))
        pacer = Pacer(asyncio.get_running_loop())
        try:
            first = time.monotonic_ns() + 1_000_000
            pacer.add(ArrivalSchedule(plan, first, self._arrive), first)
            await asyncio.sleep(plan.warm)
            load.tally.first.clear()
            load.tally.delay = self._delay
            load.lag = self._lag = TimedDelays()
            await load.sample("begin")
            load.tally.measuring = True
            samples = await self._sampled()
            load.tally.measuring = False
            await load.sample("end")
            while self._going > 0 or len(pacer):
                self._moved.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._moved.wait(), _STEP)
        finally:
            pacer.close()
        load.series = [self._point(before, after) for before, after in pairwise(samples)]

    async def _sampled(self) -> list[Sample]:
        """Return samples at even times during the window."""
        begun, seconds = time.monotonic(), self._load.plan.seconds
        count = max(1, min(_POINTS, int(seconds / _SHORTEST)))
        samples = [self._sample(0.0)]
        for number in range(1, count + 1):
            await asyncio.sleep(max(0.0, begun + seconds * number / count - time.monotonic()))
            samples.append(self._sample(time.monotonic() - begun))
        return samples

    def _sample(self, at_s: float) -> Sample:
        counts = len(self._delay.values), len(self._lag.values)
        return Sample(at_s, *counts, self._going, cpu_ns(self._tree), resident_bytes(self._tree))

    def _point(self, before: Sample, after: Sample) -> dict[str, float | None]:
        """Return a point of the series. Delays and lags are in ms."""
        delay, lag = self._delay, self._lag
        seconds = after.at_s - before.at_s
        return {
            "at_s": after.at_s,
            "delay_p50": delay.share(before.delays, after.delays, 50),
            "delay_p99": delay.share(before.delays, after.delays, 99),
            "lag_p99": lag.share(before.lags, after.lags, 99),
            "open": after.open_replies,
            "cpu_share": (after.cpu_ns - before.cpu_ns) / 1e9 / seconds if seconds else None,
            "memory_mb": after.memory_bytes / 1e6,
        }

    def _arrive(self, at: int) -> None:
        """Begin the reply that is due at `at`."""
        if self._going >= self._load.plan.streams:
            self._load.tally.error("too-many", f"{self._going} replies at once: the gateway does not keep up")
            return
        [kind] = self._chance.choices(range(len(self._requests)), self._weights)
        self._load.spawn(self._begin(kind, at, leaves=self._chance.random() < LEAVERS))

    async def _begin(self, kind: int, at: int, *, leaves: bool) -> None:
        load = self._load
        self._going += 1
        receiver: Receiver | None = None
        while self._idle and (receiver is None or receiver.transport is None):
            receiver = self._idle.popleft()
        if receiver is None or receiver.transport is None:
            receiver = await load.connect(partial(Receiver, load.plan.dialect, load.tally, self._done))
        if receiver is None:
            self._ended()
            return
        request, streamed = self._requests[kind]
        receiver.send(request, at, streamed=streamed)
        if leaves and streamed:
            wait = self._chance.random() * _LEAVES_WITHIN_MS / 1000
            number = load.tally.opened
            asyncio.get_running_loop().call_later(wait, self._leave, receiver, number, kind)
            receiver.number = number

    def _leave(self, receiver: Receiver, number: int, kind: int) -> None:
        """Disconnect in the middle of reply `number`, if it has not ended, and perhaps ask again."""
        if not receiver.active or receiver.number != number:
            return
        receiver.cut()
        self._ended()
        if self._chance.random() < RETRIES:
            self._load.spawn(self._begin(kind, time.monotonic_ns(), leaves=False))

    def _done(self, receiver: Receiver, error: str | None) -> None:
        receiver.number = 0
        if receiver.healthy and receiver.transport is not None:
            self._idle.append(receiver)
        self._ended()

    def _ended(self) -> None:
        self._going -= 1
        self._moved.set()


async def day(load: Load) -> None:
    """Run a mixed day: the shape of that name."""
    await MixedDay(load).run()

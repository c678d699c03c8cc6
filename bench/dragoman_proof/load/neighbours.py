"""The delays of steady clients, alone and together with each kind of load, in turns.

A delay is from the upstream's write to the time at which the kernel had the data for the client (`SO_TIMESTAMPNS`).
Each window with others stands between two windows alone, and is compared with their mean: other work of the machine
that lasts longer than a window slows all three. The median of these ratios counts, so that one pause decides nothing.
In a window with others, the loads go on all the time.

The gateway has a core for itself: all else runs on the others. There the loads and their upstream have idle priority,
so that the steady clients read at once. A client that reads late finds two deltas in one read, of which the kernel has
the time of the second only: the first would count as 25 ms late. `read_together` is the share of such deltas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from dragoman_proof.load.clients import Clients, steady
from dragoman_proof.load.noise import LOADS, noise
from dragoman_proof.load.outcome import Outcome
from dragoman_proof.load.rig import Stage, noise_and_steady, stage
from dragoman_proof.load.sizes import Size

MOST = 1.2
"""The 99th percentile with others, in multiples of that alone."""
_WRITE = 600.0
"""No client is ended in a window."""


async def neighbours(size: Size) -> Outcome:
    """Measure steady clients alone and together with each load."""
    outcome = Outcome("neighbours", f"{size.steady} steady streams of 40 deltas a second beside each of the loads")
    async with stage(noise_and_steady(), write=_WRITE, apart=True) as running, steady(running, size.steady) as clients:
        for name in size.loads or LOADS:
            figures = outcome.figures[name] = await _turns(running, clients, name, size)
            alone, beside = median(figures["alone_p99_ms"]), median(figures["beside_p99_ms"])
            ratio = figures["ratio"] = ratio_of(figures["alone_p99_ms"], figures["beside_p99_ms"])
            if size.timed:
                found = f"{ratio:.2f} × ({alone:.2f} and {beside:.2f} ms)"
                outcome.check(f"{name}: the 99th percentile is at most {MOST} × that alone", ratio <= MOST, found)
    streams = clients.tally.streams
    complete = streams == size.steady and not clients.tally.errors
    outcome.check("all steady streams are complete", complete, f"{streams} of {size.steady}, {clients.tally.errors}")
    return outcome.ended()


async def _turns(running: Stage, clients: Clients, load: str, size: Size) -> dict[str, Any]:
    """Measure alone and together with a load, in turns. Returns the figures."""
    alone, beside, cpu, waited = [await _window(clients, size)], list[Window](), list[float](), list[float]()
    for _ in range(size.rounds):
        async with noise(running, load, size):
            before = running.used()
            beside.append(await _window(clients, size))
            after = running.used()
        cpu.append((after.cpu_ns - before.cpu_ns) / 1e9 / size.window)
        waited.append((after.waited_ns - before.waited_ns) / 1e9 / size.window)
        await running.quiet()
        alone.append(await _window(clients, size))
    return {
        "alone_p99_ms": [window.p99_ms for window in alone],
        "beside_p99_ms": [window.p99_ms for window in beside],
        "read_together": median(window.read_together for window in beside),
        "cpu_share": median(cpu),
        "share_waited_for_a_core": median(waited),
    }


def ratio_of(alone: Sequence[float], beside: Sequence[float]) -> float:
    """Return the median ratio of each window with others to the mean of the two windows alone around it."""
    return median(each / max(sum(pair) / 2, 1e-6) for each, pair in zip(beside, pairwise(alone), strict=True))


class Window(NamedTuple):
    """The 99th percentile of the delays in a window, and the share of deltas that have a later one's time."""

    p99_ms: float
    read_together: float


async def _window(clients: Clients, size: Size) -> Window:
    """Measure the delays in a window."""
    together = clients.tally.together
    with clients.measured() as delays:
        await asyncio.sleep(size.window)
    found = delays.summary()
    return Window(found.get("p99", 0.0), (clients.tally.together - together) / max(1, found.get("count", 0)))

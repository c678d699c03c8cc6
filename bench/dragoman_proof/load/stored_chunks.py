"""CPU time of a chunk of a stream that is stored as a run, and of one that is not, through one worker.

Streams that can be resumed are runs: what they send is stored in memory, SQLite or Redis. As many plain streams and
stored ones are open in turns, so that other load of the machine costs both the same. The CPU time is that of the
gateway's process, with the kernel's.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from statistics import median
from typing import Any

from dragoman_bench.load import Load
from dragoman_bench.wire import ENDLESS, Script
from dragoman_proof.load.clients import Clients
from dragoman_proof.load.outcome import Outcome
from dragoman_proof.load.rig import RESUME, RUNS, SQLITE, Stage, stage
from dragoman_proof.load.sizes import Size
from dragoman_proof.soak.gateway import redis

MOST = 1.10
"""A stored chunk, in multiples of a plain one."""
_SCRIPT = Script(ENDLESS, 50, 32)
"""20 deltas a second, as `bench` paces its streams."""


async def stored_chunks(size: Size, kind: str = "memory") -> Outcome:
    """Measure plain and stored streams in turns."""
    about = f"{size.steady} streams of 20 deltas a second, plain and stored ({kind}) in turns"
    outcome = Outcome(f"stored-{kind}", about)
    async with AsyncExitStack() as stack:
        more = RUNS
        if kind == "redis":
            url, _ = await stack.enter_async_context(redis())
            more += f'[state]\nkind = "redis"\nurl = "{url}"\n'
        elif kind == "sqlite":
            more += SQLITE
        running = await stack.enter_async_context(stage({"all": "*"}, more=more))
        found: dict[str, list[float]] = {"plain": [], "stored": []}
        received = dict.fromkeys(found, 0)
        streams, errors = 0, dict[str, Any]()
        for _ in range(size.rounds):
            for name, headers in (("plain", {}), ("stored", RESUME)):
                clients = Clients(running, _SCRIPT)
                clients.load = Load(replace(running.plan(_SCRIPT), headers=headers))
                found[name].append(await _window(running, clients, size))
                streams += clients.tally.streams
                received[name] += clients.tally.received
                errors |= clients.tally.errors
    count = 2 * size.rounds * size.steady
    outcome.figures |= {f"{name}_us_per_chunk": median(each) for name, each in found.items()}
    ratios = [stored / plain for stored, plain in zip(found["stored"], found["plain"], strict=True)]
    outcome.figures |= {"ratios": ratios, "ratio": median(ratios)}
    outcome.check("all streams are complete", streams == count and not errors, f"{streams} of {count}, {errors or ''}")
    # Each event of a stored stream has an id. Both kinds have as many events, but for those of a slow moment.
    outcome.check("stored streams have ids", received["stored"] > received["plain"] * 1.1, received)
    if size.timed:
        held = median(ratios) <= MOST
        outcome.check(f"a stored chunk costs at most {MOST} × a plain one", held, f"{median(ratios):.2f} ×")
    return outcome.ended()


async def _window(running: Stage, clients: Clients, size: Size) -> float:
    """Return the CPU time of a chunk, in microseconds, while `size.steady` streams are open."""
    await clients.open(size.steady)
    begin, sent = running.used(), int((await running.stats("all"))["events"])
    await asyncio.sleep(size.window)
    end, sent = running.used(), int((await running.stats("all"))["events"]) - sent
    await clients.complete(running, "all")
    return (end.cpu_ns - begin.cpu_ns) / 1e3 / max(sent, 1)

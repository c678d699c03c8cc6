"""Processes of the rig: the upstream simulator, load clients, and one gateway for a direction."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any

from dragoman_bench.gateways import Direction, Gateway, Started
from dragoman_bench.load import get_json
from dragoman_bench.plan import Plan
from dragoman_bench.processes import alive, memory_bytes, tree
from dragoman_bench.scenarios import IDLE_SECONDS, WARM_UP, Scenario

_START_WITHIN = 20.0
_CLIENT_GRACE = 30.0
_DRAIN_WITHIN = 10.0
_STEP = 0.1
_SETTLE = 1.0
_MOST_OUTPUT = 16 * 1024 * 1024


class RigError(RuntimeError):
    """The rig itself failed, not a gateway."""


class LoadError(RigError):
    """A load client failed or did not end. The upstream may still work."""


async def _python(*words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # only the rig receives Ctrl-C, and ends them in order
        limit=_MOST_OUTPUT,
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


class Rig:
    """The upstream simulator at `url`, while the context of `running` lasts."""

    def __init__(self, url: str, pid: int, core: int | None) -> None:
        self.url = url
        self.pid = pid
        self.core = core
        """The gateway's core."""

    @classmethod
    @asynccontextmanager
    async def running(cls, core: int | None, *options: str) -> AsyncIterator[Rig]:
        """Start the upstream with these options. Raises RigError."""
        upstream = await _python("dragoman_bench.upstream", "--until-eof", *options)
        try:
            assert upstream.stdout is not None
            assert upstream.stderr is not None
            try:
                async with asyncio.timeout(_START_WITHIN):
                    announced = json.loads(await upstream.stdout.readline())
            except (TimeoutError, ValueError) as error:
                await _end(upstream)
                errors = (await upstream.stderr.read()).decode(errors="replace")
                raise RigError(f"the upstream simulator did not start: {errors[-2000:]}") from error
            yield cls(f"http://127.0.0.1:{announced['port']}", announced["pid"], core)
        finally:
            await _end(upstream)

    async def load(self, plan: Plan) -> dict[str, Any]:
        """Carry out a plan by a load client. Returns its result. Raises LoadError."""
        client = await _python("dragoman_bench.client")
        try:
            async with asyncio.timeout(plan.limit + _CLIENT_GRACE):
                out, errors = await client.communicate(json.dumps(asdict(plan)).encode())
        except TimeoutError as error:
            raise LoadError(f"the load client did not end {_CLIENT_GRACE:.0f} s after its plan's limit") from error
        finally:
            await _end(client)
        if client.returncode:
            raise LoadError(f"the load client failed: {errors.decode(errors='replace')[-2000:]}")
        result: dict[str, Any] = json.loads(out)
        return result

    async def stats(self) -> dict[str, Any]:
        """Return the upstream's counts. Raises RigError if it does not answer."""
        try:
            return await get_json(self.url, "/bench/stats")
        except (OSError, TimeoutError, ValueError) as error:
            raise RigError(f"the upstream simulator does not answer: {error!r}") from error

    async def quiet(self) -> int:
        """Wait until no stream is open at the upstream. Returns the number still open at the end."""
        open_streams = 0
        for _ in range(int(_DRAIN_WITHIN / _STEP)):
            open_streams = int((await self.stats())["open"])
            if not open_streams:
                break
            await asyncio.sleep(_STEP)
        return open_streams


class Subject:
    """A started gateway in a direction, with the time that its start took."""

    def __init__(self, gateway: Gateway, direction: Direction, started: Started, startup_s: float) -> None:
        self.gateway = gateway
        self.direction = direction
        self.started = started
        self.startup_s = startup_s

    @classmethod
    async def start(cls, rig: Rig, gateway: Gateway, direction: Direction) -> Subject:
        """Start a gateway. Raises gateways.StartError."""
        at = time.monotonic()
        started = await gateway.start(rig.url, direction, rig.core)
        return cls(gateway, direction, started, time.monotonic() - at)

    def plan(self, rig: Rig, scenario: Scenario) -> Plan:
        """Return the plan of a scenario for this gateway."""
        plan = scenario.plan(
            self.started.url,
            rig.url,
            self.direction[0],
            self.started.model(scenario.script.model),
            dict(self.started.headers),
        )
        plan.watch = {"upstream": rig.pid}
        if self.started.pid:
            plan.watch["gateway"] = self.started.pid
        if plan.slow is not None:
            plan.slow.model = self.started.model(plan.slow.model)
        plan.neighbours = [self.started.model(model) for model in plan.neighbours]
        plan.mix = [(self.started.model(model), share, streamed) for model, share, streamed in plan.mix]
        return plan

    async def warm_up(self, rig: Rig, seconds: float) -> None:
        """Send streams for `seconds`, so that imports, caches and pools of the first ones are not in the figures."""
        plan = Plan(
            self.started.url,
            self.direction[0],
            "closed",
            self.started.model(WARM_UP.model),
            16,
            seconds,
            headers=dict(self.started.headers),
            warm=0.1,
            limit=60 + seconds,
        )
        await rig.load(plan)

    async def measure(self, rig: Rig, scenario: Scenario) -> dict[str, Any]:
        """Return the load client's result; for `idle` the cost of the start, for `storm` the remains of two storms."""
        if scenario.mode is None:
            await asyncio.sleep(IDLE_SECONDS)
            return {"idle": {"startup_s": self.startup_s, "idle_bytes": self.memory("Rss")}}
        plan = self.plan(rig, scenario)
        if scenario.mode != "storm":
            return await rig.load(plan)
        before = await rig.stats()
        first = await rig.load(plan)
        await rig.quiet()
        await asyncio.sleep(_SETTLE)
        once = self.memory()
        plan.seed += 1
        second = await rig.load(plan)
        left = await rig.quiet()
        await asyncio.sleep(_SETTLE)
        after = await rig.stats()
        errors = {**first["errors"], **second["errors"]}
        if left:
            errors["not-cancelled"] = {"count": left, "example": f"{left} streams still open at the upstream"}
        second["errors"] = errors
        second["storm"] = {
            "hung_up": first["cut"] + second["cut"],
            "reached_upstream": after["streams"] - before["streams"],
            "cancelled_upstream": after["cancelled"] - before["cancelled"],
            "left_open": left,
            "grown_bytes": self.memory() - once,
        }
        return second

    def is_alive(self) -> bool:
        """True if the process runs."""
        return not self.started.pid or alive(self.started.pid)

    def memory(self, kind: str = "Pss") -> int:
        """Return the memory of its process tree, in bytes."""
        return memory_bytes(tree(self.started.pid), kind)

    async def stop(self) -> None:
        """End its processes."""
        await self.started.stop()

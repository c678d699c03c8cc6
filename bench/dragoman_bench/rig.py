"""The rig's own processes: the upstream simulator, load clients, and one gateway for a direction."""

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
from dragoman_bench.load import ask
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
    """The rig itself failed, not what it measures."""


class LoadError(RigError):
    """A load client failed or did not end. Its upstream may be well."""


async def _python(*words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the rig, which ends them in order
        limit=_MOST_OUTPUT,
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


class Rig:
    """An upstream at `url`, for as long as the context of `running` lasts."""

    def __init__(self, url: str, pid: int, core: int | None) -> None:
        self.url = url
        self.pid = pid
        self.core = core
        """The gateway's."""

    @classmethod
    @asynccontextmanager
    async def running(cls, core: int | None) -> AsyncIterator[Rig]:
        """Start the upstream. Raises RigError."""
        upstream = await _python("dragoman_bench.upstream", "--until-eof")
        try:
            assert upstream.stdout is not None
            assert upstream.stderr is not None
            try:
                async with asyncio.timeout(_START_WITHIN):
                    told = json.loads(await upstream.stdout.readline())
            except (TimeoutError, ValueError) as error:
                await _end(upstream)
                said = (await upstream.stderr.read()).decode(errors="replace")
                raise RigError(f"the upstream simulator did not start: {said[-2000:]}") from error
            yield cls(f"http://127.0.0.1:{told['port']}", told["pid"], core)
        finally:
            await _end(upstream)

    async def load(self, plan: Plan) -> dict[str, Any]:
        """Have a load client carry out a plan. Raises LoadError when it cannot."""
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
        """The upstream's counts. Raises RigError when it does not answer."""
        try:
            return await ask(self.url, "/bench/stats")
        except (OSError, TimeoutError, ValueError) as error:
            raise RigError(f"the upstream simulator does not answer: {error!r}") from error

    async def quiet(self) -> int:
        """Wait until no stream is open at the upstream; how many are after all."""
        open_streams = 0
        for _ in range(int(_DRAIN_WITHIN / _STEP)):
            open_streams = int((await self.stats())["open"])
            if not open_streams:
                break
            await asyncio.sleep(_STEP)
        return open_streams


class Subject:
    """A gateway's process in a direction, warm, and what it took to start it."""

    def __init__(self, gateway: Gateway, direction: Direction, started: Started, startup_s: float) -> None:
        self.gateway = gateway
        self.direction = direction
        self.started = started
        self.startup_s = startup_s

    @classmethod
    async def start(cls, rig: Rig, gateway: Gateway, direction: Direction) -> Subject:
        """Raises gateways.StartError."""
        at = time.monotonic()
        started = await gateway.start(rig.url, direction, rig.core)
        return cls(gateway, direction, started, time.monotonic() - at)

    def plan(self, rig: Rig, scenario: Scenario) -> Plan:
        """The scenario's load on this gateway."""
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
        if plan.blast:
            plan.blast = self.started.model(plan.blast)
        return plan

    async def warm_up(self, rig: Rig, seconds: float) -> None:
        """Streams until nothing of the first of them is in the figures: imports, caches, pools."""
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
        """The load client's result, or for `idle` what starting took, and for `storm` what two storms left behind."""
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

    def lives(self) -> bool:
        """Whether it can be measured again."""
        return not self.started.pid or alive(self.started.pid)

    def memory(self, kind: str = "Pss") -> int:
        """Of its process tree, in bytes."""
        return memory_bytes(tree(self.started.pid), kind)

    async def stop(self) -> None:
        """End its processes."""
        await self.started.stop()

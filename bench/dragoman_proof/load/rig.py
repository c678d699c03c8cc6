"""The processes of a scenario: upstream simulators, and a gateway that books each exchange in a file."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dragoman_bench.gateways import Started
from dragoman_bench.gateways.launch import free_port, launch, own_module
from dragoman_bench.load import get_json
from dragoman_bench.plan import Plan
from dragoman_bench.processes import cpu_ns, divided_cores, memory_bytes, pin, tree
from dragoman_bench.rig import Rig
from dragoman_bench.wire import ENDLESS, Script

CLIENT, UPSTREAM = "messages", "chat"
"""The dialects of clients and upstreams: the direction that coding agents use most."""
STEADY = Script(ENDLESS, 25, 32)
"""The stream of a steady client: 40 deltas a second. Its upstream is a process of its own."""
WITHIN = 60.0
"""Seconds in which what must happen in the end has happened, on a busy machine too."""
_UNSENT = str(16 * 1024)
"""Bytes that an upstream's kernel keeps of a stream that is not read. Another machine's would keep more: megabytes, but
of its own memory. Here it is the gateway's, too, and the kernel of a machine without memory for TCP drops data."""
_STEP = 0.05
_PAGE = 4096

_CONFIG = """\
[server]
host = "127.0.0.1"
port = {port}
workers = {workers}
max_connections = 100000
[server.timeouts]
write = {write}
[usage]
kind = "jsonl"
path = "{usage}"
{providers}"""
RESUME = {"x-dragoman-resume": "true"}
"""The header of a stream that goes on without its client: a run."""
RUNS = """
[server.resume]
seconds = 3600
streams = 100000
streams_per_client = 100000
total_bytes = 1_000_000_000
"""
"""The configuration that allows such streams. Several workers share them in a store."""
SQLITE = """
[state]
kind = "sqlite"
path = "{folder}/responses.db"
"""
_PROVIDER = """
[providers.{name}]
dialect = "chat"
base_url = "{url}/v1"
api_key = "sk-bench"
profile = "compatible"

[[routes]]
model = "{model}"
provider = "{name}"
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources of the gateway's processes at one instant. `private` is by process: its own memory, in bytes."""

    cpu_ns: int
    waited_ns: int
    """For how long its threads waited for a core that others used."""
    bytes: int
    files: int
    private: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Stage:
    """A running gateway, its upstreams by name, and the file of its usage."""

    started: Started
    upstreams: dict[str, Rig]
    usage: Path
    workers: int

    def plan(self, script: Script, streams: int = 1) -> Plan:
        """Return the plan of a load client: only its address and its request are used here."""
        upstream = next(iter(self.upstreams.values())).url
        return Plan(self.started.url, CLIENT, "hold", script.model, streams, upstream=upstream)

    def pids(self) -> list[int]:
        """Return the gateway's processes."""
        return tree(self.started.pid)

    def used(self) -> Usage:
        """Return the resources that the gateway uses now."""
        pids = self.pids()
        private = {pid: memory_bytes([pid]) for pid in pids}
        return Usage(cpu_ns(pids), sum(map(_waited_ns, pids)), sum(private.values()), sum(map(_files, pids)), private)

    async def stats(self, name: str = "noise") -> dict[str, Any]:
        """Return the counts of an upstream."""
        return await self.upstreams[name].stats()

    async def quiet(self, name: str = "noise") -> int:
        """Wait until an upstream has no open stream. Returns the number of those that are left."""
        await settled_async(lambda: self._open(name))
        return await self._open(name)

    async def _open(self, name: str) -> int:
        return int((await self.stats(name))["open"])

    def booked(self) -> Counter[str]:
        """Return how many rows of usage each exchange has, by its id."""
        return Counter(row["id"] for row in self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of usage, those of renamed files too."""
        found: list[dict[str, Any]] = []
        for path in sorted(self.usage.parent.glob("usage.jsonl*")):
            if ".begun." not in path.name:
                found += [json.loads(line) for line in path.read_text().splitlines()]
        return found

    async def booked_all(self, count: int) -> Counter[str]:
        """Wait until there are rows of `count` exchanges. Returns the rows per exchange."""
        await settled(lambda: len(self.rows()) < count)
        return self.booked()

    async def metric(self, name: str) -> float:
        """Return the sum of a metric of all labels and workers."""
        text = await get_text(self.started.url, "/metrics")
        lines = [line for line in text.splitlines() if line.startswith((name + " ", name + "{"))]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


@asynccontextmanager
async def stage(
    models: dict[str, str],
    *,
    workers: int = 1,
    write: float = 60.0,
    pinned: bool = True,
    apart: bool = False,
    more: str = "",
) -> AsyncIterator[Stage]:
    """Start an upstream for each name in `models` (name: pattern of its models), and a gateway before them.

    `more` is added to the gateway's configuration; `{folder}` in it is the folder of the scenario's files.
    With `pinned` a gateway of one worker runs on the last core. With `apart` this process and all others run on the
    other cores, and the upstream "noise" only when no other process wants its core. Raises `StartError` and `RigError`.
    """
    core, others = divided_cores() if pinned and workers == 1 else (None, frozenset[int]())
    async with AsyncExitStack() as stack:
        if apart and core is not None:
            stack.enter_context(_pinned(others))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="dragoman-load-")))
        upstreams = dict[str, Rig]()
        for name in models:
            idle = ["--idle"] if apart and name == "noise" else []
            upstreams[name] = await stack.enter_async_context(Rig.running(core, "--unsent", _UNSENT, *idle))
        port = free_port()
        providers = "".join(
            _PROVIDER.format(name=name, url=upstreams[name].url, model=model) for name, model in models.items()
        )
        usage = folder / "usage.jsonl"
        text = _CONFIG.format(port=port, workers=workers, write=write, usage=usage, providers=providers)
        text += more.replace("{folder}", str(folder))
        command, env = own_module("dragoman_server", "serve", "--quiet", "{folder}/config.toml")
        started = await launch(command, port, core, env=env, files={"config.toml": text}, ready="/health")
        stack.push_async_callback(started.stop)
        yield Stage(started, upstreams, usage, workers)


@contextmanager
def _pinned(cores: frozenset[int]) -> Iterator[None]:
    """Run this process, and those that it starts, on these cores."""
    before = os.sched_getaffinity(0)
    pin(cores)
    try:
        yield
    finally:
        pin(frozenset(before))


def noise_and_steady() -> dict[str, str]:
    """Return the models of two upstreams: that of the steady clients, and that of all others."""
    return {"steady": STEADY.model, "noise": "*"}


async def settled(unsettled: Callable[[], object], seconds: float = WITHIN) -> bool:
    """Wait until `unsettled()` is false, at most so many seconds. Returns True if it is."""
    deadline = time.monotonic() + seconds
    while found := unsettled():
        if time.monotonic() > deadline:
            return not found
        await asyncio.sleep(_STEP)
    return True


async def settled_async(unsettled: Callable[[], Any], seconds: float = WITHIN) -> bool:
    """Wait as `settled` does, for a coroutine function."""
    deadline = time.monotonic() + seconds
    while await unsettled():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_STEP)
    return True


def kernel_bytes() -> int:
    """Return the memory of all TCP sockets of this machine's network namespace, as the kernel counts it."""
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        words = line.split()
        if words[0] == "TCP:":
            return int(words[words.index("mem") + 1]) * _PAGE
    return 0


async def get_text(url: str, path: str) -> str:
    """GET a text from the gateway."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n".encode())
        async with asyncio.timeout(WITHIN):
            return (await reader.read()).decode()
    finally:
        writer.close()


async def cancelled_at(rig: Rig) -> dict[int, int]:
    """Return the time at which each cancelled stream of an upstream was cancelled, by the number of the stream."""
    return {int(serial): int(at) for serial, at in (await get_json(rig.url, "/bench/cancelled"))["cancelled"]}


def _files(pid: int) -> int:
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return 0


def _waited_ns(pid: int) -> int:
    with suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    return 0


def excess(rows: Counter[str]) -> Sequence[str]:
    """Return the exchanges that have more than one row."""
    return [name for name, count in rows.items() if count > 1]

"""A process that may use little memory."""

from __future__ import annotations

import asyncio
import re
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import aiohttp

from dragoman_proof.chaos.gateway import GatewayProcess, becomes, gateway, until
from dragoman_proof.chaos.scenario import Missing, holds
from dragoman_proof.chaos.sdk import DIALECTS
from dragoman_proof.chaos.setups import booked, written
from dragoman_proof.chaos.upstream import HELD, upstream

_ROOM = 48 * 2**20
"""Bytes of address space that the process has left."""
_BODY = 64 * 2**20
"""Bytes of a request that does not fit into them."""


def _address_space(found: GatewayProcess) -> int:
    text = Path(f"/proc/{found.pid}/status").read_text()
    match = re.search(r"VmSize:\s+(\d+) kB", text)
    assert match is not None
    return int(match[1]) * 1024


async def no_memory(folder: Path) -> None:
    """A request for which there is no memory gets a 503 of its dialect, open streams go on, and the process lives."""
    limits = "[server.limits]\nrequest_body = 200_000_000\n"
    async with upstream() as up, gateway(written(folder, up.url(), limits)) as found:
        for dialect in DIALECTS:
            holds((await found.ask(dialect))[0] == 200, f"{dialect}: a request is served")
        stream = asyncio.create_task(found.stream(HELD))
        await becomes(lambda: up.streaming == 1, "a stream is open")
        hard = resource.prlimit(found.pid, resource.RLIMIT_AS)[1]
        resource.prlimit(found.pid, resource.RLIMIT_AS, (_address_space(found) + _ROOM, hard))
        before = len(up.requests)
        for dialect in DIALECTS:
            status, body = await found.ask(dialect, text="x" * _BODY)
            wanted = 529 if dialect == "messages" else 503
            holds(status == wanted, f"{dialect}: the request is refused", status, str(body)[:300])
            holds("memory" in body["error"]["message"], f"{dialect}: the error names memory", body)
            holds((await found.ask(dialect))[0] == 200, f"{dialect}: a small request is served")
        holds(len(up.requests) == before + len(DIALECTS), "the long ones were not sent")
        up.go.set()
        holds((await stream).endswith("data: [DONE]\n\n"), "the open stream ends as it would")
        resource.prlimit(found.pid, resource.RLIMIT_AS, (hard, hard))
        holds((await found.ask(text="x" * _BODY))[0] == 200, "with memory it is served")
        holds(found.process.returncode is None, "the process lives")


_GROUPS = Path("/sys/fs/cgroup")
_ALLOWED = 48 * 2**20
"""Bytes that a process of the group may take from then on."""
_STREAMS = 6


@contextmanager
def _group(pid: int) -> Iterator[None]:
    """A control group with a process, which the kernel kills for more than `_ALLOWED` bytes."""
    first = (_GROUPS / "memory/memory.limit_in_bytes").exists()
    group = _GROUPS / ("memory" if first else "") / f"dragoman-chaos-{pid}"
    limit = group / ("memory.limit_in_bytes" if first else "memory.max")
    try:
        group.mkdir()
        with ExitStack() as undo:
            undo.callback(group.rmdir)
            if not limit.exists():
                raise Missing("control groups of memory are not there")
            (group / "cgroup.procs").write_text(str(pid))
            # Version 2 keeps what was charged to the earlier group there, too.
            limit.write_text(str(_ALLOWED))
            yield
    except OSError as error:
        raise Missing(f"a control group cannot be made: {error.strerror}") from None


def _workers(found: GatewayProcess) -> set[int]:
    return set(map(int, Path(f"/proc/{found.pid}/task/{found.pid}/children").read_text().split()))


async def memory_kill(folder: Path) -> None:
    """After the kernel has killed a worker for its memory another one starts, and each request has one row of usage."""
    more = f"""
[server]
workers = 2

[server.limits]
request_body = 200_000_000

[usage]
kind = "sqlite"
path = "{folder}/usage.db"
"""
    async with upstream() as up, gateway(written(folder, up.url(), more)) as found:
        config = folder / "dragoman.toml"
        await found.serves()
        await becomes(lambda: len(_workers(found)) == 2, "there are two workers")
        before = _workers(found)
        victim = min(before)
        streams = [asyncio.create_task(_cut(found)) for _ in range(_STREAMS)]
        await becomes(lambda: up.streaming == _STREAMS, "streams are open")
        sent = 0

        async def killed() -> bool:
            nonlocal sent
            sent += 1
            with suppress(aiohttp.ClientError):
                await found.ask(text="x" * _BODY)
            return victim not in _workers(found)

        with _group(victim):
            await until(killed, "the kernel kills the worker")
            await becomes(lambda: len(_workers(found)) == 2, "another worker is started")
        await found.logs(rf"pid {victim}\) was killed by SIGKILL")
        up.go.set()
        whole = await asyncio.gather(*streams)
        for _ in range(_STREAMS):
            holds((await found.ask())[0] == 200, "a request is served")
        known = len(up.requests)

        async def same() -> bool:
            exchanges, lost = await booked(config)
            # A request may be lost before it is sent, but for those whose stream was open.
            return exchanges - lost <= known <= exchanges <= known + sent and lost >= whole.count(False)

        await until(same, f"rows of {known} requests")


async def _cut(found: GatewayProcess) -> bool:
    """True if a stream ends as it would, False if it is cut."""
    try:
        return (await found.stream(HELD)).endswith("data: [DONE]\n\n")
    except aiohttp.ClientError:
        return False


SCENARIOS = (no_memory, memory_kill)

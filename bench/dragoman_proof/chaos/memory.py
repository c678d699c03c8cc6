"""A process that may use little memory."""

from __future__ import annotations

import asyncio
import re
import resource
from pathlib import Path

from dragoman_proof.chaos.gateway import GatewayProcess, becomes, gateway
from dragoman_proof.chaos.scenario import holds
from dragoman_proof.chaos.sdk import DIALECTS
from dragoman_proof.chaos.setups import written
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


SCENARIOS = (no_memory,)

"""Names of upstreams that move to another address, and a name server that does not answer."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dragoman_proof.chaos.gateway import becomes, gateway, until
from dragoman_proof.chaos.scenario import Missing, holds, program
from dragoman_proof.chaos.sdk import DIALECTS, failure
from dragoman_proof.chaos.setups import written
from dragoman_proof.chaos.upstream import ONCE, upstream

_HUNG = 12
"""Names that are looked up at once without an answer, more than a pool of threads has."""
_SHORT = """
[server.timeouts]
connect = 5

[retries]
attempts = 1
"""
_SILENT = "127.0.0.77"


def _own_names(folder: Path, server: str = _SILENT) -> tuple[Sequence[str], Path]:
    """Return a command that runs another one with a file of hosts and a name server of its own, and that file."""
    if os.geteuid():
        raise Missing("only root may give a process its own names")
    hosts, resolver, order = folder / "hosts", folder / "resolv.conf", folder / "nsswitch.conf"
    hosts.write_text("127.0.0.1 localhost\n")
    resolver.write_text(f"nameserver {server}\noptions timeout:20 attempts:1\n")
    order.write_text("hosts: files dns\n")
    binds = (f"mount --bind {file} /etc/{file.name}" for file in (hosts, resolver, order))
    script = " && ".join((*binds, 'exec "$@"'))
    return (program("unshare", "util-linux"), "-m", "sh", "-c", script, "sh"), hosts


@contextmanager
def _silent_name_server() -> Iterator[None]:
    """A name server that takes questions and answers none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((_SILENT, 53))
        except OSError as error:
            raise Missing(f"a name server cannot be bound: {error.strerror}") from None
        yield


async def name_moves(folder: Path) -> None:
    """New connections follow a name to its new address within dns_seconds, kept ones go on."""
    prefix, hosts = _own_names(folder)
    async with upstream(host="127.0.0.2") as old, upstream(host="127.0.0.3", port=old.port) as new:
        hosts.write_text("127.0.0.2 up.test\n")
        config = written(folder, old.url("up.test"), "[server.connections]\ndns_seconds = 1\n")
        async with gateway(config, prefix=prefix) as found:
            holds((await found.ask())[0] == 200, "the first address is used")
            hosts.write_text("127.0.0.3 up.test\n")

            async def moved() -> bool:
                status, body = await found.ask(model=ONCE)
                holds(status == 200, "every request is served", status, body)
                return bool(new.requests)

            await until(moved, "requests reach the new address")
            before = len(old.requests)
            for _ in range(3):
                holds((await found.ask(model=ONCE))[0] == 200, "a request is served")
            holds(len(old.requests) == before, "no new connection to the old address")


async def name_server_hangs(folder: Path) -> None:
    """While many names get no answer, their requests time out, and other names are looked up at once."""
    prefix, hosts = _own_names(folder)
    others = "".join(
        f'[providers.hung{number}]\ndialect = "chat"\nbase_url = "http://hung{number}.test:9/v1"\n'
        for number in range(_HUNG)
    )
    async with upstream() as up:
        hosts.write_text("127.0.0.1 up.test\n")
        config = written(folder, up.url("up.test"), others + _SHORT)
        with _silent_name_server():
            async with gateway(config, prefix=prefix) as found:
                hung = [
                    asyncio.create_task(failure(found.url, dialect, f"hung{number}/m"))
                    for number in range(_HUNG)
                    for dialect in DIALECTS
                ]
                await becomes(lambda: _open(found.pid, len(hung)), "all requests wait")
                status, body = await found.ask()  # its name was never looked up before
                holds(status == 200, "another name is looked up", status, body)
                holds(not any(task.done() for task in hung), "the others still wait")
                for status, message in await asyncio.gather(*hung):
                    holds(status == 504 and "connect" in message, "a timeout in the client's dialect", status, message)
                found.process.terminate()
                holds(await asyncio.wait_for(found.process.wait(), 15) == 0, "it stops while lookups hang")


def _open(pid: int, connections: int) -> bool:
    """True if the process has so many sockets."""
    links = [Path(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
    return sum(1 for link in links if link.is_symlink() and os.readlink(link).startswith("socket:")) > connections


SCENARIOS = (name_moves, name_server_hangs)

"""A process that has no free file descriptor."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import aiohttp

from dragoman_proof.chaos.gateway import PATHS, GatewayProcess, becomes, gateway, until
from dragoman_proof.chaos.scenario import holds
from dragoman_proof.chaos.sdk import DIALECTS, failure
from dragoman_proof.chaos.setups import written
from dragoman_proof.chaos.upstream import HELD, ONCE, upstream

_FREE = 12
"""Descriptors that are free when the scenario begins."""


async def _warm(found: GatewayProcess) -> None:
    """Let the gateway load what requests need: modules are files, too."""
    for dialect in DIALECTS:
        holds((await found.ask(dialect, ONCE))[0] == 200, "a request is served")
    await found.ready()


_SECONDS = 1.0
"""Time for which the CPU of a process without descriptors is counted."""


async def _closed(sock: socket.socket) -> bool:
    """True if the gateway has closed a connection on which nothing was sent."""
    try:
        return not sock.recv(1)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


async def no_descriptors(folder: Path) -> None:
    """Without descriptors new connections are closed at once, open streams go on, and all recovers."""
    async with upstream() as up, gateway(written(folder, up.url(), "[server]\nmax_connections = 1000\n")) as found:
        await _warm(found)
        address = ("127.0.0.1", int(found.url.rpartition(":")[2]))
        streams = [asyncio.create_task(found.stream(HELD)) for _ in range(3)]
        await becomes(lambda: up.streaming == 3, "three streams are open")
        kept = aiohttp.ClientSession()  # its connection is open before the descriptors are used up
        async with kept, kept.get(f"{found.url}/health") as reply:
            await reply.read()
            found.leave_descriptors(_FREE)
            with ExitStack() as opened:
                socks = [opened.enter_context(socket.create_connection(address)) for _ in range(3 * _FREE)]
                for sock in socks:
                    sock.setblocking(False)
                await until(lambda: _closed(socks[-1]), "a connection without a descriptor is closed")
                await found.logs("no free file descriptor.*raise `ulimit -n`, or LimitNOFILE of its service")
                async with kept.get(f"{found.url}/ready") as reply:
                    text = await reply.text()
                    holds("no_descriptors" in text, "/ready has the reason", text)
                body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
                async with kept.post(found.url + PATHS["chat"], json=body) as reply:
                    text = await reply.text()
                    holds(reply.status == 503, "a request that needs a connection is a 503", reply.status, text)
                    holds("no free file descriptor" in text, "the error names the cause", text)
                before = found.cpu()
                await asyncio.sleep(_SECONDS)
                spent = found.cpu() - before
                holds(spent < _SECONDS / 2, "no busy loop", f"{spent:.2f} s of CPU in {_SECONDS:g} s")
                holds(not any(stream.done() for stream in streams), "open streams stay open")
        up.go.set()
        for text in await asyncio.gather(*streams):
            holds(text.endswith("data: [DONE]\n\n"), "open streams end as they would", text[-60:])
        await found.serves()
        await found.warns("no_descriptors", ends=True)
        await found.logs("free file descriptors again")
        body_ = await found.ready()
        holds(not body_["warnings"], "no provider is blamed", body_)


async def no_descriptors_upstream(folder: Path) -> None:
    """Without a descriptor for the upstream, each SDK reads a 503 (529 in Messages) that names the cure."""
    async with upstream() as up, gateway(written(folder, up.url())) as found:
        await _warm(found)
        before, files = len(up.requests), 0

        async def rests() -> bool:
            nonlocal files
            earlier, files = files, found.files()
            return files == earlier

        await until(rests, "all connections are closed")
        hard = resource.prlimit(found.pid, resource.RLIMIT_NOFILE)[1]
        for dialect in DIALECTS:
            await becomes(lambda: found.files() <= files, "all connections are closed")
            found.leave_descriptors(1)  # for the client's connection
            status, message = await failure(found.url, dialect)
            holds(status == (529 if dialect == "messages" else 503), f"{dialect}: the gateway's error", status, message)
            holds("raise `ulimit -n`" in message, f"{dialect}: the error names the cure", message)
        holds(len(up.requests) == before, "nothing was sent")
        resource.prlimit(found.pid, resource.RLIMIT_NOFILE, (hard, hard))
        for dialect in DIALECTS:
            holds((await failure(found.url, dialect))[0] == 200, f"{dialect}: served again")


SCENARIOS = (no_descriptors, no_descriptors_upstream)

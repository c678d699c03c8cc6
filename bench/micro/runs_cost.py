"""Count what a chunk of a run costs: of a response in the background, and of a stream that can be resumed.

python bench/micro/runs_cost.py [--redis redis://127.0.0.1:6379/0] [--cpu]

Each figure is that of one gateway: instructions of all its threads under callgrind (`dragoman bench instructions`), or
with `--cpu` its CPU time for 40 streams at a time of 50 chunks a second. The client of each run reads it as it grows.
`plain` is the same stream without a run; the others are in multiples of it. The upstream is Chat Completions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import aiohttp
from aiohttp import web

from dragoman_bench.gateways.dragoman import config
from dragoman_bench.gateways.launch import free_port
from dragoman_bench.instructions.callgrind import CountedProcess
from dragoman_bench.instructions.lockstep import Lockstep
from dragoman_bench.replies import Reply, reply
from dragoman_bench.wire import PATHS, request

_UPSTREAM, _MODEL, _TEXT = "chat", "chat-model", 32
_WARM, _TIMES, _BLOCKS, _CHUNKS = 8, 4, 5, 240
_STREAMS, _PACE, _SHARE = 40, 0.02, 250
"""Streams at a time, seconds between two chunks of one, and the chunks of each that are measured."""
_ENDED = ("background_events = 0.001\n", "kept = 0.001\n")
"""Runs are forgotten when they have ended: those before must not be dropped while others are counted."""


class Case(NamedTuple):
    """A request of a client, and how a run is made of it: by fields of its body, or by headers."""

    client: str
    fields: Mapping[str, object] = MappingProxyType({})
    headers: Mapping[str, str] = MappingProxyType({})

    @property
    def body(self) -> bytes:
        """The body of the request."""
        return json.dumps({**json.loads(request(self.client, _MODEL)), **self.fields}).encode()


PLAIN = {client: Case(client) for client in ("responses", "chat")}
RUNS = {
    "background": Case("responses", {"background": True, "store": True}),
    "resumable, responses": Case("responses", headers={"x-dragoman-resume": "true"}),
    "resumable, chat": Case("chat", headers={"x-dragoman-resume": "true"}),
}


def gateway_config(port: int, url: str, state: str) -> str:
    """Return the configuration of a gateway with runs, with these lines of `[state]`."""
    text = config(port, _UPSTREAM, url)
    return f"{text}\n[server.resume]\nseconds = 60\n{_ENDED[1]}\n[state]\nbackground = 1000\n{_ENDED[0]}{state}"


def instructions(case: Case, state: str) -> int:
    """Return the instructions of a chunk."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = free_port()
        files = {"config.toml": gateway_config(port, f"http://127.0.0.1:{listener.getsockname()[1]}", state)}
        process = CountedProcess(
            sys.executable, "dragoman_server", ("serve", "--quiet", "{folder}/config.toml"), port, files=files
        )
        try:
            lockstep = Lockstep(port, listener, process.settle, case.headers)
            try:
                return _count(process, lockstep, case, reply(_UPSTREAM, _TEXT))
            finally:
                lockstep.close()
        finally:
            process.stop()


def _count(process: CountedProcess, lockstep: Lockstep, case: Case, sent: Reply) -> int:
    body = case.body

    def least(times: int, work: Callable[[], None]) -> int:
        def repeat() -> None:
            for _ in range(times):
                work()

        return min(process.count(repeat) for _ in range(_BLOCKS)) // times

    def stream(chunks: int) -> Callable[[], None]:
        return lambda: lockstep.stream(case.client, body, sent, chunks)

    for _ in range(_WARM):
        stream(1)()
    stream(40)()
    start = least(_TIMES, stream(1))
    return (least(1, stream(1 + _CHUNKS)) - start) // _CHUNKS


async def cpu(case: Case, state: str) -> float:
    """Return the microseconds of CPU time of a chunk."""
    sent = reply(_UPSTREAM, _TEXT)

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(sent.opening)
        for number in range(1_000_000):
            await response.write(sent.delta(1, number, 0, last=False))
            await asyncio.sleep(_PACE)
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server = site._server
    assert isinstance(server, asyncio.Server)
    url, port = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", free_port()
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/config.toml"
        await asyncio.to_thread(Path(file).write_text, gateway_config(port, url, state))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dragoman_server", "serve", "--quiet", file), stderr=asyncio.subprocess.DEVNULL
        )
        try:
            return await _cpu_of(process.pid, port, case)
        finally:
            process.kill()
            await process.wait()
            await runner.cleanup()


async def _cpu_of(pid: int, port: int, case: Case) -> float:
    seen = 0
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        url, headers = f"http://127.0.0.1:{port}", {**case.headers, "content-type": "application/json"}
        for _ in range(200):
            try:
                async with session.get(f"{url}/health"):
                    break
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)

        async def read() -> None:
            nonlocal seen
            async with session.post(url + PATHS[case.client], data=case.body, headers=headers) as response:
                assert response.status == 200, await response.text()
                async for data in response.content.iter_any():
                    seen += data.count(b"[0001")

        reading = [asyncio.create_task(read()) for _ in range(_STREAMS)]
        await asyncio.sleep(3)
        before, begun = seen, _cpu_seconds(pid)
        await asyncio.sleep(_SHARE * _PACE)
        spent = (_cpu_seconds(pid) - begun) / (seen - before) * 1e6
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    return spent


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, in user space and in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure each case, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--redis", help="URL of a Redis, which gets keys with the prefix `bench`")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time in place of instructions")
    options = parser.parse_args()

    def measure(case: Case, state: str) -> float:
        return asyncio.run(cpu(case, state)) if options.cpu else instructions(case, state)

    unit = "µs" if options.cpu else "instructions"
    with tempfile.TemporaryDirectory() as folder:
        states = {"memory": "", "sqlite": f'kind = "sqlite"\npath = "{folder}/responses.db"\n'}
        if options.redis:
            states["redis"] = f'kind = "redis"\nurl = "{options.redis}"\nprefix = "bench"\n'
        plain = {client: measure(case, states["memory"]) for client, case in PLAIN.items()}
        for client, found in plain.items():
            print(f"plain, {client:30}{found:>10,.0f} {unit}", flush=True)
        for name, case in RUNS.items():
            for kind, state in states.items():
                found = measure(case, state)
                print(f"{name + ', ' + kind:37}{found:>10,.0f}{found / plain[case.client]:>8.2f} ×", flush=True)


if __name__ == "__main__":
    main()

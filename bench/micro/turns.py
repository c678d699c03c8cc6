"""Measure how long one turn of the gateway's event loop takes when a client or an upstream sends much at once.

python bench/micro/turns.py [--rounds 3] [--only reply] [--directions messages-chat chat-chat] [--transport aiohttp]

The gateway runs in this process, its clients and its upstream in others. A turn is one pass of the event loop: its
poll, and all callbacks that are ready. Its time is the CPU time of the thread, so that it does not depend on what else
the machine does. While it lasts, every other stream waits. `longest` is the longest turn of a case, the least of the
rounds, in milliseconds; `long` is the number of turns of more than 5 ms in that round.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

import uvloop

from dragoman_bench.agent_request import agent_request
from dragoman_bench.gateways.dragoman import config
from dragoman_bench.plan import Plan
from dragoman_bench.wire import ENDLESS, Script, request
from dragoman_server.config.load import load_config
from dragoman_server.workers.serve import running

DIRECTIONS = ("messages-chat", "responses-messages", "chat-responses", "chat-chat")
LONG = 0.005
"""Seconds of a turn that is counted as long."""
_MB = 1_000_000
_SHORT = Script(2, 0, 32, joined=True)
_BLAST_SECONDS = 2.0
_FORK_SECONDS = 0.2
"""Time for a client's process to begin, before the turns are timed."""


@dataclass(frozen=True, slots=True)
class Case:
    """A request and its reply. `seconds` ends an endless stream."""

    name: str
    script: Script
    history: int = 0
    """Bytes of messages in the request, as an agent sends them."""
    pictures: int = 0
    """Number of pictures of a megabyte in the request."""
    seconds: float = 0.0

    def body(self, dialect: str) -> bytes:
        """Return the client's request."""
        model = self.script.model
        if self.history:
            unit = len(agent_request(dialect, model, 402)) / 402
            return agent_request(dialect, model, int(self.history / unit))
        body = request(dialect, model, stream=not self.script.whole)
        if self.pictures:
            data = json.loads(body)
            message = {"role": "user", "content": [_picture(dialect)] * self.pictures}
            data["input" if dialect == "responses" else "messages"] = [message]
            body = json.dumps(data, separators=(",", ":")).encode()
        return body


def _picture(dialect: str) -> dict[str, object]:
    content = "iVBORw0K" * (_MB // 8)
    url = f"data:image/png;base64,{content}"
    if dialect == "messages":
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": content}}
    return (
        {"type": "input_image", "image_url": url}
        if dialect == "responses"
        else {"type": "image_url", "image_url": {"url": url}}
    )


CASES = (
    Case("history of 280 kB", _SHORT, history=280_000),
    Case("history of 1 MB", _SHORT, history=_MB),
    Case("history of 8 MB", _SHORT, history=8 * _MB),
    Case("pictures of 8 MB", _SHORT, pictures=8),
    Case("whole reply of 4 MB", Script(1, size=4 * _MB, whole=True)),
    Case("event of 2 MB", Script(2, 0, 2 * _MB)),
    Case("stream without a pause", Script(ENDLESS, 0, 32, 16), seconds=_BLAST_SECONDS),
    Case("comments without a pause", Script(ENDLESS, 0, 32, 16, comments=True), seconds=_BLAST_SECONDS),
)


@contextmanager
def upstream() -> Iterator[str]:
    """Run the upstream simulator, and yield its URL."""
    command = [sys.executable, "-m", "dragoman_bench.upstream"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        finally:
            process.kill()


def ask(address: tuple[str, int], data: bytes, seconds: float, begin: Event) -> None:
    """Send a request and read its reply to the end, or for some seconds. Raises AssertionError for a wrong reply."""
    begin.wait()
    with socket.create_connection(address) as connection:
        connection.sendall(data)
        deadline = time.monotonic() + seconds
        received, end = bytearray(), b""
        while piece := connection.recv(1 << 20):
            if seconds:
                if time.monotonic() > deadline:
                    return
                continue
            received += piece
            end = (end + piece)[-64:]
            if _is_complete(received, end):
                break
        assert received.startswith(b"HTTP/1.1 200"), bytes(received[:300])
        assert b'"error":{' not in received[:5000]


def _is_complete(received: bytearray, end: bytes) -> bool:
    if end.endswith(b"\r\n0\r\n\r\n"):
        return True
    head, separator, _ = received[:4096].partition(b"\r\n\r\n")
    at = head.lower().find(b"content-length:")
    if not separator or at < 0:
        return False
    return len(received) >= len(head) + 4 + int(head[at + 15 :].split(b"\r\n")[0])


def _timed_turns() -> Callable[[], list[float]]:
    """Time the turns of the running loop. Returns a function that stops it and returns the times."""
    loop, times = asyncio.get_running_loop(), list[float]()
    last = time.thread_time()

    def turn() -> None:
        nonlocal last
        now = time.thread_time()
        times.append(now - last)
        last = now
        handles[:] = [loop.call_soon(turn)]

    def stop() -> list[float]:
        handles[0].cancel()
        return times

    handles = [loop.call_soon(turn)]
    return stop


async def measure(case: Case, direction: str, transport: str, url: str) -> list[float]:
    """Return the times of the turns of a case, after a round that is not timed."""
    client, dialect = direction.split("-")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        path.write_text(config(0, dialect, url, transport))
        settings = load_config(path)
    async with running(settings) as server:
        plan = Plan(server.url, client, "closed", case.script.model, 1, stream=not case.script.whole)
        data = plan.request()
        head, _, small = data.partition(b"\r\n\r\n")
        body = case.body(client)
        data = head.replace(b"content-length: %d" % len(small), b"content-length: %d" % len(body)) + b"\r\n\r\n" + body
        gc.freeze()  # as `dragoman serve` does
        times: list[float] = []
        for _ in range(2):  # the first request is not counted
            gc.collect()
            begin = multiprocessing.Event()
            process = multiprocessing.Process(target=ask, args=(plan.address, data, case.seconds, begin), daemon=True)
            process.start()
            await asyncio.sleep(_FORK_SECONDS)
            stop = _timed_turns()
            begin.set()
            await asyncio.get_running_loop().run_in_executor(None, process.join)
            times = stop()
            assert process.exitcode == 0, f"{case.name} {direction}: see above"
    return times


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of a case's name")
    parser.add_argument("--directions", nargs="+", default=DIRECTIONS, metavar="CLIENT-UPSTREAM")
    parser.add_argument("--transport", choices=("raw", "aiohttp"), default="raw")
    options = parser.parse_args(arguments)
    print(f"transport {options.transport}\n")
    print(f"{'case':26} {'direction':20} {'longest ms':>10} {'long':>5}")
    with upstream() as url:
        for case in CASES:
            if options.only not in case.name:
                continue
            for direction in options.directions:
                runs = (measure(case, direction, options.transport, url) for _ in range(options.rounds))
                best = min(map(uvloop.run, runs), key=max)
                long = sum(seconds > LONG for seconds in best)
                print(f"{case.name:26} {direction:20} {max(best) * 1e3:10.1f} {long:5}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Count the user-space instructions of a gateway process: per chunk, stream start, whole reply and agent request.

python bench/micro/instructions.py [--python PATH] [--against PATH] [--directions messages-chat …]

The gateway runs under valgrind's callgrind. Client and upstream are this process, in lockstep on blocking sockets: a
chunk is sent after the previous one has arrived. Counts therefore do not depend on the machine's load. They are
reproducible within about 1 %, that of a chunk within 4 %. `--python` is the interpreter of the tree to measure,
`--against` of another tree whose counts it is divided by. A direction is CLIENT-UPSTREAM. Needs valgrind (Debian's
package of that name).
"""

from __future__ import annotations

import argparse
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman_bench.agent_request import agent_request
from dragoman_bench.replies import Reply, reply
from dragoman_bench.wire import DIALECTS, MARK, PATHS, request

ROWS = ("chunk", "start", "whole", "agent")
_CROSS = [f"{client}-{upstream}" for client in DIALECTS for upstream in DIALECTS if client != upstream]
_TEXT = 32
"""Bytes of text in a chunk."""
_STARTS, _CHUNKS, _WHOLE, _AGENT = 16, 200, 16, 4
_SECONDS = 240.0
"""Maximum seconds of a single wait: callgrind is about 50 times slower than the machine."""
_RUN = "import gc, runpy; gc.disable(); runpy.run_module('dragoman_server', run_name='__main__', alter_sys=True)"
"""Environment without garbage collection: it runs at random times, and one run costs as much as a stream start."""
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Wire:
    """Both sides of the gateway: one client connection, and the upstream's listener with its connections."""

    def __init__(self, port: int, listener: socket.socket) -> None:
        self._listener = listener
        self._upstreams: list[socket.socket] = []
        self._client = socket.create_connection(("127.0.0.1", port), timeout=_SECONDS)
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def stream(self, client: str, body: bytes, sent: Reply, chunks: int) -> None:
        """Request a stream, and send `chunks` deltas through the gateway, one after the other."""
        upstream = self._ask(client, body)
        texts = []
        received = b""
        for number in range(chunks):
            last = number == chunks - 1
            delta = sent.delta(1, number, 0, last=last)
            if sent.needs_texts:
                texts.append(sent.text(1, number, 0, last=last))
            upstream.sendall(delta if number else sent.opening + delta)
            received = self._until(lambda data: bool(MARK.search(data)), b"")
        upstream.sendall(sent.closing(texts))
        if not received.endswith(b"0\r\n\r\n"):
            self._until(lambda data: data.endswith(b"0\r\n\r\n"), received)

    def whole(self, client: str, body: bytes, sent: Reply) -> None:
        """Request a whole reply."""
        self._ask(client, body).sendall(sent.whole)
        self._until(_is_whole, b"")

    def _ask(self, client: str, body: bytes) -> socket.socket:
        head = f"POST {PATHS[client]} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        self._client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        while True:
            ready = select.select([self._listener, *self._upstreams, self._client], [], [], _SECONDS)[0]
            if not ready:
                raise TimeoutError("the gateway sent no request upstream")
            for sock in ready:
                if sock is self._listener:
                    connection = sock.accept()[0]
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    connection.settimeout(_SECONDS)
                    self._upstreams.append(connection)
                elif sock is self._client:
                    raise RuntimeError(f"the gateway answered by itself: {sock.recv(2000)!r}")
                elif (method := _read_request(sock)) == b"POST":
                    return sock
                elif method:  # the gateway requests the list of models at its start
                    sock.sendall(_NOT_FOUND)
                else:
                    self._upstreams.remove(sock)

    def _until(self, enough: Callable[[bytes], bool], received: bytes) -> bytes:
        while not enough(received):
            data = self._client.recv(1 << 18)
            if not data:
                raise ConnectionError(f"the gateway closed after {received[-300:]!r}")
            received += data
        return received


def _is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(end and length) and len(body) == int(length[1]) if length else False


def _read_request(sock: socket.socket) -> bytes:
    """Read a request. Returns its method, or an empty value if the connection was closed."""
    data = b""
    while not (_is_whole(data) or (data.startswith(b"GET ") and data.endswith(b"\r\n\r\n"))):
        piece = sock.recv(1 << 18)
        if not piece:
            return b""
        data += piece
    return data.partition(b" ")[0]


class Gateway:
    """A gateway process under callgrind, with one provider per dialect, all of them this process."""

    def __init__(self, python: str, folder: Path) -> None:
        self._folder = folder
        self._dumps = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        upstream = self.listener.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        lines = ["[server]", 'host = "127.0.0.1"', f"port = {self.port}"]
        for dialect in DIALECTS:
            base = f"http://127.0.0.1:{upstream}" + ("" if dialect == "messages" else "/v1")
            lines += [f"[providers.{dialect}]", f'dialect = "{dialect}"', f'base_url = "{base}"', 'api_key = "sk-x"']
            lines += ['profile = "compatible"', "[[routes]]", f'model = "{dialect}-*"', f'provider = "{dialect}"']
        (folder / "config.toml").write_text("\n".join(lines))
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", python]
        command += ["-c", _RUN, "serve", "--quiet", str(folder / "config.toml")]
        env = {**os.environ, "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(command, env=env, stderr=(folder / "log").open("wb"), cwd=folder)
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.2)
            else:
                return
        raise RuntimeError(f"the gateway does not listen: {(self._folder / 'log').read_text()[-1000:]}")

    def count(self, work: Callable[[], None]) -> int:
        """Return the number of instructions that the gateway executes during `work`."""
        self._control("--zero")
        work()
        self._control("--dump")
        self._dumps += 1
        dump = self._folder / f"out.{self._dumps}"
        found = re.search(rb"^(?:summary|totals): (\d+)", dump.read_bytes(), re.MULTILINE)
        assert found is not None, f"{dump} has no total"
        return int(found[1])

    def _control(self, option: str) -> None:
        command = ["callgrind_control", option, str(self._process.pid)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_SECONDS)

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self.listener.close()


def measure(python: str, directions: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the counts by direction and row."""
    counts = {}
    with tempfile.TemporaryDirectory() as name:
        gateway = Gateway(python, Path(name))
        try:
            wire = Wire(gateway.port, gateway.listener)
            for direction in directions:
                counts[direction] = _measure(gateway, wire, direction)
        finally:
            gateway.stop()
    return counts


def _measure(gateway: Gateway, wire: Wire, direction: str) -> dict[str, int]:
    client, upstream = direction.split("-")
    model, sent = f"{upstream}-model", reply(upstream, _TEXT)
    streamed, whole = request(client, model), request(client, model, stream=False)
    agent = agent_request(client, model)

    def start() -> None:
        wire.stream(client, streamed, sent, 1)

    _repeat(4, start)
    wire.stream(client, streamed, sent, 40)
    starts = gateway.count(lambda: _repeat(_STARTS, start)) // _STARTS
    stream = gateway.count(lambda: wire.stream(client, streamed, sent, 1 + _CHUNKS))
    wire.whole(client, whole, sent)
    replies = gateway.count(lambda: _repeat(_WHOLE, lambda: wire.whole(client, whole, sent))) // _WHOLE
    wire.stream(client, agent, sent, 1)
    agents = gateway.count(lambda: _repeat(_AGENT, lambda: wire.stream(client, agent, sent, 1))) // _AGENT
    return {"chunk": (stream - starts) // _CHUNKS, "start": starts, "whole": replies, "agent": agents}


def _repeat(times: int, work: Callable[[], None]) -> None:
    for _ in range(times):
        work()


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="Instructions of a gateway process, in thousands.")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--against")
    parser.add_argument("--directions", nargs="*", default=_CROSS)
    args = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is missing: apt-get install valgrind", file=sys.stderr)
        return 2
    counts = measure(args.python, args.directions)
    base = measure(args.against, args.directions) if args.against else None
    print("| client-upstream |" + "".join(f" {row} |" for row in ROWS))
    print("| --- |" + " ---: |" * len(ROWS))
    for direction, row in counts.items():
        cells = (
            f" {row[name] / 1000:,.1f}k" + (f" ({row[name] / base[direction][name]:.3f} ×)" if base else "") + " |"
            for name in ROWS
        )
        print(f"| {direction} |" + "".join(cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

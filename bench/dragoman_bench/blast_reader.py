"""A process that reads streams as fast as they are sent: `python -m dragoman_bench.blast_reader HOST PORT [idle]`.

The first line of stdin has the length of the request, which follows it. The process prints a line when it is connected.
It sends the request, and again after each reply, until stdin ends; then it prints the number of bytes that it has
received. A load client starts it by `BlastReader`: in its own process it would delay the streams that are measured.
"""

from __future__ import annotations

import asyncio
import select
import socket
import sys
from typing import TYPE_CHECKING

from dragoman_bench.processes import run_when_idle

if TYPE_CHECKING:
    from dragoman_bench.receiver import Tally

_BUFFER = 256 * 1024
_BODY_END = b"\r\n0\r\n\r\n"
_WITHIN = 10.0
"""Seconds in which the process must be connected, and in which it must end."""


class BlastReader:
    """The process, seen from the load client. Comments need not arrive: a gateway may drop them."""

    def __init__(self, process: asyncio.subprocess.Process, *, comments: bool) -> None:
        self._process = process
        self._comments = comments

    @classmethod
    async def start(
        cls, address: tuple[str, int], request: bytes, *, idle: bool = False, comments: bool = False
    ) -> BlastReader:
        """Start the process, which sends the request to the gateway at `address`. Raises TimeoutError.

        With `idle` it reads only while no other process wants its core.
        """
        host, port = address
        pipe = asyncio.subprocess.PIPE
        words = ("-m", "dragoman_bench.blast_reader", host, str(port), *(("idle",) if idle else ()))
        process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"%d\n%b" % (len(request), request))
        try:
            async with asyncio.timeout(_WITHIN):
                await process.stdout.readline()
        except TimeoutError:
            process.kill()
            raise
        return cls(process, comments=comments)

    async def end(self, tally: Tally) -> None:
        """Disconnect. Too little data is an error."""
        try:
            async with asyncio.timeout(_WITHIN):
                out, _ = await self._process.communicate(b"")
            received = int(out)
        except (TimeoutError, ValueError) as error:
            self._process.kill()
            tally.error("neighbour", f"the reader of a fast stream failed: {error!r}")
            return
        if received < _BUFFER and not (self._comments and received):
            tally.error("neighbour", f"{received} bytes of a stream that is sent as fast as it is read")


def read(sock: socket.socket, request: bytes, stop: int) -> int:
    """Send the request, and again after each reply, until the file descriptor `stop` ends. Returns the bytes read."""
    buffer, tail, received = bytearray(_BUFFER), b"", 0
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.register(stop, select.POLLIN | select.POLLHUP)
    sock.sendall(request)
    while not any(descriptor == stop for descriptor, _ in poll.poll()):
        count = sock.recv_into(buffer)
        if not count:
            return received
        received += count
        tail = (tail + buffer[max(0, count - len(_BODY_END)) : count])[-len(_BODY_END) :]
        if tail == _BODY_END:
            sock.sendall(request)
    return received


def main() -> None:
    """Read streams until stdin ends."""
    request = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as sock:
        print("connected", flush=True)
        if sys.argv[3:] == ["idle"]:
            run_when_idle()
        print(read(sock, request, sys.stdin.fileno()), flush=True)


if __name__ == "__main__":
    main()

"""Words between a supervisor and one of its workers: JSON over a socket pair, questions and answers among them.

A frame is its length in four bytes and its content. Either side may tell and ask at any time; answers come in any
order. The first frame a worker gets is no JSON: `send_first` and `receive_first`, before it has an event loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from dragoman.canonical.request import Json
from dragoman.wire.json_codec import dumps, loads

FRAME_MAX = 16 << 20
"""Longest frame, in bytes: thousands of series, or the largest receipt many times over."""
PENDING_MAX = 64
"""Most questions under way in each direction; further ones are unanswered at once."""
_LENGTH_SIZE = 4


class Unanswered(Exception):
    """The other side did not answer: it is busy, leaving or gone."""


class IpcChannel:
    """One end. `hear(what, message)` gets what is told, `answer(what, message)` makes the answer to a question."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_message: Callable[[str, Json], None],
        answer: Callable[[str, Json], Awaitable[Any]],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_message = on_message
        self._answer = answer
        self._ids = count()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls, sock: socket.socket, on_message: Callable[[str, Json], None], answer: Callable[[str, Json], Awaitable[Any]]
    ) -> IpcChannel:
        """A channel over one end of a socket pair, which it owns from now on."""
        return cls(*await asyncio.open_unix_connection(sock=sock), on_message, answer)

    def send_first(self, content: bytes) -> None:
        """Send what the other side takes with `receive_first`."""
        self._writer.write(_frame(content))

    def send(self, kind: str, **more: Any) -> None:
        """Say something that needs no answer. Nothing happens if the other side is gone."""
        if not self._writer.is_closing():
            self._writer.write(_frame(dumps({"what": kind, **more})))

    async def ask(self, kind: str, seconds: float, **more: Any) -> Any:
        """The other side's answer. Raises Unanswered if there is none within `seconds`."""
        if self._writer.is_closing() or len(self._pending) >= PENDING_MAX:
            raise Unanswered
        number = next(self._ids)
        future = self._pending[number] = asyncio.get_running_loop().create_future()
        self.send(kind, ask=number, **more)
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise Unanswered from None
        finally:
            del self._pending[number]

    async def run(self) -> None:
        """Read until the other side is gone."""
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(_LENGTH_SIZE))
                if size > FRAME_MAX:
                    break
                self._dispatch(loads(await self._reader.readexactly(size)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writer.close()
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(Unanswered())

    def _dispatch(self, message: Json) -> None:
        if (number := message.get("answered")) is not None:
            future = self._pending.get(number)
            if future is not None and not future.done():
                if message["known"]:
                    future.set_result(message["answer"])
                else:
                    future.set_exception(Unanswered())
        elif (number := message.get("ask")) is not None:
            if len(self._answering) >= PENDING_MAX:
                self.send("", answered=number, known=False)
                return
            task = asyncio.get_running_loop().create_task(self._reply(number, message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        else:
            self._on_message(message["what"], message)

    async def _reply(self, number: int, message: Json) -> None:
        try:
            answer = await self._answer(message["what"], message)
        except Unanswered:
            self.send("", answered=number, known=False)
        else:
            self.send("", answered=number, known=True, answer=answer)

    async def close(self) -> None:
        """Let what was said leave, then close."""
        for task in self._answering:
            task.cancel()
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


def _frame(content: bytes) -> bytes:
    return len(content).to_bytes(_LENGTH_SIZE) + content


def receive_first(sock: socket.socket) -> bytes:
    """The first frame, waited for. Raises EOFError if the other side is gone before it came."""
    return _receive_exactly(sock, int.from_bytes(_receive_exactly(sock, _LENGTH_SIZE)))


def _receive_exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise EOFError("the supervisor is gone")
        data += piece
    return bytes(data)

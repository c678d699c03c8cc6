"""Message channel between the supervisor and one worker: JSON frames over a socket pair.

A frame is a length in four bytes, then the content. Either side may send messages and questions at any time; answers
arrive in any order. The first frame to a worker is not JSON: it is sent with `send_first` and read with
`receive_first`, before the worker has an event loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from dragoman.wire import Json, json_dumps, json_loads

FRAME_MAX = 16 << 20
"""Maximum size of a frame in bytes: enough for thousands of metric series, or for any receipt."""
PENDING_MAX = 64
"""Maximum number of pending questions per direction; further ones fail at once."""
_LENGTH_SIZE = 4


class Unanswered(Exception):
    """The peer did not answer in time, has too many pending questions, or has closed the channel."""


class IpcChannel:
    """One end of the channel.

    `on_message(kind, message)` is called for each message; `answer(kind, message)` returns the answer to a question, or
    raises Unanswered.
    """

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
        """Return a channel over one end of a socket pair, which the channel owns from now on."""
        return cls(*await asyncio.open_unix_connection(sock=sock), on_message, answer)

    def send_first(self, content: bytes) -> None:
        """Send the frame that the other side reads with `receive_first`."""
        self._writer.write(_frame(content))

    def send(self, kind: str, **more: Any) -> None:
        """Send a message that needs no answer. Does nothing if the channel is closed."""
        if not self._writer.is_closing():
            self._writer.write(_frame(json_dumps({"what": kind, **more})))

    async def ask(self, kind: str, seconds: float, **more: Any) -> Any:
        """Send a question and return the answer. Raises Unanswered if none arrives within `seconds`."""
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
        """Read and dispatch frames until the other side closes the channel."""
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(_LENGTH_SIZE))
                if size > FRAME_MAX:
                    break
                self._dispatch(json_loads(await self._reader.readexactly(size)))
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
        """Flush what was sent, then close."""
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
    """Block until the first frame has arrived, and return it.

    Raises EOFError if the supervisor has closed the socket.
    """
    return _receive_exactly(sock, int.from_bytes(_receive_exactly(sock, _LENGTH_SIZE)))


def _receive_exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise EOFError("the supervisor closed the socket")
        data += piece
    return bytes(data)

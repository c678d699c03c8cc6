"""The simulated upstream's responses that run in the background: they go on without their client.

They are read, followed from any event on and cancelled as OpenAI documents it. Only one that was created with `stream`
has events to follow.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence

import orjson

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json

_KEPT = 1024
"""Most responses that are known; the oldest is forgotten first."""

_RUNNING = ("queued", "in_progress")


class BackgroundResponse:
    """One response, whose frames appear one after the other, `pace` seconds apart.

    Args:
        frames: All its frames. Each that ends a state has the whole response.
        streamed: True if it was created with `stream`.
        sent: Called with each frame as it appears.
        pause: The number of the frame before which it pauses, and the seconds; it pauses before none at -1.
        stall: Seconds after its last frame for which it stays open.
    """

    def __init__(
        self,
        frames: Sequence[bytes],
        *,
        streamed: bool,
        pace: float = 0.0,
        sent: Callable[[bytes], None] | None = None,
        pause: tuple[int, float] = (-1, 0.0),
        stall: float = 0.0,
    ) -> None:
        self.streamed = streamed
        self.state: Json = _response_in(frames[0]) or {}
        self.ended = False
        self._frames = frames
        self._pace = pace
        self._sent = sent
        self._pause = pause
        self._stall = stall
        self._shown = 0
        """The number of frames that have appeared."""
        self._changed = asyncio.Event()
        self._show()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        at, seconds = self._pause
        for number in range(1, len(self._frames)):
            await asyncio.sleep(self._pace + (seconds if number == at else 0.0))
            self._show()
        await asyncio.sleep(self._stall)
        self._end()

    def _show(self) -> None:
        frame = self._frames[self._shown]
        self._shown += 1
        self.state = _response_in(frame) or self.state
        if self._sent is not None:
            self._sent(frame)
        self._wake()

    def _end(self) -> None:
        self.ended = True
        if self.state.get("status") in _RUNNING:  # its events break off: only those who read it see how it ended
            error = {"code": "server_error", "message": "The response could not be completed."}
            self.state = {**self.state, "status": "failed", "error": error}
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def cancel(self) -> None:
        """Cancel it. One that has ended stays as it is."""
        if not self.ended:
            self._task.cancel()
            self.state = {**self.state, "status": "cancelled"}
            self._end()

    async def follow(self, after: int) -> AsyncIterator[bytes]:
        """Yield the frames after the event of this number until the end; -1 for all."""
        number = after + 1
        while True:
            while number < self._shown:
                yield self._frames[number]
                number += 1
            if self.ended:
                return
            await self._changed.wait()


class BackgroundResponses:
    """The responses that run, or have run, in the background."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, BackgroundResponse] = OrderedDict()

    def add(self, response: BackgroundResponse) -> None:
        """Keep a response."""
        self._known[response.state["id"]] = response
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)

    def get(self, response_id: str) -> BackgroundResponse:
        """Return a response. Raises RequestRejected (404) for an unknown one."""
        found = self._known.get(response_id)
        if found is None:
            raise RequestRejected(f"Response with id '{response_id}' not found.", "response_id", status=404)
        return found

    def forget(self, response_id: str) -> None:
        """Forget a response, as after its time."""
        self._known.pop(response_id, None)


def check_background(body: Json) -> None:
    """Raise RequestRejected for a request in the background that is not to be stored."""
    if body.get("background") and body.get("store") is False:
        raise RequestRejected("Background mode requires `store` to be true.", "background", "invalid_value")


def starting_after(query: str | None) -> int:
    """Return the number of the last event that a client has, -1 for none. Raises RequestRejected."""
    if query is None:
        return -1
    if not query.isdecimal():
        raise RequestRejected("Invalid type for 'starting_after': expected an integer.", "starting_after")
    return int(query)


def _response_in(frame: bytes) -> Json | None:
    """Return the response in a frame, None if it has none."""
    event: Json = orjson.loads(frame.partition(b"data: ")[2])
    return event.get("response")

"""Calls of libraries that block, in threads that neither the event loop nor the end of the process waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from dragoman_server.credentials.credential import SourceError

R = TypeVar("R")
SECONDS = 30.0
"""Longest time that a call may take."""


class DaemonThread(Generic[R]):
    """Makes one call at a time. A call that hangs keeps its thread, and no other one is started until it has ended.

    `what` names the library for the error.
    """

    def __init__(self, what: str, seconds: float = SECONDS) -> None:
        self._what = what
        self._seconds = seconds
        self._busy = False
        self._thread: threading.Thread | None = None

    async def call(self, job: Callable[[], R]) -> R:
        """Return the result of a call, or raise its exception; SourceError if it takes too long."""
        if self._busy:
            raise SourceError(f"an earlier call of {self._what} still hangs: check the network")
        loop = asyncio.get_running_loop()
        result: asyncio.Future[R] = loop.create_future()

        def run() -> None:
            value: R | None = None
            failure: BaseException | None = None
            try:
                value = job()
            except BaseException as error:
                failure = error
            self._busy = False
            _post(loop, result, value, failure)

        self._busy = True
        self._thread = threading.Thread(target=run, daemon=True, name=f"dragoman {self._what}")
        self._thread.start()
        try:
            async with asyncio.timeout(self._seconds):
                return await result
        except TimeoutError:
            if result.done() and not result.cancelled():
                raise
            message = f"{self._what} gave no credential within {self._seconds:g} s: check the network"
            raise SourceError(message) from None


def _post(
    loop: asyncio.AbstractEventLoop, result: asyncio.Future[R], value: R | None, error: BaseException | None
) -> None:
    """Set the result from another thread, if something still waits for it."""

    def set_result() -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]  # without an error it is the value

    try:
        loop.call_soon_threadsafe(set_result)
    except RuntimeError:
        return  # the loop is closed

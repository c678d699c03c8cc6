"""Runs a coroutine from the callbacks of what it waits for, instead of in a task.

In a task, each chunk of a stream costs a future, a turn of the event loop and the way down through every coroutine that
awaits. A handler awaits an `InlineTask` once; from then on the transport resumes the coroutine from its own callback,
which runs it to the write to the client's socket. Otherwise it behaves as `await coroutine` does.

A frame that an error leaves must not keep the error in a variable: the error's traceback has the frame. Such a cycle
keeps a stream's objects until the garbage collector finds it, and its pauses grow with the number of objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class _Parking:
    """An awaitable that suspends its reader once, by a bare `yield None`. `InlineTask.resume` continues the reader."""

    __slots__ = ()
    # An iterator of one None, made without a Python frame: 180 ns each time instead of 250 with a generator.
    __await__ = staticmethod(partial(iter, (None,)))


PARKED = cast("Awaitable[None]", _Parking())
"""Waits for the next arrival."""


class InlineTask(Generic[T]):
    """Runs `coroutine` without a task. Call `start`, then await it: for the result, the exception or a cancellation.

    `on_arrival` is that of the `PushedResponse` which the coroutine reads. A bare yield of the coroutine waits for the
    next arrival; a future is waited for as in a task. Until then the coroutine runs outside of any task, in a copy of
    the handler's context, so `asyncio.timeout` does not work in it. When the handler is cancelled, the coroutine is
    cancelled too and finishes in the handler's task.
    """

    __slots__ = (
        "_after_detached",
        "_awaited_future",
        "_context",
        "_coroutine",
        "_done_future",
        "_error",
        "_on_arrival",
        "_parked",
        "_result",
        "_resume_again",
        "_send",
    )

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], on_arrival: Callable[[Callable[[], None] | None], None]
    ) -> None:
        self._coroutine: Coroutine[Any, Any, T] | None = coroutine
        """None once it is done, or runs in the handler's task."""
        self._on_arrival = on_arrival
        self._context = copy_context()
        # A partial runs without a Python frame, for each chunk of each stream.
        self._send: Callable[[], Any] = partial(self._context.run, coroutine.send, None)
        self._parked = True
        """True while the coroutine waits for an arrival, and not for a future."""
        self._resume_again = False
        """True if something arrived while the coroutine ran or waited for a future."""
        self._awaited_future: Any = None
        self._done_future: asyncio.Future[None] | None = None
        self._after_detached: Callable[[], None] | None = None
        self._result: Any = None
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        if self._coroutine is None:
            state = "done"
        elif self._awaited_future is not None:
            state = "waiting for a future"
        else:
            state = "parked" if self._parked else "running"
        return f"<InlineTask {state}{' detached' if self._after_detached is not None else ''}>"

    def start(self) -> None:
        """Run the coroutine up to its first wait. The handler must await this object next."""
        self._on_arrival(self.resume)
        self.resume()

    @property
    def running(self) -> bool:
        """True until the coroutine is done."""
        return self._coroutine is not None

    def detach(self, after: Callable[[], None]) -> None:
        """Allow the handler to be cancelled without cancelling the coroutine. `after` is called when it is done; a
        second `await` of this object then returns its result."""
        self._after_detached = after

    def cancel_wait(self) -> None:
        """Cancel the future that the coroutine waits for, if it waits for one and not for an arrival."""
        if self._awaited_future is not None:
            self._awaited_future.cancel()

    def resume(self) -> None:
        """Run the coroutine up to its next wait. If it runs already or waits for a future, it is resumed after that."""
        if not self._parked:
            self._resume_again = True
            return
        self._parked = False
        try:
            while (awaited := self._send()) is None:
                if not self._resume_again:
                    self._parked = True
                    return
                self._resume_again = False
            self._wait(awaited)
        except StopIteration as returned:
            self._result = returned.value
            self._finish()
        except BaseException as error:
            self._error = error
            self._finish()
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise  # as from a task: it stops the loop

    def _wait(self, future: Any) -> None:
        """Resume the coroutine when `future` is done, by the protocol of asyncio's tasks."""
        if getattr(future, "_asyncio_future_blocking", None) is None:
            if self._coroutine is not None:
                self._coroutine.close()
            raise RuntimeError(f"an InlineTask's coroutine awaited {future!r}, which is not an asyncio future")
        future._asyncio_future_blocking = False
        self._awaited_future = future
        future.add_done_callback(self._future_done)

    def _future_done(self, future: Any) -> None:
        if future is self._awaited_future:
            self._awaited_future = None
            self._parked = True
            self.resume()

    def _finish(self) -> None:
        """Record that the coroutine is done. `_parked` stays False, so that nothing resumes it."""
        self._coroutine = None
        self._on_arrival(None)
        if self._done_future is not None and not self._done_future.done():
            self._done_future.set_result(None)
        if self._after_detached is not None:
            self._context.run(self._after_detached)

    def __await__(self) -> Generator[Any, Any, T]:
        if self.running:
            self._done_future = asyncio.get_running_loop().create_future()
            try:
                yield from self._done_future.__await__()
            except BaseException as error:
                if (coroutine := self._coroutine) is not None:
                    self._coroutine = None
                    self._parked = False
                    self._on_arrival(None)
                    return (yield from self._finish_in_task(coroutine, error))
                if self._after_detached is None:
                    self._error = None
                    raise
        failure, self._error = self._error, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure
        result: T = self._result
        return result

    def _finish_in_task(self, coroutine: Coroutine[Any, Any, T], error: BaseException) -> Generator[Any, Any, T]:
        """Run the rest of the coroutine in the handler's task, beginning with the error thrown into the handler."""
        run = self._context.run
        future, self._awaited_future = self._awaited_future, None
        if future is not None:
            future.remove_done_callback(self._future_done)
        if isinstance(error, GeneratorExit):
            run(coroutine.close)
            raise error

        def throw(error: BaseException) -> Any:
            try:
                return run(coroutine.throw, error)
            finally:
                del error

        # As in a cancelled task: the awaited future is cancelled, and passes the cancellation on to the coroutine.
        cancelling = future is not None and isinstance(error, asyncio.CancelledError) and future.cancel(*error.args)
        if cancelling:
            future._asyncio_future_blocking = True
        first = (lambda: future) if cancelling else partial(throw, error)
        del error
        try:
            result: T = yield from drive(first, lambda value: run(coroutine.send, value), throw)
            return result
        finally:
            del first


def drive(
    first: Callable[[], Any], send: Callable[[None], Any], throw: Callable[[BaseException], Any]
) -> Generator[Any, Any, Any]:
    """Run a coroutine as `yield from` does, by its methods `send` and `throw`, and return its result.

    `first` makes the first step, or returns what the coroutine already waits for.
    """
    try:
        try:
            awaited = first()
        finally:
            del first
        while True:
            try:
                yield awaited
            except BaseException as error:
                awaited = throw(error)
            else:
                awaited = send(None)
    except StopIteration as returned:
        return returned.value

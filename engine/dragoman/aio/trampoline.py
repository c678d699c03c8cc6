"""A coroutine that is stepped by what it waits for instead of by a task.

A task costs, for each chunk of a stream, a future, a turn of the event loop and the way down through every handler that
awaits. A `Pump` is awaited once, by the handler; from then on the transport steps the work itself, from its own
callback, all the way to the client's socket. Outside of that it behaves as `await work` would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class InlineTask(Generic[T]):
    """`start`, then `await`: what `await work` would be, with its result, its exceptions, its cancellation.

    `on_arrival` is that of a `PushedAnswer` which `work` reads: a bare yield of `work` waits for it, a future is waited
    for as in a task. While it is pumped, `work` runs outside of any task (`asyncio.timeout` would not work in it), in a
    copy of the handler's context. A cancellation ends that: what is left of `work` then runs in the handler's task.
    """

    __slots__ = (
        "_again",
        "_context",
        "_end",
        "_error",
        "_on_arrival",
        "_parked",
        "_result",
        "_resume",
        "_send",
        "_waiting",
        "_work",
    )

    def __init__(self, work: Coroutine[Any, Any, T], on_arrival: Callable[[Callable[[], None] | None], None]) -> None:
        self._work: Coroutine[Any, Any, T] | None = work
        self._on_arrival = on_arrival
        self._context = copy_context()
        # In one call, without a frame of ours: it is made for each chunk of each stream.
        self._send: Callable[[], Any] = partial(self._context.run, work.send, None)
        self._parked = True
        self._again = False
        self._waiting: Any = None
        self._end: asyncio.Future[None] | None = None
        self._resume: Callable[[], None] | None = None
        self._result: Any = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Run the work up to its first wait. The pump must be awaited before anything else is."""
        self._on_arrival(self.resume)
        self.resume()

    @property
    def working(self) -> bool:
        """Is the work not over."""
        return self._work is not None

    def detach(self, resume: Callable[[], None]) -> None:
        """Whoever awaits the pump will go: let it be cancelled, and call `resume` when the work is over. The await goes
        on then."""
        self._resume = resume

    def resume(self) -> None:
        """Something arrived. If the work is running, it is stepped again; if it waits for a future, it will look."""
        if not self._parked:
            self._again = True
            return
        self._parked = False
        try:
            while (awaited := self._send()) is None:
                if not self._again:
                    self._parked = True
                    return
                self._again = False
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
        if getattr(future, "_asyncio_future_blocking", None) is None:
            if self._work is not None:
                self._work.close()
            raise RuntimeError(f"the work of a pump awaited {future!r}, which is no future of asyncio")
        future._asyncio_future_blocking = False
        self._waiting = future
        future.add_done_callback(self._woken)

    def _woken(self, future: Any) -> None:
        if future is self._waiting:
            self._waiting = None
            self._parked = True
            self.resume()

    def _finish(self) -> None:
        """The work is over. Nothing steps it any more: it stays unparked."""
        self._work = None
        self._on_arrival(None)
        if self._end is not None and not self._end.done():
            self._end.set_result(None)
        if self._resume is not None:
            self._context.run(self._resume)

    def __await__(self) -> Generator[Any, Any, T]:
        if self._work is not None:
            self._end = asyncio.get_running_loop().create_future()
            try:
                yield from self._end.__await__()
            except BaseException as error:
                if (work := self._work) is not None:
                    self._work = None
                    self._parked = False
                    self._on_arrival(None)
                    return (yield from self._rest(work, error))
                if self._resume is None:
                    raise
        failed, self._error = self._error, None
        if failed is not None:
            raise failed
        result: T = self._result
        return result

    def _rest(self, work: Coroutine[Any, Any, T], thrown: BaseException) -> Generator[Any, Any, T]:
        """What is left of the work when the handler is thrown something, driven by the handler's task as by `await`."""
        run = self._context.run
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.remove_done_callback(self._woken)
        if isinstance(thrown, GeneratorExit):
            run(work.close)
            raise thrown

        def throw(error: BaseException) -> Any:
            return run(work.throw, error)

        # What a cancelled task does to what it waits for; when that is over, the work is told by it.
        told = waiting is not None and isinstance(thrown, asyncio.CancelledError) and waiting.cancel(*thrown.args)
        if told:
            waiting._asyncio_future_blocking = True
        first = (lambda: waiting) if told else partial(throw, thrown)
        result: T = yield from drive(first, lambda value: run(work.send, value), throw)
        return result


def drive(
    first: Callable[[], Any], send: Callable[[None], Any], throw: Callable[[BaseException], Any]
) -> Generator[Any, Any, Any]:
    """What `yield from` does to a coroutine, with its two methods. `first` takes its first step, or gives what it
    already waits for."""
    try:
        awaited = first()
        while True:
            try:
                yield awaited
            except BaseException as error:
                awaited = throw(error)
            else:
                awaited = send(None)
    except StopIteration as returned:
        return returned.value

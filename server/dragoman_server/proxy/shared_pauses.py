"""Pauses of providers and keys, shared between the gateways of one store.

A task sends the pauses that begin here and reads those of other gateways. No request waits for the store: while it is
away, each gateway knows only its own pauses.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.threads import StoreError
from dragoman_server.routing.routing_state import RoutingState

if TYPE_CHECKING:
    from dragoman_server.accounts.accounts import Accounts

log = logging.getLogger("dragoman")
INTERVAL = 2.0
"""Seconds between two reads of the store."""
SHORTEST = 1.0
"""Seconds. A shorter pause is neither sent nor adopted: it would be over before the others know of it."""
PENDING_MAX = 256
"""Most pauses that wait to be sent. Further ones are not shared."""


class SharedPauses:
    """Exchanges the pauses of `routing` with other gateways. `accounts` returns the accounts, if there are any."""

    def __init__(
        self,
        routing: RoutingState,
        accounts: Callable[[], Accounts | None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._routing = routing
        self._accounts = accounts
        self._clock = clock
        self._pending: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin the exchange, if it has not begun. Must be called in the event loop."""
        if self._task is None:
            self._routing.share = self.add
            self._task = asyncio.get_running_loop().create_task(self._run())

    def add(self, name: str, seconds: float) -> None:
        """Send a pause soon."""
        if seconds >= SHORTEST and len(self._pending) < PENDING_MAX:
            self._pending[name] = self._clock() + seconds
            self._changed.set()

    async def _run(self) -> None:
        while True:
            try:
                await self.exchange()
            except StoreError:
                pass  # recorded where it was raised
            except Exception:
                log.exception("sharing the pauses of providers failed by a defect")
            try:
                async with asyncio.timeout(INTERVAL):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def exchange(self) -> None:
        """Send the pauses that have begun here, and adopt those of other gateways. Raises StoreError."""
        accounts = self._accounts()
        if accounts is None or not accounts.is_open:
            return
        self._changed.clear()
        for name, until in tuple(self._pending.items()):
            if (seconds := until - self._clock()) >= SHORTEST:
                await accounts.cool(name, seconds)
            self._pending.pop(name, None)
        for name, seconds in (await accounts.cooldowns()).items():
            if seconds >= SHORTEST:
                self._routing.learn(name, seconds)

    async def close(self) -> None:
        """End the exchange."""
        task, self._task, self._routing.share = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

"""When a credential is fetched: at first, before it expires, and when the upstream has refused it.

    no credential ──fetch──▶ valid ──margin before the end──▶ valid, fetching ──▶ valid
         ▲                     │                                      │ failed
         └──────expired────────┴──────────────────────────────────────┘

All requests that need a new credential wait for one fetch, which is a task of its own: a client that disconnects does
not cancel it. While a credential is valid no request waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Generic

from dragoman_server.credentials.credential import CredentialError, G, Grant, Source, SourceError

log = logging.getLogger("dragoman")

MARGIN = 300.0
"""Most seconds before the end of a credential at which it is fetched again."""
SHARE = 0.2
"""Share of a credential's life that this margin has at most."""
LEAST = 1.0
"""Seconds for which a credential is used at least: by a clock that is wrong it may seem to have expired already."""
PAUSE = 5.0
"""Seconds after a failed fetch, and after one for a refusal, before the next one."""


class Renewal(Generic[G]):
    """The current credential of one source.

    Args:
        source: Fetches it.
        name: The path of its setting, for errors and the log.
        learn: Gets the current and the last credential before it is used, so that both can be masked.
        clock: Returns seconds from any origin.
    """

    def __init__(
        self,
        source: Source[G],
        name: str,
        learn: Callable[[list[G]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._name = name
        self._learn = learn
        self._clock = clock
        self._last: list[G] = []
        self._end = self._margin = self._again = 0.0
        self._task: asyncio.Task[None] | None = None
        self.problem: str = ""
        """The reason for which the last fetch failed; empty if it did not."""

    def __repr__(self) -> str:
        state = "failing" if self.problem else "valid" if self.is_valid else "empty"
        return f"<Renewal {self._name} {state}>"

    @property
    def is_valid(self) -> bool:
        """True if there is a credential that has not expired."""
        return bool(self._last) and self._clock() < self._end

    def start(self) -> None:
        """Fetch the first credential in the background."""
        if not self._last and self._task is None:
            self._fetch(refused=False)

    async def current(self) -> G:
        """Return a valid credential. Raises CredentialError."""
        if not self.is_valid:
            return await self._fetched()
        now = self._clock()
        if self._task is None and now >= self._end - self._margin and now >= self._again:
            self._fetch(refused=False)
        return self._last[0]

    async def after_refusal(self, refused: G) -> G | None:
        """Return another credential than the one that the upstream refused, None if it is too early to fetch one.

        Raises CredentialError.
        """
        if self.is_valid and self._last[0] is not refused:
            return self._last[0]
        if self._task is None and self._clock() < self._again:
            return None
        self._again = self._clock() + PAUSE
        return await self._fetched(refused=True)

    def end(self, refused: object) -> None:
        """Let the next request wait for another credential than the one that the upstream refused."""
        if self.is_valid and self._last[0] is refused and self._clock() >= self._again:
            self._end, self._again = self._clock(), self._clock() + PAUSE

    async def close(self) -> None:
        """Cancel a fetch."""
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _fetched(self, *, refused: bool = False) -> G:
        """Return the credential of the fetch that runs, or of a new one. Raises CredentialError."""
        if self._task is None and (refused or self._clock() >= self._again or not self.problem):
            self._fetch(refused=refused)
        if self._task is not None:
            await asyncio.wait((self._task,))
        if self.problem or not self._last:
            raise CredentialError(self.problem or f"{self._name}: the gateway is closed")
        return self._last[0]

    def _fetch(self, *, refused: bool) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(refused))

    async def _run(self, refused: bool) -> None:
        began = self._clock()
        try:
            grant = await self._source.fetch(refused=refused)
        except SourceError as error:
            self._failed(f"{self._name}: {error}")
        except Exception as error:
            # A library's message may have a secret: only its type is shown.
            self._failed(f"{self._name}: it could not be fetched ({type(error).__name__})")
        else:
            self._put(grant, began)
        finally:
            self._task = None

    def _put(self, grant: Grant[G], began: float) -> None:
        last = self._last[:1] if self._last and self._last[0] is not grant.value else self._last[1:]
        self._last = [grant.value, *last]
        self._learn(self._last)
        seconds = max(grant.seconds, LEAST)
        self._end = began + seconds
        self._margin = min(MARGIN, seconds * SHARE)
        if self.problem:
            log.info("%s works again", self._name)
        self.problem = ""

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("%s", problem)
        self.problem, self._again = problem, self._clock() + PAUSE

"""The state of the Responses API in one gateway: stored responses, and the compaction of conversations."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aiohttp import web

from dragoman import Dialect
from dragoman_server.config.state_options import MEMORY, OFF, StateOptions
from dragoman_server.observability.metric_families import Totals

if TYPE_CHECKING:
    from dragoman_server.proxy.compaction import Compactions  # 0.1 MB of memory
    from dragoman_server.proxy.runs.shared_runs import SharedRuns
    from dragoman_server.proxy.stored_responses import StoredResponses  # 0.5 MB of memory


class ResponseState:
    """Makes both when the first request needs them, or stored responses when they are opened: few clients use them.

    Args:
        options: The settings.
        workers: The number of the gateway's processes.
        totals: Counts.
        now: A function that returns Unix seconds.
        answer: Handles the gateway's requests to itself.
        created: Called with the stored responses when they are made.
        resumes: True if streams can be resumed.
    """

    def __init__(
        self,
        options: StateOptions,
        workers: int,
        totals: Totals,
        now: Callable[[], float],
        answer: Callable[[web.Request, Dialect], Coroutine[Any, Any, web.StreamResponse]],
        created: Callable[[StoredResponses], None],
        *,
        resumes: bool = False,
    ) -> None:
        self.options = options
        self.stores = options.kind_with(workers) != OFF
        """True if responses are stored."""
        self._totals = totals
        self._now = now
        self._answer = answer
        self._created = created
        self._stored: StoredResponses | None = None
        self._shares_runs = self.stores and options.has_runs and bool(options.background or resumes)
        self.runs: SharedRuns | None = None
        """The responses in the background and the streams that processes share."""

    @property
    def stored(self) -> StoredResponses | None:
        """The stored responses; None if none are kept. Those in memory begin at the first use."""
        if self._stored is None and self.stores:
            self._create().begin()
        return self._stored

    @cached_property
    def compactions(self) -> Compactions:
        """The compaction of conversations. Only requests of the Responses API need it."""
        from dragoman_server.proxy.compaction import Compactions

        return Compactions(self.options, self._answer)

    @property
    def unavailable(self) -> bool:
        """True while the store of responses does not answer, or cannot write."""
        return self._stored is not None and self._stored.unavailable

    def _create(self) -> StoredResponses:
        from dragoman_server.proxy.stored_responses import StoredResponses

        self._stored = stored = StoredResponses(self.options, self._totals, self._now)
        self._created(stored)
        return stored

    async def open(self) -> None:
        """Open a store that is not in memory. Raises ConfigError if it cannot be used."""
        if not self.stores or self.options.kind == MEMORY:
            return
        if self._shares_runs:
            from dragoman_server.proxy.runs.create import open_runs

            self.runs = await open_runs(self.options)
        await self._create().open()

    async def close(self) -> None:
        """Write what is pending, and close the store."""
        if self.runs is not None:
            await self.runs.close()
        if self._stored is not None:
            await self._stored.close()

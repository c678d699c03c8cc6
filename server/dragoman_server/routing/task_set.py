"""Tasks that run apart from those of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class TaskSet(set[asyncio.Task[Any]]):
    """The tasks of one owner that have not ended. The event loop itself does not keep a task alive."""

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Run `work` in a task that leaves the set when it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self.add(task)
        task.add_done_callback(self.discard)

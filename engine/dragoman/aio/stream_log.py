"""The debug log of a stream: per batch, the frames that arrive, the events read from them, and the frames sent.

It contains sizes and event types only, never texts or keys. Streams that start while the logger `dragoman.stream` has
the level DEBUG are logged; others do not pass through this module.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import groupby
from typing import Any, TypeVar

from dragoman.stages.base import Stage

log = logging.getLogger("dragoman.stream")
Batch = TypeVar("Batch")


def is_enabled() -> bool:
    """Return whether streams are logged."""
    return log.isEnabledFor(logging.DEBUG)


class LoggedStage:
    """A stage that logs the input and output of each batch."""

    __slots__ = ("_label", "_stage")

    def __init__(self, stage: Stage[Any, Any], label: str) -> None:
        self._stage = stage
        self._label = label

    @property
    def done(self) -> bool:
        """True if the stage is done."""
        return self._stage.done

    def feed(self, batch: Any, /) -> Any:
        """Feed the stage."""
        output = self._stage.feed(batch)
        log.debug("%s: %s -> %s", self._label, describe(batch), describe(output))
        return output

    def finish(self) -> Any:
        """Finish the stage."""
        output = self._stage.finish()
        log.debug("%s: end -> %s", self._label, describe(output))
        return output


async def logged_batches(source: AsyncGenerator[Batch, None], label: str) -> AsyncGenerator[Batch, None]:
    """Yield the batches of `source` and log the size of each."""
    async with aclosing(source):
        async for data in source:
            log.debug("%s: %s", label, describe(data))
            yield data


def describe(batch: Any) -> str:
    """Return the size of bytes, the types of events with their number, or the number of frames, encoded or not."""
    if not batch:
        return "nothing"
    if isinstance(batch, bytes):
        return f"{len(batch)} bytes"
    names = ["Frame" if type(item) is bytes else type(item).__name__ for item in batch]
    return ", ".join(f"{count} {name}" for name, count in ((name, len(list(run))) for name, run in groupby(names)))

"""Sync stages, and the one driver that lifts them into async generators.

A stage is `feed(batch) -> batch` and `finish() -> batch`: it awaits nothing, reads no clock, logs nothing. A batch is
what one network read yielded; one read makes at most one batch per stage, one join and one write.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class Stage(Protocol[In, Out]):
    """A step of the pipeline."""

    @property
    def done(self) -> bool:
        """True after the last batch there will be: the driver then stops reading the source at once, so that the
        client's body ends with the terminal event and not with the upstream's connection."""
        ...

    def feed(self, batch: In, /) -> Out:
        """Take a batch, give what follows from it (may be empty)."""
        ...

    def finish(self) -> Out:
        """The source ended cleanly: give what was held back. Called at most once, last."""
        ...


async def run(stage: Stage[Any, Any], source: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """Lift `stage` over `source`. The only driver; `aclosing` on every hop is what closes the upstream in time."""
    async with aclosing(source):
        async for batch in source:
            if out := stage.feed(batch):
                yield out
            if stage.done:
                return
    if out := stage.finish():
        yield out


def pipeline(source: AsyncGenerator[Any, None], *stages: Stage[Any, Any]) -> AsyncGenerator[Any, None]:
    """`source` through all `stages`, each an async generator over the one before."""
    for stage in stages:
        source = run(stage, source)
    return source


class Chain:
    """Several stages as one sync stage: what `pipeline` does, without an event loop.

    `nothing` is what it gives where nothing follows yet: of the last stage's type, so that results can be joined.
    """

    __slots__ = ("done", "nothing", "stages")

    def __init__(self, *stages: Stage[Any, Any], nothing: Any = None) -> None:
        self.stages: Sequence[Stage[Any, Any]] = stages
        self.nothing = nothing
        self.done = False

    def feed(self, batch: Any, /) -> Any:
        """Feed all stages in turn; when one is done, the ones behind it are finished at once."""
        if self.done:
            return self.nothing
        stages = iter(self.stages)
        for stage in stages:
            batch = stage.feed(batch)
            if stage.done:
                return self._end(stages, batch)
            if not batch:
                return self.nothing
        return batch

    def finish(self) -> Any:
        """Finish each stage after feeding it what the one before still gave."""
        if self.done:
            return self.nothing
        return self._end(iter(self.stages), None)

    def _end(self, stages: Iterator[Stage[Any, Any]], batch: Any) -> Any:
        self.done = True
        for stage in stages:
            fed = stage.feed(batch) if batch else None
            if not stage.done:
                rest = stage.finish()
                fed = fed + rest if fed and rest else fed or rest
            batch = fed
        return batch or self.nothing

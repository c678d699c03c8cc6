"""The driver of stages: it closes its source in every case, stops reading when a stage is done, equals the machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.reply_context import ReplyContext
from dragoman.stages.base import ReplyPipeline, pipeline, run
from dragoman.stages.stream_machine import StreamMachine


class Source:
    """Batches, and what became of them."""

    def __init__(self, batches: Iterable[Any], *, error: BaseException | None = None, stall: bool = False) -> None:
        self.batches = list(batches)
        self.error = error
        self.stall = stall
        self.read = 0
        self.closed = 0

    async def __call__(self) -> AsyncGenerator[Any, None]:
        try:
            for batch in self.batches:
                self.read += 1
                yield batch
            if self.error is not None:
                raise self.error
            if self.stall:
                await asyncio.Event().wait()
        finally:
            self.closed += 1


class Tagged:
    """A stage that passes its input on, with its own end mark; `stop_at` items makes it done."""

    def __init__(self, tag: str = "end", *, stop_at: int = 1_000_000, hold: bool = False, fail_on: Any = None) -> None:
        self.done = False
        self.tag, self.stop_at, self.hold, self.fail_on = tag, stop_at, hold, fail_on
        self.held: list[Any] = []
        self.count = 0
        self.finished = 0

    def feed(self, batch: list[Any], /) -> list[Any]:
        assert not self.done, "fed after done"
        assert batch, "fed an empty batch"
        if self.fail_on in batch:
            raise RuntimeError("stage failed")
        room = self.stop_at - self.count
        taken = batch[:room]
        self.count += len(taken)
        self.done = self.count >= self.stop_at
        if self.hold:
            self.held += taken
            return []
        return taken

    def finish(self) -> list[Any]:
        self.finished += 1
        return [*self.held, self.tag]


async def collect(stream: AsyncGenerator[Any, None]) -> list[Any]:
    async with aclosing(stream):
        return [batch async for batch in stream]


async def test_batches_stay_batches_and_empty_ones_are_not_sent() -> None:
    source, stage = Source([[1], [2, 3], [4]]), Tagged(hold=True)
    assert await collect(run(stage, source())) == [[1, 2, 3, 4, "end"]]
    source, stage = Source([[1], [2, 3]]), Tagged()
    assert await collect(run(stage, source())) == [[1], [2, 3], ["end"]]
    assert (source.closed, stage.finished) == (1, 1)


async def test_T26_done_stops_reading_at_once_and_closes_the_source() -> None:
    source, stage = Source([[1], [2, 3], [4]], stall=True), Tagged(stop_at=2)
    async with asyncio.timeout(5):
        assert await collect(run(stage, source())) == [[1], [2]]
    assert (source.read, source.closed, stage.finished) == (2, 1, 0)


async def test_done_before_the_batch_is_taken_by_the_consumer() -> None:
    source, stage = Source([[1], [2]], stall=True), Tagged(stop_at=1)
    stream = run(stage, source())
    assert await anext(stream) == [1]
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert source.read == 1
    assert source.closed == 1


@pytest.mark.parametrize("hops", [1, 3])
async def test_T74_leaving_early_closes_the_source(hops: int) -> None:
    source = Source([[1], [2]], stall=True)
    stream = pipeline(source(), *[Tagged() for _ in range(hops)])
    assert await anext(stream) == [1]
    assert source.closed == 0
    await stream.aclose()
    assert source.closed == 1


@pytest.mark.parametrize("hops", [1, 3])
async def test_an_error_of_the_source_comes_through_and_closes_it(hops: int) -> None:
    source = Source([[1]], error=ConnectionResetError("gone"))
    stages = [Tagged() for _ in range(hops)]
    stream = pipeline(source(), *stages)
    assert await anext(stream) == [1]
    with pytest.raises(ConnectionResetError):
        await anext(stream)
    assert source.closed == 1
    assert [stage.finished for stage in stages] == [0] * hops, "a source that failed did not end cleanly"


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_an_error_of_any_stage_closes_the_source(at: int) -> None:
    source = Source([[1], [2]], stall=True)
    stages = [Tagged(fail_on=2 if number == at else None) for number in range(3)]
    stream = pipeline(source(), *stages)
    assert await anext(stream) == [1]
    with pytest.raises(RuntimeError):
        await anext(stream)
    assert source.closed == 1


async def test_T75_cancellation_while_the_source_is_silent_closes_it() -> None:
    source = Source([[1]], stall=True)
    got = asyncio.Event()

    async def consume() -> None:
        async with aclosing(pipeline(source(), Tagged(), Tagged())) as stream:
            async for _ in stream:
                got.set()

    task = asyncio.create_task(consume())
    await got.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed == 1


async def test_cancellation_while_the_consumer_is_slow_closes_the_source() -> None:
    source = Source([[1], [2]])
    waiting = asyncio.Event()

    async def consume() -> None:
        async with aclosing(pipeline(source(), Tagged())) as stream:
            async for _ in stream:
                waiting.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (source.read, source.closed) == (1, 1), "and no further batch was read: back-pressure"


async def test_a_pipeline_without_stages_is_its_source() -> None:
    assert await collect(pipeline(Source([[1], [2]])())) == [[1], [2]]


SPECS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.sampled_from((1, 2, 1_000_000))), max_size=3)
BATCHES = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=5)


class Relay:
    """A stage that passes batches on; as an encoder it writes each item as a byte."""

    def __init__(self, *, encode: bool = False) -> None:
        self.done = False
        self.encode = encode

    def feed(self, batch: Any, /) -> Any:
        return repr(batch).strip("[]").encode() + b"|" if self.encode else batch

    def finish(self) -> Any:
        return b"" if self.encode else []


def built(specs: list[tuple[str, bool, int]]) -> list[Tagged]:
    return [Tagged(tag, hold=hold, stop_at=stop) for tag, hold, stop in specs]


def through(transforms: list[Tagged], batches: list[list[Any]]) -> list[str]:
    parser, reader, writer, encoder = Relay(), Relay(), Relay(), Relay(encode=True)
    machine: Any = StreamMachine(ReplyPipeline(parser, reader, transforms, writer, encoder), ReplyContext("m"))
    out = b""
    for batch in batches:
        out += machine.feed(batch)
        if machine.done:
            assert machine.feed(batch) == b""
            break
    out += machine.finish()
    return [item for item in out.decode().replace("|", ", ").split(", ") if item]


@given(SPECS, BATCHES)
def test_law_the_machine_equals_the_driver(specs: list[tuple[str, bool, int]], batches: list[list[Any]]) -> None:
    driven = asyncio.run(collect(pipeline(Source(batches)(), *built(specs))))
    assert through(built(specs), batches) == [repr(item) for batch in driven for item in batch]


def test_the_machine_finishes_the_stages_after_one_that_is_done() -> None:
    stages = [Tagged("a", stop_at=1), Tagged("b", hold=True)]
    assert through(stages, [[1], [2]]) == ["1", "'b'"]
    assert [stage.finished for stage in stages] == [0, 1]

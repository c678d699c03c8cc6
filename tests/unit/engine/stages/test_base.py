"""A pipeline of stages: it equals its stages one after the other, and ends with the first that is done."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import BlockEnd, BlockStart, Delta, Ping
from dragoman.errors import Failure, FailureKind
from dragoman.reply_context import ReplyContext
from dragoman.stages.base import ReplyPipeline
from dragoman.stages.stream_machine import StreamMachine


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


def alone(stage: Tagged, batches: list[list[Any]]) -> list[list[Any]]:
    """Return the batches of one stage over a whole source."""
    out = []
    for batch in batches:
        if taken := stage.feed(batch):
            out.append(taken)
        if stage.done:
            return out
    return [*out, stage.finish()]


SPECS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.sampled_from((1, 2, 1_000_000))), max_size=3)
BATCHES = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=5)


class Relay:
    """A stage that passes batches on; as a writer it writes each item as bytes."""

    def __init__(self, *, encode: bool = False) -> None:
        self.done = False
        self.encode = encode

    def feed(self, batch: Any, /) -> Any:
        return repr(batch).strip("[]").encode() + b"|" if self.encode else batch

    def finish(self) -> Any:
        return b"" if self.encode else []


def built(specs: list[tuple[str, bool, int]]) -> list[Tagged]:
    return [Tagged(tag, hold=hold, stop_at=stop) for tag, hold, stop in specs]


def pipeline(transforms: list[Tagged], writer: Any, validator: Any = None) -> Any:
    """Return a pipeline that is fed batches of events."""
    return ReplyPipeline(Relay(), Relay(), transforms, writer, validator)


def through(transforms: list[Tagged], batches: list[list[Any]]) -> list[str]:
    machine: Any = StreamMachine(pipeline(transforms, Relay(encode=True)), ReplyContext("m"))
    out = b""
    for batch in batches:
        out += machine.feed(batch)
        if machine.done:
            assert machine.feed(batch) == b""
            break
    out += machine.finish()
    return [item for item in out.decode().replace("|", ", ").split(", ") if item]


@given(SPECS, BATCHES)
def test_law_the_pipeline_equals_its_stages_one_after_the_other(
    specs: list[tuple[str, bool, int]], batches: list[list[Any]]
) -> None:
    expected = batches
    for stage in built(specs):
        expected = alone(stage, expected)
    assert through(built(specs), batches) == [repr(item) for batch in expected for item in batch]


def test_the_machine_finishes_the_stages_after_one_that_is_done() -> None:
    stages = [Tagged("a", stop_at=1), Tagged("b", hold=True)]
    assert through(stages, [[1], [2]]) == ["1", "'b'"]
    assert [stage.finished for stage in stages] == [0, 1]


def tool(index: int) -> BlockStart:
    return BlockStart(index, "tool", call_id="c", name="look")


def test_a_pipeline_knows_whether_a_tool_call_is_open_and_has_progressed() -> None:
    driver = pipeline([], Relay())
    for batch, is_open, progressed in (
        ([Delta(0, "text")], False, False),
        ([tool(1), tool(2), BlockEnd(1)], True, True),
        ([Ping()], True, False),
        ([Delta(2, "{")], True, True),
        ([Delta(2, "}"), Delta(2, " ")], True, True),
        ([BlockEnd(2), BlockStart(3, "text"), Delta(3, "done")], False, False),
        ([Delta(3, "more")], False, False),
    ):
        driver.progressed = False
        assert driver.feed(batch) == batch
        assert (driver.tool_open, driver.progressed and driver.tool_open) == (is_open, progressed)


def test_a_failure_ends_a_pipeline_without_what_its_transforms_hold() -> None:
    failure = Failure(FailureKind.API, "gone", 502)
    held, writer = Tagged("held", hold=True), Tagged(stop_at=2)
    driver = pipeline([held], writer)
    assert driver.feed([Delta(0, "one")]) == []
    (error,) = driver.fail(failure)
    assert error.failure is failure
    assert held.held


def test_a_pipeline_that_has_ended_does_not_fail() -> None:
    driver = pipeline([], Tagged(stop_at=1))
    assert driver.feed([Delta(0, "one")])
    assert driver.done
    assert driver.fail(Failure(FailureKind.API, "gone", 502)) == []


def test_the_validator_gets_all_frames_and_the_end_once() -> None:
    validator = Tagged()
    driver = pipeline([], Tagged(stop_at=3), validator)
    for batch in ([1], [2, 3]):
        assert driver.feed(batch) == batch
    assert (validator.count, validator.finished) == (3, 1)

"""A pipeline of stages: it equals its stages one after the other, and ends with the first that is done."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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

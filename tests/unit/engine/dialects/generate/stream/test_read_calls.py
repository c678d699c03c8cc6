from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import BlockEnd, BlockStart, Delta, Error, Event
from dragoman.losses import LossCode
from support.generate import chunk, new_context, read, sse

Json = dict[str, Any]


def call(**fields: Any) -> Json:
    return {"functionCall": fields}


def calls_of(events: list[Event]) -> list[tuple[str, str, str, bool]]:
    """Id, name, arguments and completeness of each call."""
    starts = {event.index: event for event in events if isinstance(event, BlockStart) and event.kind == "tool"}
    texts = {event.index: event.text for event in events if isinstance(event, Delta)}
    ends = {event.index: event.complete for event in events if isinstance(event, BlockEnd)}
    return [(start.call_id, start.name, texts.get(n, ""), ends[n]) for n, start in starts.items()]


def play(*parts: Json, finish: str = "STOP", **options: Any) -> tuple[list[tuple[str, str, str, bool]], list[LossCode]]:
    context = new_context(**options)
    events = read(sse([chunk(parts), chunk([{"text": ""}], finish)]), context)
    assert not isinstance(events[-1], Error), events[-1].failure.message
    return calls_of(events), [loss.code for loss in context.losses]


def test_a_call() -> None:
    assert play(call(id="a", name="look", args={"city": "Oslo", "n": 1})) == (
        [("a", "look", '{"city":"Oslo","n":1}', True)],
        [],
    )


def test_a_renamed_call_without_arguments() -> None:
    assert play(call(id="a", name="look"), names={"look": "my.look"})[0] == [("a", "my.look", "{}", True)]


def test_numbers_are_exact() -> None:
    data = sse([chunk([call(id="a", name="look", args={"n": 1})], "STOP")]).replace(
        b'"n":1}', b'"n":12345678901234567890123}'
    )
    assert calls_of(read(data))[0][2] == '{"n":12345678901234567890123}'


def test_ids_are_made_of_the_reply() -> None:
    calls, losses = play(call(name="look", args={}), call(id="a", name="look"), call(id="a", name="look"))
    assert [each[0] for each in calls] == ["call_x_0", "a", "call_x_2"]
    assert set(losses) == {LossCode.CALL_ID}


def test_ids_are_made_of_the_call_if_the_reply_has_none() -> None:
    def ids(city: str) -> str:
        chunks = [chunk([call(name="look", args={"city": city})], "STOP")]
        del chunks[0]["responseId"]
        return calls_of(read(sse(chunks)))[0][0]

    assert ids("Oslo") == ids("Oslo") != ids("Bergen")


def test_arguments_in_a_text_are_read() -> None:
    calls, losses = play(call(id="a", name="look", args='{"n": 1}'))
    assert calls[0][2] == '{"n":1}'
    assert losses == [LossCode.REPLY_REPAIRED]


@pytest.mark.parametrize(
    "part",
    [
        call(args={}),
        call(name=""),
        call(name=5),
        call(name="a", args=[1]),
        call(name="a", args="no"),
        {"functionCall": 1},
    ],
)
def test_a_malformed_call(part: Json) -> None:
    events = read(sse([chunk([part], "STOP")]))
    assert isinstance(events[-1], Error)


STREAMED = [
    call(name="cook", id="a", willContinue=True),
    call(partialArgs=[{"jsonPath": "$.n", "stringValue": "16", "willContinue": True}], willContinue=True),
    call(willContinue=True),
    call(partialArgs=[{"jsonPath": "$.n", "stringValue": " oz"}], willContinue=True),
]


@pytest.mark.parametrize(
    "end", [[call()], [call(id="b", name="next")], [{"text": "Done"}], [{"text": "", "thoughtSignature": "S"}], []]
)
def test_streamed_arguments(end: list[Json]) -> None:
    calls, losses = play(*STREAMED, *end)
    assert calls[0] == ("a", "cook", '{"n":"16 oz"}', True)
    assert losses == []


def test_streamed_arguments_that_are_cut() -> None:
    assert play(*STREAMED, finish="MAX_TOKENS")[0] == [("a", "cook", "", False)]


def test_arguments_that_come_in_both_forms() -> None:
    parts = [call(name="cook", id="a", args={"x": 1}, willContinue=True), *STREAMED[1:2], call(args={"y": 2})]
    assert play(*parts)[0][0][2] == '{"x":1,"y":2,"n":"16"}'

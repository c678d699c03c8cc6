"""The items of a response, from the events of its stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.responses.websocket.output_items import OutputItems

MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}


def collected(*events: dict[str, Any], named: bool = True, limit: int = 10_000) -> OutputItems:
    items = OutputItems(limit)
    completed = [items.add(event["type"] if named else "", json.dumps(event).encode()) for event in events]
    assert completed == [False] * (len(events) - 1) + [items.complete]
    return items


def created() -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": "resp_1", "output": []}}


def done(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": item}


def ended(kind: str = "completed", *output: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": {"id": "resp_1", "output": output}}


def output(items: OutputItems) -> Any:
    return json.loads(b"[%b]" % items.join())


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", ["completed", "incomplete"])
def test_the_items_that_are_done(named: bool, kind: str) -> None:
    delta = {"type": "response.output_text.delta", "delta": "x"}
    items = collected(created(), delta, done(MESSAGE), done(CALL), ended(kind), named=named)
    assert (items.complete, items.response_id, output(items)) == (True, "resp_1", [MESSAGE, CALL])


def test_a_last_snapshot_alone_is_enough() -> None:
    items = collected(ended("completed", MESSAGE, CALL))
    assert (items.complete, items.response_id, output(items)) == (True, "resp_1", [MESSAGE, CALL])


@pytest.mark.parametrize("last", [{"type": "response.failed", "response": {"id": "resp_1"}}, {"type": "error"}])
def test_a_response_that_failed_cannot_be_continued(last: dict[str, Any]) -> None:
    assert not collected(created(), done(MESSAGE), last).complete


def test_a_response_without_an_end_cannot_be_continued() -> None:
    assert not collected(created(), done(MESSAGE)).complete


def test_a_call_that_is_not_whole_is_left_out() -> None:
    items = collected(created(), done(MESSAGE), done({**CALL, "status": "incomplete"}), ended("incomplete"))
    assert output(items) == [MESSAGE]


def test_a_response_above_the_limit_cannot_be_continued() -> None:
    large = {**MESSAGE, "content": "x" * 500}
    for events in ([created(), done(MESSAGE), done(large), ended("completed", large)], [ended("completed", large)]):
        items = collected(*events, limit=400)
        assert not items.complete
        assert items.join() == b""


@pytest.mark.parametrize(
    "data",
    [b"{", b"7", b'{"type":"response.completed"}', b'{"response":7}', b'{"item":7}', b'{"response":{"output":7}}'],
)
@pytest.mark.parametrize("event", ["", "response.created", "response.output_item.done", "response.completed"])
def test_what_is_no_event_is_ignored(event: str, data: bytes) -> None:
    items = OutputItems(100)
    items.add(event, data)
    assert (items.complete, items.join(), items.response_id) == (False, b"", "")

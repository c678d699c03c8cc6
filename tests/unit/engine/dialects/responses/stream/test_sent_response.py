"""The kept part of a forwarded response: the snapshot and the items that an error frame repeats."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.responses.stream.sent_response import SentResponse
from dragoman.errors import StreamTruncated
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.wire.json_codec import dumps

FAILURE = StreamTruncated().failure
LONG = 200 * 1024


def failed(sent: SentResponse) -> Any:
    return json.loads(dumps(sent.failed(FAILURE, DEFAULT_KNOBS, None)))


def test_the_first_snapshot_is_repeated() -> None:
    sent = SentResponse()
    first = {"id": "resp_1", "object": "response", "model": "m", "status": "in_progress", "x": 1}
    assert sent.snapshot is None
    assert sent.begin(first) == first
    assert sent.begin({"id": "resp_2"}) is None
    response = failed(sent)
    assert (sent.id, response["id"], response["x"], response["status"]) == ("resp_1", "resp_1", 1, "failed")
    assert response["output"] == []


def test_a_long_snapshot_is_kept_without_its_long_fields() -> None:
    sent = SentResponse()
    sent.begin({"id": "resp_1", "instructions": "x" * 2 * LONG, "metadata": {"a": "b"}})
    response = failed(sent)
    assert (response["id"], response["instructions"], response["metadata"]) == ("resp_1", None, {})


def test_a_snapshot_that_is_too_long_without_them_is_not_kept() -> None:
    sent = SentResponse()
    sent.begin({"id": "resp_1", "x": "x" * 2 * LONG})
    assert sent.snapshot == b""
    assert sent.events([])[0] == {"type": "response.created", "response": {"id": "resp_1"}}


def test_an_event_without_a_snapshot_can_be_undone_unless_it_had_an_id() -> None:
    sent = SentResponse()
    sent.begin(None)
    sent.undo_empty()
    assert sent.snapshot is None
    sent.begin({"id": "resp_1", "x": "x" * 2 * LONG})
    sent.undo_empty()
    assert sent.snapshot is not None


@given(st.lists(st.sampled_from([10, LONG]), max_size=4))
def test_items_are_repeated_up_to_the_budget(sizes: list[int]) -> None:
    sent = SentResponse()
    sent.begin({"id": "resp_1"})
    items = [{"id": f"msg_{index}", "text": "x" * size} for index, size in enumerate(sizes)]
    for item in items:
        sent.add(item)
    kept = failed(sent)["output"]
    whole = kept == items
    assert kept == items[: len(kept)]
    assert whole == (sizes.count(LONG) < 2)
    assert (sent.items(len(items)) is not None) == (whole and len(items) > 0)
    events = json.loads(dumps(sent.events(list(range(len(items))))))
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == kept

"""Items of the last snapshot that are sent as done before it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.responses.stream.missing_items import (
    MissingItem,
    find_missing,
    item_identity,
    missing_frames,
    with_output,
)
from oracles.grammar import sse
from support.responses_frames import call, message, reasoned, text_part

Json = dict[str, Any]
A, B, HELLO, REASONING = call("call_a"), call("call_b"), message(text_part("Hello")), reasoned("Hm")
HOSTED = {"type": "web_search_call", "id": "ws_a", "status": "completed"}


@pytest.mark.parametrize(
    ("started", "done", "output", "found"),
    [
        ({}, {}, [], []),
        ({}, {}, None, []),
        ({}, {0: "call_a"}, [A], []),
        ({0: "function_call"}, {}, [A], [(0, A, True)]),
        ({1: "function_call"}, {0: "msg_a"}, [HELLO, A], [(1, A, True)]),
        ({0: "message", 2: "function_call"}, {}, [HELLO, A], [(0, HELLO, True), (2, A, True)]),  # an index is skipped
        ({}, {}, [REASONING, HELLO], [(0, REASONING, False), (1, HELLO, False)]),
        ({}, {0: "msg_a"}, [HELLO, HOSTED], []),
        ({0: "web_search_call"}, {}, [HOSTED], [(0, HOSTED, True)]),
        ({0: "function_call"}, {}, [HELLO], []),
        ({0: "function_call"}, {}, [call(status="incomplete")], []),
        ({0: "function_call"}, {}, [7], []),
        ({}, {3: "call_a"}, [B, A], []),  # which is which is not known
        ({}, {1: "call_a"}, [A, B], []),  # the first was done under another index
    ],
)
def test_what_is_missing(started: dict[int, Any], done: dict[int, Any], output: Any, found: list[Any]) -> None:
    assert find_missing(started, done, output) == [MissingItem(*each) for each in found]


def test_what_an_item_is_known_by() -> None:
    assert [item_identity(item) for item in (A, HELLO, {"id": 7}, {}, None)] == ["call_a", "msg_a", None, None, None]


def test_the_events_continue_the_numbers() -> None:
    frames, number = missing_frames([MissingItem(0, HELLO, True), MissingItem(1, A, False)], 9)
    events = [json.loads(item.data or b"") for item in sse.written(b"".join(frames))]
    assert [
        (event["type"].rpartition(".")[2], event["output_index"], event["sequence_number"]) for event in events
    ] == [
        ("done", 0, 9),
        ("added", 1, 10),
        ("done", 1, 11),
    ]
    assert number == 12
    assert [event["item"]["status"] for event in events] == ["completed", "in_progress", "completed"]


def test_the_last_event_with_the_items() -> None:
    items = [b'{"a":1}', b'{"b":2}']
    given = b'{"type":"x","response":{"id":"r","output":%b,"usage":null}}'
    for empty in (b"[]", b"[ \n]", b"null"):
        assert with_output(given % empty, items) == given % b'[{"a":1},{"b":2}]'
    assert with_output(b'{"response": {"id":1}}', items) == b'{"response": {"output":[{"a":1},{"b":2}],"id":1}}'
    for repeated in (given % b'[[]],"output":[]', b'{"response":1,"response":{"output":[]}}'):
        assert with_output(repeated, items) is None

"""No two messages of the user's in a row where that is refused, whatever was taken from between them (mapping §13)."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.request import Json
from dragoman.losses import LossCode
from support.canonical_turns import PNG, translated

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
REASONING = {"type": "thinking", "thinking": "hm", "signature": "EqQBCg=="}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [IMAGE]}
FORGETFUL = {"reasoning_replay": False}

CASES: dict[str, tuple[list[Json], Json, Json, list[str]]] = {
    "a late instruction moves to the front": (
        [{"role": "system", "content": "be brief"}],
        {"system_inline": False},
        {},
        ["a", "b"],
    ),
    "a late instruction becomes the user's": (
        [{"role": "system", "content": "be brief"}],
        {},
        {"mid_system": "user"},
        ["a", "<system>\nbe brief\n</system>", "b"],
    ),
    "thinking goes back to its maker only": (
        [{"role": "assistant", "content": [REASONING]}],
        FORGETFUL,
        {},
        ["a", "b"],
    ),
}


def sent(between: list[Json], flags: Json, knobs: Json, upstream: str = "chat") -> tuple[Json, Any]:
    """Return what becomes of two messages of the user's with something between them."""
    messages = [{"role": "user", "content": "a"}, *between, {"role": "user", "content": "b"}]
    body = {"model": "m", "max_tokens": 99, "messages": messages}
    return translated("messages", upstream, body, flags={"strict_alternation": True, **flags}, **knobs)


def texts(message: Json) -> list[str]:
    return [part.get("text", part["type"]) for part in message["content"]]


@pytest.mark.parametrize("case", CASES)
def test_what_moves_or_is_left_out_leaves_no_two_in_a_row(case: str) -> None:
    between, flags, knobs, left = CASES[case]
    body, made = sent(between, flags, knobs)
    (stated,) = [message for message in body["messages"] if message["role"] != "developer"]
    assert (stated["role"], texts(stated)) == ("user", left)
    assert made.losses.counts[LossCode.TURNS_MERGED] == 1
    assert ("messages", f"{len(left) - 1} of the user's joined those before them") in {
        (row.path, row.done) for row in made.losses.rows
    }


def test_an_image_that_moves_behind_a_result_joins_the_next_text_of_the_user() -> None:
    between = [{"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]}]
    body, _ = sent(between, {}, {})
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "user"]
    assert texts(body["messages"][-1]) == ["Attachment 1 of the tool results (image):", "image_url", "b"]
    plain, made = sent(between, {"strict_alternation": False}, {})
    assert len(plain["messages"]) == 5
    assert LossCode.TURNS_MERGED not in made.losses.counts


def test_a_responses_upstream_is_given_no_two_in_a_row_either() -> None:
    body, made = sent([{"role": "assistant", "content": [REASONING]}], {}, {}, "responses")
    (item,) = body["input"]
    assert [(part["type"], part["text"]) for part in item["content"]] == [("input_text", "a"), ("input_text", "b")]
    assert made.losses.counts[LossCode.TURNS_MERGED] == 1


def test_two_authors_of_one_message_are_reported() -> None:
    messages = [
        {"role": "user", "name": "ann", "content": "a"},
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": "b"},
    ]
    flags = {"strict_alternation": True, "rewrite": True, "system_inline": False}
    body, made = translated("chat", "chat", {"model": "m", "messages": messages}, flags=flags)
    assert [message.get("name") for message in body["messages"]] == [None, None]
    assert made.losses.counts[LossCode.PARTICIPANT_NAME] == 1

"""Compacted histories: wrapped in an item, opened, and put in place of the items that they cover."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from dragoman.reasoning.compacted_history import (
    HEADING,
    CompactedHistory,
    digest,
    expand,
    summary_message,
    unwrap_history,
    wrap_history,
)
from dragoman.reasoning.envelope import TAG, unwrap
from support.thread_stores import assistant, user

HISTORY = CompactedHistory("It works.", [user("a")], [assistant("b")], frozenset({digest(user("a"))}))


def item(history: CompactedHistory = HISTORY) -> Any:
    return {"type": "compaction", "id": "cmp_1", "encrypted_content": wrap_history(history, "m")}


def packed(**block: Any) -> Any:
    whole = {"type": "compaction", "summary": "s", "before": [], "after": [], "covered": "", **block}
    content = json.dumps({"d": "responses", "f": "dragoman", "m": "m", "b": whole}).encode()
    return {"type": "compaction", "encrypted_content": TAG + urlsafe_b64encode(content).rstrip(b"=").decode()}


def test_what_is_wrapped_comes_back() -> None:
    assert unwrap_history(item()) == HISTORY
    assert wrap_history(HISTORY, "m") == wrap_history(HISTORY, "m")
    assert "It works" not in item()["encrypted_content"]


def test_it_is_no_reasoning() -> None:
    opened = unwrap(item()["encrypted_content"])
    assert opened is not None
    assert opened.block is None


@pytest.mark.parametrize(
    "other",
    [
        "text",
        {},
        {"type": "compaction"},
        {"type": "compaction", "encrypted_content": "gAAAA"},
        {"type": "compaction", "encrypted_content": TAG},
        {"type": "reasoning", "encrypted_content": wrap_history(HISTORY, "m")},
        packed(summary=None),
        packed(covered=1),
        packed(before=None),
        packed(after=["text"]),
        packed(before=[packed()]),
    ],
)
def test_what_was_not_made_here_is_none(other: Any) -> None:
    assert unwrap_history(other) is None
    assert [each.item for each in expand([other])] == [other]


def test_a_digest_is_that_of_the_content() -> None:
    reply = assistant("x")
    bare = {"role": "assistant", "type": "message", "phase": None, "content": reply["content"]}
    assert digest(reply) == digest(bare)
    assert digest(reply) != digest(user("x"))
    assert len(digest("text")) == len(digest(user("y"))) == 8


def test_what_is_covered_is_left_out() -> None:
    new = {"type": "message", "role": "developer", "content": "New."}
    whole = [user("a"), new, {"type": "compaction_trigger"}, item(), user("c")]
    assert [(each.place, each.item, each.is_summary) for each in expand(whole)] == [
        (1, new, False),
        (3, user("a"), False),
        (3, summary_message("It works."), True),
        (3, assistant("b"), False),
        (4, user("c"), False),
    ]
    assert summary_message("It works.")["content"] == f"{HEADING}\n\nIt works."


def test_without_digests_everything_before_stays() -> None:
    window = item(CompactedHistory("", (), [assistant("b")]))
    assert [each.item for each in expand([user("a"), window])] == [user("a"), assistant("b")]

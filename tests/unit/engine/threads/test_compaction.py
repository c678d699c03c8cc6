"""Compaction: what stays, what goes, and what becomes a summary."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ClientRequestError, LossCode
from dragoman.limits import DEFAULT_LIMITS
from dragoman.reasoning.compacted_history import HEADING, expand, unwrap_history
from dragoman.threads import (
    Compaction,
    checked_items,
    compacted_response,
    evict,
    input_tokens,
    is_worth,
    plan,
)
from dragoman.threads.compaction import KEEP, saved
from dragoman.threads.compaction_items import tokens_of
from support.thread_stores import assistant, user

LONG = "word " * 1000
BE_BRIEF: Any = {"role": "developer", "content": "Be brief."}
REASONING: Any = {"type": "reasoning", "summary": [{"type": "summary_text", "text": LONG}]}
IMAGE: Any = {"type": "input_image", "image_url": "https://example.com/a.png"}


def step(name: str, output: Any = LONG) -> list[Any]:
    return [
        {"type": "function_call", "call_id": name, "name": "look", "arguments": f'{{"at":"{name}"}}'},
        {"type": "function_call_output", "call_id": name, "output": output},
    ]


def item(wrapped: str) -> Any:
    return {"type": "compaction", "encrypted_content": wrapped}


def sent(items: list[Any]) -> list[Any]:
    return [each.item for each in expand(items)]


def codes(compaction: Compaction) -> list[str]:
    return [code.value for code, _, _ in compaction.rows]


def test_the_users_texts_and_instructions_stay() -> None:
    first = user("a")
    items = [BE_BRIEF, first, REASONING, *step("1"), assistant("A"), user("b")]
    found = plan(items)
    assert (found.instructions, found.asked, found.newest) == ([BE_BRIEF], [first], [user("b")])
    assert codes(found) == ["reasoning_evicted", "result_cut", "history_summarised"]
    assert found.rows[-1][1:] == (("input", 2), "4 items up to input[5] became a summary")
    record = found.record
    for text in ("User:\na", 'Call of look:\n{"at":"1"}', "Result:\nword", "Assistant:\nA", "User:\nb"):
        assert text in record
    assert LONG not in record
    request = found.request("small")
    assert (request["model"], request["store"]) == ("small", False)
    assert record in request["input"][0]["content"]


def test_the_item_stands_for_all_of_it() -> None:
    items = [BE_BRIEF, user("a"), *step("1"), assistant("A"), user("b")]
    wrapped = item(plan(items).wrapped("Sum.", "m"))
    for before in ([], items, items[:3]):
        texts = sent([*before, wrapped, assistant("B")])
        assert [texts[0], texts[1], texts[3], texts[4]] == [BE_BRIEF, user("a"), user("b"), assistant("B")]
        assert texts[2]["content"] == f"{HEADING}\n\nSum."


def test_an_earlier_summary_becomes_a_part_of_the_next() -> None:
    items = [user("a"), *step("1"), user("b")]
    first = item(plan(items).wrapped("One.", "m"))
    more = [*items, first, *step("2"), assistant("B"), user("c")]
    found = plan(more)
    assert f"Earlier:\n{HEADING}\n\nOne." in found.record
    assert (found.asked, found.newest) == ([user("a"), user("b")], [user("c")])
    second = item(found.wrapped("Two.", "m"))
    for history in ([*more, second], [first, *step("2"), assistant("B"), user("c"), second], [second]):
        texts = [each["content"] for each in sent(history)]
        assert texts == ["a", "b", f"{HEADING}\n\nTwo.", "c"]


def test_the_window_of_the_endpoint() -> None:
    items = [BE_BRIEF, user("a"), *step("1"), user("b"), assistant("B")]
    found = plan(items)
    assert found.window() == [BE_BRIEF, user("a"), user("b")]
    history = unwrap_history(item(found.wrapped_window("Sum.", "m")))
    assert history is not None
    assert (list(history.before), list(history.after), history.covered) == ([], [assistant("B")], frozenset())
    response = {"id": "resp_7", "created_at": 1, "output": [item("x")], "usage": {"total_tokens": 3}, "model": "m"}
    assert compacted_response(found.window()[1:2], response) == {
        "id": "resp_7",
        "object": "response.compaction",
        "created_at": 1,
        "output": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "a"}],
                "id": "msg_7_0",
                "status": "completed",
            },
            item("x"),
        ],
        "usage": {"total_tokens": 3},
    }


def test_a_step_that_is_not_answered_stays_whatever_its_size() -> None:
    last = step("2", LONG * 10)
    found = plan([user("a"), *step("1"), *last])
    assert found.newest == [user("a"), *last]
    assert "Call of look" in found.record
    # Without a message of the user, too.
    assert plan([*step("1"), *last]).newest == last


def test_newest_steps_stay_as_far_as_they_fit() -> None:
    items = [user("a"), *step("1", LONG * 3), *step("2", "short"), *step("3", "short"), assistant("A")]
    assert plan(items).newest == [user("a"), *items[3:]]
    assert plan(items, keep=1).newest == [user("a")]
    assert plan([user("a"), assistant("A"), user("b")]).record != ""
    # What would fit is summarised if there is nothing else.
    found = plan([user("a"), assistant("A")])
    assert (found.newest, found.summarised) == ([user("a")], 1)
    assert plan([user("a")]).rows == []


def test_a_record_that_is_too_long_loses_its_middle() -> None:
    items = [user("a"), *(each for name in range(20) for each in step(f"<{name}>")), user("b")]
    whole = plan(items).record
    found = plan(items, room=1_500)
    assert tokens_of(found.record) <= 1_600 < tokens_of(whole)
    assert found.record.startswith('User:\na\n\nCall of look:\n{"at":"<0>"}')
    assert found.record.endswith("User:\nb")
    assert '"<19>"' in found.record
    assert '"<9>"' not in found.record
    assert "entries of the record were left out]" in found.record
    assert "that do not fit into the context window of its model" in found.rows[-1][2]
    assert plan(items, room=100_000).record == whole


def test_old_images_of_the_user_go_and_new_ones_stay() -> None:
    old, new = ({"role": "user", "content": [{"type": "input_text", "text": text}, IMAGE]} for text in "ab")
    found = plan([old, assistant("A"), new])
    assert found.newest == [new]
    assert "example.com" not in str(found.asked)
    assert codes(found)[:1] == ["image_evicted"]


def test_eviction_goes_by_priority() -> None:
    picture = {"role": "user", "content": [IMAGE]}
    items = [picture, REASONING, *step("1", LONG * 4), user("now"), *step("2")]
    total = input_tokens({"input": items})
    assert codes(evict(items, total, (total - 1_000) * 2) or Compaction()) == ["image_evicted"]
    assert codes(evict(items, total, (total - 2_000) * 2) or Compaction()) == ["image_evicted", "result_cut"]
    found = evict(items, total, 4_000)
    assert found is not None
    assert codes(found) == ["image_evicted", "result_cut", "reasoning_evicted"]
    texts = sent([*items, item(found.wrapped("", "m"))])
    assert texts[-3:] == [user("now"), *step("2")]
    assert input_tokens({"input": texts}) <= 2_000
    assert evict(items, total, 1_000) is None
    assert LossCode.HISTORY_SUMMARISED not in codes(found)


def test_a_compaction_must_be_worth_it() -> None:
    items = [user(LONG), assistant("Yes."), user("b")]
    assert not is_worth(plan(items), items, 1_000)
    items = [user("a"), *step("1", LONG * 4), user("b")]
    assert saved(plan(items), items) > 4_000
    assert is_worth(plan(items), items, 5_000)


def test_the_tokens_of_a_request() -> None:
    alone = input_tokens({"input": [user("a")]})
    tools = [{"type": "function", "name": "look", "description": LONG}]
    assert input_tokens({"input": [user("a")], "instructions": LONG}) > alone + 900
    assert input_tokens({"input": [user("a")], "tools": tools}) > alone + 900
    # What a compacted history covers is not sent, and not counted.
    items = [user("a"), *step("1", LONG * 4), user("b")]
    assert input_tokens({"input": [*items, item(plan(items).wrapped("Sum.", "m"))]}) < 100


def test_items_are_checked() -> None:
    assert checked_items({"model": "m", "input": "Hi"}, DEFAULT_LIMITS) == [user("Hi")]
    with pytest.raises(ClientRequestError, match="must not be empty"):
        checked_items({"model": "m"}, DEFAULT_LIMITS)
    with pytest.raises(ClientRequestError, match="provider that made it"):
        checked_items({"model": "m", "input": [item("gAAA")]}, DEFAULT_LIMITS)
    assert KEEP == 2_000

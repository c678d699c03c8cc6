"""The items of a conversation as compaction sees them."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.samples import PNG
from dragoman.policies.evict_images import PLACEHOLDER
from dragoman.threads.compaction_items import (
    as_json,
    content_key,
    is_call,
    is_image,
    is_instruction,
    is_output,
    is_users,
    kind,
    shortened,
    shortened_output,
    text_tokens,
    texts_of,
    tokens_of,
    without_images,
)
from support.thread_stores import assistant, user

LONG = "word " * 1000
CALL = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": LONG}
TEXT: Any = {"type": "input_text", "text": "See:"}
IMAGE: Any = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
REMOTE: Any = {"type": "input_image", "image_url": "https://example.com/a.png"}


@pytest.mark.parametrize(
    ("item", "checks"),
    [
        (user("a"), {is_users}),
        ({"role": "user", "content": "a"}, {is_users}),
        (assistant("a"), set()),
        ({"role": "developer", "content": "a"}, {is_instruction}),
        ({"type": "additional_tools", "tools": []}, {is_instruction}),
        (CALL, {is_call}),
        (OUTPUT, {is_output}),
        ({"type": "function_call_output", "name": "heartbeat", "output": "a"}, {is_users}),
        ({"type": "function_call_output", "call_id": None, "output": "a"}, {is_users}),
        ({"type": "tool_search_output", "tools": []}, {is_output}),
        ({"type": "agent_message", "content": []}, {is_users}),
        ({"type": "reasoning", "summary": []}, set()),
        ("no object", set()),
    ],
)
def test_the_kinds(item: Any, checks: Any) -> None:
    assert {check for check in (is_users, is_instruction, is_call, is_output) if check(item)} == checks


def test_the_type_may_be_left_out() -> None:
    assert (kind({"role": "user"}), kind(CALL), kind(1)) == ("message", "function_call", "")


def test_tokens() -> None:
    assert tokens_of(user("one two three")) < 12
    assert 1_000 <= tokens_of(OUTPUT) <= 1_600
    assert tokens_of(CALL) < 20
    # Ids and the names of types are not sent as text.
    assert tokens_of(assistant("a") | {"id": "m" * 500}) == tokens_of(assistant("a"))
    assert tokens_of({"type": "reasoning", "summary": [], "encrypted_content": "x" * 6_000}) == 1_004
    picture = {"role": "user", "content": [IMAGE]}
    assert tokens_of(picture) < 100 < tokens_of({"role": "user", "content": [REMOTE]})
    assert text_tokens("") == 0


def test_images_become_placeholders() -> None:
    message = {"role": "user", "content": [TEXT, IMAGE, REMOTE]}
    left, images = without_images(message)
    assert images == 2
    assert [part["text"] for part in left["content"]] == ["See:", PLACEHOLDER, PLACEHOLDER]
    assert is_image(message["content"][1])
    output = {**OUTPUT, "output": [IMAGE]}
    assert without_images(output)[0]["output"] == [{"type": "input_text", "text": PLACEHOLDER}]
    assert content_key(output) == "output"
    for other in (user("a"), CALL, "no object"):
        assert without_images(other) == (other, 0)


def test_long_outputs_are_shortened() -> None:
    text, left_out = shortened(LONG)
    assert text.startswith(LONG[:400])
    assert text.endswith(LONG[-200:])
    assert left_out == len(LONG) - 600
    assert shortened("short") == ("short", 0)
    assert shortened(" " * 700) == (" " * 700, 0)
    assert shortened_output(OUTPUT) == ({**OUTPUT, "output": text}, left_out)
    parts = {**OUTPUT, "output": [{"type": "input_text", "text": LONG}, TEXT, IMAGE]}
    assert shortened_output(parts)[0]["output"] == [{"type": "input_text", "text": text}, TEXT, IMAGE]
    for other in (user(LONG), {**OUTPUT, "output": "short"}, {**OUTPUT, "output": [TEXT]}, {**OUTPUT, "output": None}):
        assert shortened_output(other) == (other, 0)


def test_texts() -> None:
    assert texts_of(user("a")) == "a"
    assert texts_of({**OUTPUT, "output": [TEXT, IMAGE, {"type": "input_file"}]}) == f"See:\n{PLACEHOLDER}\n[input_file]"
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert texts_of(refusal) == "No."
    assert as_json(CALL).startswith('{"type":"function_call"')


def test_the_task_of_a_sub_agent_has_its_texts() -> None:
    content = [{"type": "input_text", "text": "Payload:"}, {"type": "encrypted_content", "encrypted_content": "Go"}]
    assert texts_of({"type": "agent_message", "content": content}) == "Payload:\nGo"
    assert texts_of({"type": "function_call_output", "name": "heartbeat", "output": "Look."}) == "Look."

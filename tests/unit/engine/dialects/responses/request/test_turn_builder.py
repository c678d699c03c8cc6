"""Items of a Responses request become turns."""

from __future__ import annotations

from support.responses_input import ASSISTANT, REASONING, USER, call, output, read, shape


def test_what_the_assistant_did_in_one_go_is_one_turn() -> None:
    request, _ = read(USER, REASONING, ASSISTANT, call("a"), call("b"), output("a"), output("b"), ASSISTANT, USER)
    assert shape(request) == [
        ("user", ["Text"]),
        ("assistant", ["Reasoning", "Text", "ToolCall", "ToolCall"]),
        ("user", ["ToolResult", "ToolResult"]),
        ("assistant", ["Text"]),
        ("user", ["Text"]),
    ]
    assert [turn.at for turn in request.turns] == [("input", n) for n in (0, 1, 5, 7, 8)]


def test_outputs_end_a_turn_and_a_message_behind_them_is_its_own() -> None:
    request, _ = read(USER, call("a"), output("a"), USER, call("b"), output("b"), REASONING, call("c"), output("c"))
    assert shape(request) == [
        ("user", ["Text"]),
        ("assistant", ["ToolCall"]),
        ("user", ["ToolResult"]),
        ("user", ["Text"]),
        ("assistant", ["ToolCall"]),
        ("user", ["ToolResult"]),
        ("assistant", ["Reasoning", "ToolCall"]),
        ("user", ["ToolResult"]),
    ]


def test_instructions_in_between_end_a_turn_too() -> None:
    developer = {"type": "message", "role": "developer", "content": "d"}
    request, _ = read(ASSISTANT, developer, ASSISTANT, output("a"), developer, output("b"))
    assert [role for role, _ in shape(request)] == [
        *("assistant", "instruction", "assistant"),
        *("user", "instruction", "user"),
    ]


def test_a_longer_history_extends_the_shorter_one() -> None:
    items = [USER, REASONING, ASSISTANT, call("a"), output("a"), ASSISTANT, USER, call("b"), output("b")]
    whole = read(*items)[0].turns
    for length in range(1, len(items)):
        turns = read(*items[:length])[0].turns
        assert turns[:-1] == whole[: len(turns) - 1]
        assert turns[-1].parts == whole[len(turns) - 1].parts[: len(turns[-1].parts)]

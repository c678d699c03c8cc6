from __future__ import annotations

from typing import Any

import pytest

from dragoman import Knobs
from dragoman.errors import Unsupported
from dragoman.policies.pad_first_user import PAD
from support.generate import GEMINI, send

Json = dict[str, Any]
CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
HI = {"role": "user", "content": "Hi"}


def chat(*messages: Json, **knobs: Any) -> Any:
    return send("chat", {"messages": list(messages)}, knobs=Knobs(**knobs))


def shape(sent: Any) -> list[tuple[str, list[str]]]:
    return [
        (content["role"], [part.get("text", next(iter(part))) for part in content["parts"]])
        for content in sent.contents
    ]


def test_instructions() -> None:
    sent = chat(
        {"role": "system", "content": "A"}, {"role": "developer", "content": [{"type": "text", "text": "B"}]}, HI
    )
    assert sent.body["systemInstruction"] == {"parts": [{"text": "A"}, {"text": "B"}]}
    assert shape(sent) == [("user", ["Hi"])]
    assert sent.codes == []
    assert "systemInstruction" not in chat({"role": "system", "content": ""}, HI).body


def test_late_instructions() -> None:
    messages = (HI, {"role": "system", "content": "S"}, {"role": "user", "content": "More"})
    moved = chat(*messages)
    assert moved.body["systemInstruction"] == {"parts": [{"text": "S"}]}
    assert moved.codes == ["system_moved"]
    demoted = chat(*messages, mid_system="user")
    assert shape(demoted) == [("user", ["Hi", "<system>\nS\n</system>", "More"])]
    assert demoted.codes == ["system_demoted"]


def test_instructions_for_a_model_that_takes_none() -> None:
    body = {"messages": [{"role": "system", "content": "S"}, HI, {"role": "system", "content": "T"}]}
    sent = send("chat", body, GEMINI.replace({"system": False}))
    assert "systemInstruction" not in sent.body
    assert shape(sent) == [("user", ["<system>\nS\n</system>", "Hi", "<system>\nT\n</system>"])]
    assert sent.codes == ["system_demoted", "system_demoted"]


def test_instructions_alone_are_the_users() -> None:
    sent = chat({"role": "system", "content": "Go"})
    assert shape(sent) == [("user", ["Go"])]
    assert sent.codes == ["system_demoted"]
    with pytest.raises(Unsupported, match="messages"):
        chat({"role": "user", "content": ""})
    with pytest.raises(Unsupported, match="input"):
        send("responses", {"input": ""})


def test_turns_of_one_role_are_one_content() -> None:
    sent = chat(
        HI, HI, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}, {**HI, "name": "N"}
    )
    assert shape(sent) == [("user", ["Hi", "Hi"]), ("model", ["a", "b"]), ("user", ["Hi"])]
    assert sent.codes == ["participant_name"]


def test_results_come_first() -> None:
    sent = chat(
        HI,
        {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "b"}]},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "user", "content": "Wait"},
        {"role": "tool", "tool_call_id": "a", "content": "A"},
    )
    assert shape(sent)[2] == ("user", ["functionResponse", "functionResponse", "Wait"])
    assert [part["functionResponse"]["id"] for part in sent.contents[2]["parts"][:2]] == ["a", "b"]
    assert "block_order" in sent.codes


def test_a_conversation_that_begins_with_the_model() -> None:
    """The API refuses a first content of the model. An empty message of the user's does not count."""
    for messages in (
        ({"role": "assistant", "content": "Hello"}, HI),
        ({"role": "user", "content": ""}, {"role": "assistant", "content": "Hello"}, HI),
        (
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "a", "content": "A"},
        ),
    ):
        for knob in ("off", "on"):
            sent = chat(*messages, pad_first_user=knob)
            assert [role for role, _ in shape(sent)][:2] == ["user", "model"]
            assert shape(sent)[0][1] == [PAD]
            assert sent.codes.count("user_padded") == 1


@pytest.mark.parametrize(
    ("prefill", "last"),
    [("auto", "user"), ("drop", "user"), ("pass", "model")],
)
def test_a_conversation_that_ends_with_the_model(prefill: str, last: str) -> None:
    sent = chat(HI, {"role": "assistant", "content": "Once"}, prefill=prefill)
    assert sent.contents[-1]["role"] == last
    assert ("<answer>\nOnce\n</answer>" in shape(sent)[-1][1][-1]) == (prefill == "auto")
    assert sent.codes == ["continuation"]


def test_a_conversation_that_must_not_end_with_the_model() -> None:
    with pytest.raises(Unsupported, match=r"messages\[1\]"):
        chat(HI, {"role": "assistant", "content": "Once"}, prefill="reject")


def test_content_of_the_assistant() -> None:
    sent = send(
        "messages",
        {
            "messages": [
                HI,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
                        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                        {
                            "type": "text",
                            "text": "y",
                            "citations": [
                                {
                                    "type": "web_search_result_location",
                                    "url": "u",
                                    "title": "t",
                                    "cited_text": "",
                                    "encrypted_index": "e",
                                }
                            ],
                        },
                    ],
                },
                HI,
            ]
        },
    )
    assert shape(sent)[1] == ("model", ["x", "y"])
    assert sorted(sent.codes) == ["cache_hint", "citations", "hosted_history"]


def test_a_refusal_in_the_history_is_text() -> None:
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert shape(chat(HI, refusal, HI))[1] == ("model", ["No."])


def test_what_cannot_be_read_becomes_a_placeholder_in_the_history() -> None:
    unknown = {"role": "user", "content": [{"type": "hologram"}]}
    sent = chat(unknown, {"role": "assistant", "content": "Seen."}, HI)
    assert "left out" in shape(sent)[0][1][0]
    assert sent.codes == ["content_replaced"]

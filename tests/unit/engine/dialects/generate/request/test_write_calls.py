from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.errors import Unsupported
from support.generate import GEMINI, OLDER, send

Json = dict[str, Any]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
INLINE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
PLAIN = GEMINI.replace({"signed_calls": False})


def session(results: list[Json], *, profile: Any = PLAIN, **given: Any) -> Any:
    calls = [{"type": "tool_use", "id": f"c{n}", "name": name, "input": given} for n, name in enumerate("ab")]
    return send(
        "messages",
        {
            "messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": calls},
                {"role": "user", "content": results},
            ]
        },
        profile,
    )


def result(number: int, content: Any = "ok", **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": f"c{number}", "content": content, **fields}


def answers(sent: Any) -> list[Json]:
    return [part.get("functionResponse", part) for part in sent.contents[2]["parts"]]


def test_results_are_in_the_order_of_the_calls() -> None:
    sent = session([result(1, "B", is_error=True), result(0, "A")], city="Oslo")
    assert sent.contents[1]["parts"][0] == {"functionCall": {"id": "c0", "name": "a", "args": {"city": "Oslo"}}}
    assert answers(sent) == [
        {"id": "c0", "name": "a", "response": {"output": "A"}},
        {"id": "c1", "name": "b", "response": {"error": "B"}},
    ]
    assert sent.codes == []


def test_media_of_a_result() -> None:
    content = [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}]
    nested = session([result(0, content), result(1)])
    assert answers(nested)[0] == {"id": "c0", "name": "a", "response": {"output": "a\nb"}, "parts": [INLINE]}
    assert nested.codes == []
    moved = session([result(0, content), result(1)], profile=OLDER)
    assert answers(moved)[0]["response"] == {"output": "a\n[The file follows the tool results.]\nb"}
    assert answers(moved)[2] == INLINE
    assert moved.codes == ["result_media_moved"]


def test_other_content_of_a_result() -> None:
    found = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "b"}]}
    sent = session([result(0, [found, {"type": "tool_reference", "tool_name": "a"}]), result(1, [])])
    assert answers(sent)[0]["response"] == {"output": "t\ns\nb\nTool loaded: a"}
    assert answers(sent)[1]["response"] == {"output": ""}
    assert sorted(sent.codes) == ["result_shape", "search_result_shape"]


def test_a_file_in_a_result_that_cannot_be_sent_becomes_a_placeholder() -> None:
    gif = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGODlh"}}
    sent = session([result(0, [gif]), result(1)])
    assert "left out" in answers(sent)[0]["response"]["output"]
    assert sent.codes == ["content_replaced"]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [('{"n": 1.10}', {"n": 1.1}), ("", {}), ("[]", {}), ("{oops", {"invalid_arguments": "{oops"})],
)
def test_arguments(arguments: str, sent: Json) -> None:
    call = {"id": "c0", "type": "function", "function": {"name": "a", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c0", "content": "ok"},
    ]
    written = send("chat", {"messages": messages}, PLAIN)
    assert written.contents[1]["parts"][0]["functionCall"]["args"] == sent
    assert written.codes == (["call_arguments"] if arguments == "{oops" else [])


def test_ids_are_fitted_on_both_sides() -> None:
    call = {"id": "x" * 99, "type": "function", "function": {"name": "a", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x" * 99, "content": "ok"},
    ]
    body = send("chat", {"messages": messages}, PLAIN).body
    assert len(json.dumps(body)) < 400


def test_a_call_without_a_result() -> None:
    sent = session([result(0)])
    assert answers(sent)[1]["name"] == "b"
    assert list(answers(sent)[1]["response"].values()) == ["no result recorded"]
    assert sent.codes == ["orphan_repaired"]


def test_calls_at_the_end() -> None:
    with pytest.raises(Unsupported, match=r"messages\[1\]"):
        send(
            "messages",
            {
                "messages": [
                    {"role": "user", "content": "x"},
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "a", "input": {}}]},
                ]
            },
        )

"""Sessions of several turns: what a client gets of a reply, and what of it is sent back to Gemini."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Knobs
from dragoman.dialects.generate.signatures import SKIP, block_of
from dragoman.reasoning.envelope import Envelope
from dragoman.wire.sse_parser import Parser
from support.generate import GEMINI, OLDER, chunk, new_context, read, send, sse, written

Json = dict[str, Any]
CALL: Json = {"functionCall": {"id": "c1", "name": "look", "args": {"city": "Oslo"}}, "thoughtSignature": "SIG1"}
SECOND: Json = {"functionCall": {"id": "c2", "name": "look", "args": {}}}
TEXT = {"text": "Three", "thoughtSignature": "SIG3"}
TOOL: Json = {"name": "look", "input_schema": {"type": "object"}}


def replayed(parts: list[Json]) -> list[Json]:
    """The content of an assistant message that a Messages client makes of a stream with these parts."""
    context = new_context()
    data = written(
        read(sse([chunk([part]) for part in parts] + [chunk([{"text": ""}], "STOP", usage=(1, 1))]), context),
        "messages",
        context,
    )
    parser = Parser(context.limits)
    blocks: list[Json] = []
    for frame in [*parser.parse(data), *parser.finish()]:
        event = json.loads(frame.data or b"{}")
        if event.get("type") == "content_block_start":
            blocks.append({key: value for key, value in event["content_block"].items() if value is not None})
        elif event.get("type") == "content_block_delta":
            delta = event["delta"]
            for kind, key in (("text", "text"), ("thinking", "thinking"), ("signature", "signature")):
                if kind in delta:
                    blocks[-1][key] = blocks[-1].get(key, "") + delta[kind]
            if "partial_json" in delta:
                blocks[-1]["input"] = json.loads(delta["partial_json"])
    for block in blocks:
        block.pop("caller", None)
    return blocks


def session(*steps: list[Json], **options: Any) -> Any:
    """A request after these replies, each of which but the last is followed by the results of its calls."""
    messages: list[Json] = [{"role": "user", "content": "Go"}]
    for step in steps:
        content = replayed(step)
        ids = [block["id"] for block in content if block["type"] == "tool_use"]
        messages.append({"role": "assistant", "content": content})
        results = [{"type": "tool_result", "tool_use_id": each, "content": "ok"} for each in ids]
        messages.append({"role": "user", "content": results or "Next"})
    return send("messages", {"messages": messages, "tools": [TOOL]}, **options)


def model(sent: Any) -> list[list[Json]]:
    return [content["parts"] for content in sent.contents if content["role"] == "model"]


@pytest.mark.parametrize(
    "parts",
    [
        [CALL],
        [CALL, SECOND],
        [{"text": "Looking"}, CALL, SECOND],
        [{"text": "Three"}, {"text": "", "thoughtSignature": "SIG3"}],
        [{"text": "Looking"}, {"text": "", "thoughtSignature": "SIG0"}, CALL],
        [{"text": "Hm", "thought": True, "thoughtSignature": "SIG0"}, CALL],
    ],
)
def test_parts_come_back_as_they_were(parts: list[Json]) -> None:
    sent = session(parts)
    assert model(sent) == [parts]
    assert sent.codes == []


def test_the_signature_of_a_text_comes_back_behind_it() -> None:
    """As in Google's streams. It stands behind the text at the client too."""
    sent = session([TEXT])
    assert model(sent) == [[{"text": TEXT["text"]}, {"text": "", "thoughtSignature": TEXT["thoughtSignature"]}]]
    assert sent.codes == []


def test_reasoning_is_not_sent_back() -> None:
    sent = session(
        [{"text": "Need ", "thought": True}, {"text": "it", "thought": True}, CALL],
        [{"text": "Hm", "thought": True}, {"text": "Done"}],
    )
    assert model(sent) == [[CALL], [{"text": "Done"}]]
    assert sent.codes == []


def test_three_steps() -> None:
    steps = [
        [{**CALL, "functionCall": {**CALL["functionCall"], "id": f"c{n}"}, "thoughtSignature": f"SIG{n}"}]
        for n in range(3)
    ]
    assert model(session(*steps)) == steps


def test_a_longer_history_begins_with_a_shorter_one() -> None:
    steps = [[CALL], [{"text": "Done"}], [{**CALL, "functionCall": {**CALL["functionCall"], "id": "c9"}}]]
    shorter, longer = session(*steps[:2]), session(*steps)
    assert longer.contents[: len(shorter.contents)] == shorter.contents


def test_a_session_that_moved_from_claude() -> None:
    content = [
        {"type": "thinking", "thinking": "Plan", "signature": "EqQB"},
        {"type": "tool_use", "id": "a", "name": "look", "input": {}},
        {"type": "tool_use", "id": "b", "name": "look", "input": {}},
    ]
    results = [{"type": "tool_result", "tool_use_id": each, "content": "ok"} for each in "ab"]
    messages = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": results},
    ]
    sent = send("messages", {"messages": messages})
    first, second = model(sent)[0]
    assert first["thoughtSignature"] == SKIP
    assert "thoughtSignature" not in second
    assert sent.codes == ["reasoning_foreign", "reasoning_filled"]
    older = send("messages", {"messages": messages}, OLDER)
    assert "thoughtSignature" not in model(older)[0][0]
    assert older.codes == ["reasoning_foreign"]
    shown = send("messages", {"messages": messages}, OLDER, Knobs(demote_reasoning="on"))
    assert model(shown)[0][0] == {"text": "Plan"}


def test_a_chat_client_has_no_signatures() -> None:
    calls = [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    messages = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
    ]
    sent = send("chat", {"messages": messages})
    assert model(sent)[0][0]["thoughtSignature"] == SKIP
    assert sent.codes == ["reasoning_filled"]


def test_another_family_gets_no_signature() -> None:
    sent = session([CALL], profile=GEMINI.replace({"family": "elsewhere"}))
    assert model(sent)[0][0]["thoughtSignature"] == SKIP
    assert sent.codes == ["reasoning_foreign", "reasoning_filled"]


def test_a_signature_whose_part_is_gone() -> None:
    signature = Envelope("generate", "m").wrap("generate", block_of("functionCall", "", "SIG1"))
    content = [{"type": "thinking", "thinking": "", "signature": signature}, {"type": "text", "text": "Hi"}]
    messages = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": "x"},
    ]
    sent = send("messages", {"messages": messages})
    assert model(sent) == [[{"text": "Hi"}]]
    assert sent.codes == ["thinking_invalidated"]
    doubled = send(
        "messages", {"messages": [messages[0], {"role": "assistant", "content": [content[0], *content]}, messages[2]]}
    )
    assert doubled.codes == ["thinking_invalidated"] * 2


def test_a_responses_client() -> None:
    signature = Envelope("generate", "m").wrap("generate", block_of("functionCall", "Need", "SIG1"))
    items = [
        {"role": "user", "content": "Go"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": signature},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"city":"Oslo"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ]
    sent = send("responses", {"input": items})
    assert model(sent) == [[CALL]]
    assert sent.codes == []

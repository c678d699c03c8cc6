"""Texts of requests and replies, replaced; their structure stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.observability.captures.hide_texts import Declared, declared, hide_texts

NAMES = Declared(frozenset((b"get_weather",)), frozenset((b"city", b"days")))
SECRET = "zebra"


def hidden(value: Any, names: Declared = NAMES) -> Any:
    """The value after its texts were replaced."""
    body = json.dumps(value).encode()
    found = bytes(hide_texts(body, names))
    assert len(found) == len(body)
    return json.loads(found)


def frames(*payloads: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads)


@pytest.mark.parametrize(
    "value",
    [
        {"model": "gpt-5.5", "stream": True, "max_tokens": 100, "tool_choice": "auto"},
        {"type": "message", "role": "assistant", "id": "msg_01Ab", "stop_reason": "end_turn"},
        {"tools": [{"type": "function", "name": "get_weather", "strict": False}]},
        {"reasoning": {"effort": "high", "summary": "auto"}, "include": ["reasoning.encrypted_content"]},
        {"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "param": "input[0].text"}},
        {"candidates": [{"finishReason": "STOP", "index": 0}], "modelVersion": "gemini-3", "responseId": "aB3_x-9"},
        {"usage": {"input_tokens": 5, "output_tokens": 9}, "created": 1790000000, "index": 0},
        {
            "tools": [
                {
                    "input_schema": {
                        "type": "object",
                        "properties": {"input": {"type": "string"}, "env": {"type": "object"}},
                        "required": ["input"],
                    }
                }
            ]
        },
    ],
)
def test_the_protocol_stays(value: Any) -> None:
    assert hidden(value) == value


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [{"role": "user", "content": SECRET, "name": SECRET}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": SECRET}]}], "system": SECRET},
        {"input": SECRET, "instructions": SECRET, "user": SECRET, "metadata": {SECRET: SECRET}},
        {
            "input": [
                {"type": "function_call", "arguments": json.dumps({"city": SECRET, SECRET: [SECRET, {"a": SECRET}]})}
            ]
        },
        {"content": [{"type": "tool_use", "input": {"city": SECRET, SECRET: {SECRET: [SECRET]}}}]},
        {
            "tools": [
                {
                    "name": "get_weather",
                    "description": SECRET,
                    "input_schema": {
                        "properties": {"city": {"enum": [SECRET], "default": SECRET, "description": SECRET}}
                    },
                }
            ]
        },
        {"error": {"type": "invalid_request_error", "message": SECRET}},
        {"type": "code_interpreter_call", "code": f"{SECRET}[0]", "outputs": [{"logs": SECRET}]},
        {"id": f"{SECRET} {SECRET}", "unknown": SECRET, f"{SECRET} {SECRET}": 1},
        {"choices": [{"logprobs": {"content": [{"token": SECRET, "top_logprobs": [{"token": SECRET}]}]}}]},
        {"image_url": {"url": f"https://example.com/{SECRET}"}, "filename": SECRET},
        {"headers": {"authorization": SECRET}, "variables": {"type": SECRET, "model": SECRET}},
        [SECRET, [SECRET], {"type": [SECRET + " "]}],
        SECRET,
    ],
)
def test_texts_are_replaced(value: Any) -> None:
    assert SECRET not in json.dumps(hidden(value))


def test_numbers_of_inputs_are_replaced_and_their_declared_names_stay() -> None:
    found = hidden({"content": [{"type": "tool_use", "input": {"city": "Oslo", "days": 25, "zip": -0.75, "on": True}}]})
    assert found["content"][0]["input"] == {"city": "xxxx", "days": 11, "xxx": -1.11, "xx": True}
    found = hidden({"arguments": '{"city": "Oslo \\" x", "days": [25, null], "zip": 0.5e3}'})
    assert json.loads(found["arguments"]) == {"city": 'xxxxx"xx', "days": [11, None], "xxx": 1.1e1}
    assert hidden({"logprobs": {"bytes": [72, 101]}}) == {"logprobs": {"bytes": [11, 111]}}


def test_texts_as_tokens_are_replaced() -> None:
    """Forwarded endpoints take and return texts as numbers of tokens, and tokens as the names of members."""
    assert hidden({"input": [[72, 101], [108]], "prompt": [15]}) == {"input": [[11, 111], [111]], "prompt": [11]}
    legacy = {"logprobs": {"tokens": [SECRET], "top_logprobs": [{SECRET: -0.25}], "text_offset": [3]}}
    found = hidden(legacy)["logprobs"]
    assert (found["tokens"], found["top_logprobs"], found["text_offset"]) == (["xxxxx"], [{"xxxxx": -0.25}], [3])
    found = hidden({"top_logprobs": [{"token": SECRET, "logprob": -0.25, "bytes": [72]}]})["top_logprobs"]
    assert found == [{"token": "xxxxx", "logprob": -0.25, "bytes": [11]}]
    assert hidden({"top_logprobs": 5, "usage": {"input": 5}}) == {"top_logprobs": 5, "usage": {"input": 5}}


def test_documents_are_replaced_with_their_names_and_numbers() -> None:
    value = {"documents": [SECRET, {"id": SECRET, SECRET: 25}], "results": [{"index": 3, "document": {"type": SECRET}}]}
    found = hidden(value)
    assert found["documents"][1] == {"xx": "xxxxx", "xxxxx": 11}
    assert found["results"] == [{"index": 3, "document": {"xxxx": "xxxxx"}}]
    assert SECRET not in json.dumps(found)


def test_a_url_keeps_its_start() -> None:
    found = hidden({"url": "data:image/png;base64,iVBORw0K", "other": "https://a.example/b"})
    assert found == {"url": "data:image/png;base64,xxxxxxxx", "other": "https://xxxxxxxxxxx"}


def test_a_stop_sequence_is_in_no_text() -> None:
    found = hidden({"stop": ["END"], "content": "a text to the END"})
    assert found["stop"][0] not in found["content"]


@given(st.integers(0, 60), st.booleans())
def test_arguments_in_fragments_are_read_as_a_whole(cut: int, with_index: bool) -> None:
    arguments = '{"city": "ze\\u00e9bra \\"q\\" \\\\", "days": 12345, "list": [true, "zebra"]}'
    other = '{"city": "zebra"}'
    first = {"index": 0} if with_index else {}

    def chunk(text: str, index: int) -> Any:
        call = (
            {"function": {"arguments": text}, "index": index} if index else {"function": {"arguments": text}, **first}
        )
        return {"choices": [{"delta": {"tool_calls": [call]}, "index": 0}], "id": "x"}

    data = frames(chunk(arguments[:cut], 0), chunk(other[:8], 1), chunk(arguments[cut:], 0), chunk(other[8:], 1))
    found = bytes(hide_texts(data, NAMES))
    assert len(found) == len(data)
    payloads = [json.loads(line[6:]) for line in found.splitlines() if line]
    texts = [each["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] for each in payloads]
    value = json.loads(texts[0] + texts[2])
    assert list(value) == ["city", "days", "xxxx"]
    assert value["days"] == 11111
    assert json.loads(texts[1] + texts[3]) == {"city": "xxxxx"}
    assert b"zebra" not in found


def test_deltas_of_responses_are_texts_or_arguments_by_their_type() -> None:
    kind = "response.function_call_arguments.delta"
    data = frames(
        {"type": "response.output_text.delta", "output_index": 0, "delta": '{"city": 1}'},
        {"delta": '{"ci', "type": kind, "output_index": 1},
        {"delta": '{"days":', "type": kind, "output_index": 2},
        {"delta": 'ty": "zebra"}', "type": kind, "output_index": 1},
        {"delta": " 77}", "type": kind, "output_index": 2},
    )
    found = [json.loads(line[6:])["delta"] for line in bytes(hide_texts(data, NAMES)).splitlines() if line]
    assert found == ['xx"xxxx"xxxx', '{"ci', '{"days":', 'ty": "xxxxx"}', " 11}"] or found[0].count("x") == 9
    assert json.loads(found[1] + found[3]) == {"city": "xxxxx"}
    assert json.loads(found[2] + found[4]) == {"days": 11}


def test_lines_of_a_stream() -> None:
    data = (
        b"event: message_start\r\nid: 12\r\nretry: 5\r\n"
        b'data: {"type": "message_start",\r\ndata: "text": "zebra"}\r\n\r\n'
        b": zebra\n: keep-alive\n:\n\nevent: zebra zebra\n"
        b"zebra\ndata: zebra\n\ndata: [DONE]\n\n"
    )
    found = bytes(hide_texts(data, NAMES))
    assert found == (
        b"event: message_start\r\nid: 12\r\nretry: 5\r\n"
        b'data: {"type": "message_start",\r\ndata: "text": "xxxxx"}\r\n\r\n'
        b":xxxxxx\n: keep-alive\n:\n\nevent:xxxxxxxxxxxx\n"
        b"xxxxx\ndata: xxxxx\n\ndata: [DONE]\n\n"
    )


def test_a_bare_error_in_a_stream_keeps_its_structure() -> None:
    error = {"error": {"code": 503, "message": SECRET, "status": "UNAVAILABLE"}}
    body = frames({"text": SECRET}) + json.dumps(error, indent=2).encode() + b"\n\nzebra {\n" + b'{"a": "zebra\n\n'
    found = bytes(hide_texts(body, NAMES))
    assert len(found) == len(body)
    assert SECRET.encode() not in found
    _, shown, rest, *_ = found.split(b"\n\n")
    assert json.loads(shown)["error"] | {"message": ""} == {"code": 503, "message": "", "status": "UNAVAILABLE"}
    assert rest.startswith(b"xxxxxxx\n")


@pytest.mark.parametrize("body", [b"<html>zebra</html>", b"zebra", b"\xff\xfezebra", b"", b"\xef\xbb\xbf"])
def test_another_body_is_replaced_as_a_whole(body: bytes) -> None:
    found = bytes(hide_texts(body, NAMES))
    assert len(found) == len(body)
    assert b"zebra" not in found


def test_a_cut_body_shows_nothing_at_any_cut() -> None:
    whole = json.dumps({"model": "m", "messages": [{"content": "zebra\n", "arguments": '{"city": "zebra", "q": 9}'}]})
    for data in (whole.encode(), frames(json.loads(whole)), whole.encode("utf-16"), whole.replace(":", " ").encode()):
        for cut in range(len(data)):
            found = bytes(hide_texts(data[:cut], NAMES))
            assert len(found) == cut
            assert b"zeb" not in found
            assert b"9" not in found


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(("type", "arguments", "input", "delta", "index", "é a", "stop")) | st.text(), inner
            )
        ),
    )
)
def test_any_json_stays_json_of_the_same_shape(value: Any) -> None:
    body = json.dumps(value).encode()
    found = hide_texts(body, NAMES)
    assert len(found) == len(body)

    def shape(value: Any) -> Any:
        if isinstance(value, list):
            return [shape(each) for each in value]
        return "object" if isinstance(value, dict) else type(value).__name__

    if isinstance(value, (dict, list)):
        assert shape(json.loads(found)) == shape(value)


def test_declared_names_are_those_of_tools() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}}
    body = {
        "messages": [{"name": "not_this"}],
        "tools": [{"function": {"name": "one", "parameters": schema}}, {"name": "two", "tools": [{"name": "three"}]}],
    }
    found = declared(json.dumps(body).encode())
    assert found == (frozenset((b"one", b"two", b"three")), frozenset((b"a", b"b")))
    assert declared(b"[1]") == declared(b"{") == Declared()
    assert found | NAMES == (found.tools | NAMES.tools, found.members | NAMES.members)

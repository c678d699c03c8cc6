"""Frames and requests, shortened to the width of a terminal."""

from __future__ import annotations

from typing import Any

from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame
from dragoman_server.cli.demo.frame_excerpt import body_text, frame_lines
from dragoman_server.cli.demo.terminal import StyledText, fit


def test_a_long_frame_is_shortened_to_what_changes() -> None:
    data = (
        b'{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
        b'{"tool_calls":[{"index":1,"function":{"arguments":"{\\"a"}}]},"finish_reason":null}],"usage":null}'
    )
    lines = [(StyledText("data: ", "dim"), StyledText(r'"index":1 "arguments":"{\"a"', "yellow"))]
    assert frame_lines(Frame("", data), 50) == lines
    assert _shown(Frame("", b'{"a":1}'), 50) == ['data: {"a":1}']
    assert _shown(Frame("", b"[DONE]"), 50) == ["data: [DONE]"]
    assert _shown(Frame("", None), 50) == [": ping"]


def _shown(frame: Frame, width: int) -> list[str]:
    return ["".join(span.text for span in row) for row in frame_lines(frame, width)]


def _response_event(kind: str, **more: Any) -> Frame:
    return Frame(kind, dumps({"type": kind, "sequence_number": 7, **more}))


def test_an_event_of_responses_is_shortened_to_what_is_new() -> None:
    where = {"item_id": "msg_1" * 9, "output_index": 0, "content_index": 0}
    delta = _response_event("response.output_text.delta", **where, delta="Hello, everybody", logprobs=[])
    assert _shown(delta, 60) == ['…output_text.delta  "delta":"Hello, everybody" "output_index":0']
    assert frame_lines(delta, 60)[0][1].style == "green"
    # The echo of the request and the content that earlier events had are left out; the counts are not.
    sent_before = {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}
    usage = {"input_tokens": 12, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 6, "total_tokens": 18}
    response = {
        "id": "resp_1",
        "status": "completed",
        "tools": [{"name": "t"}],
        "output": [sent_before],
        "usage": usage,
    }
    completed = _response_event("response.completed", response=response)
    assert _shown(completed, 99) == [
        '…completed          "status":"completed" "input_tokens":12 "cached_tokens":4 "output_tokens":6'
    ]
    assert frame_lines(completed, 99)[0][1].style == "blue"


def test_what_a_call_is_named_is_never_cut_off() -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_" + "7" * 30, "name": "add_note", "arguments": ""}
    added = _response_event("response.output_item.added", output_index=1, item={**item, "namespace": "mcp__notes"})
    shown = "".join(cut for row in frame_lines(added, 57) for cut, _ in fit(row, 57))
    for piece in ('"type":"function_call"', '"namespace":"mcp__notes"', '"name":"add_note"'):
        assert piece in shown
    assert '"call_id":"call_777777777…"' in _shown(added, 99)[1]
    failed = _response_event("response.failed", response={"status": "failed", "error": {"message": "m" * 50}})
    assert 'm"' in _shown(failed, 57)[-1], "an error is worth more than one line"


def test_long_parts_of_a_request_are_folded() -> None:
    assert (
        body_text({"model": "m", "messages": [{"role": "user", "content": "x" * 40}]}) == '{"model":"m","messages":[…]}'
    )
    turns = [{"role": "user", "content": "x" * 40}, {"role": "assistant", "content": "y"}]
    assert body_text({"messages": turns}) == '{"messages":[{"role":"user",…},{"role":"assistant",…}]}'
    function = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    assert body_text({"tools": [function]}) == '{"tools":[{"function":{"name":"f",…},…}]}'


def test_a_chunk_of_gemini_shows_what_changes() -> None:
    part = {"functionCall": {"name": "look", "args": {"city": "Oslo"}}, "thoughtSignature": "c2ln" * 20}
    chunk = {
        "candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 12, "totalTokenCount": 12},
        "modelVersion": "m",
        "responseId": "x",
    }
    [shown] = frame_lines(Frame("", dumps(chunk)), 120)
    text = "".join(part.text for part in shown)
    assert text == 'data: "name":"look" "city":"Oslo" "thoughtSignature":"c2lnc2lnc2lnc2…" "promptTokenCount":12'
    assert shown[1].style == "yellow"

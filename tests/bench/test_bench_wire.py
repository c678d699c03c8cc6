"""The rig's replies are what vendors send: well framed, whole, and understood by the engine in every direction."""

from __future__ import annotations

import json
from typing import Any

import httptools
import pytest

from dragoman import Translation, direction
from dragoman.reply_context import ReplyContext
from dragoman_bench.agent_request import agent_request
from dragoman_bench.generate_reply import generate_reply
from dragoman_bench.replies import Reply, reply
from dragoman_bench.turn_replies import turn_reply
from dragoman_bench.wire import (
    CLOCK,
    DIALECTS,
    MARK,
    MARK_BYTES,
    NUMBERS,
    REPEATING,
    TERMINAL,
    Script,
    filler,
    read_script,
    request,
)
from support.generate import judge

SERIAL = 7
EVENTS = 12


class Body:
    """Return the content of the chunked or sized body of a reply."""

    def __init__(self, data: bytes) -> None:
        self.body = b""
        self.complete = False
        parser = httptools.HttpResponseParser(self)
        parser.feed_data(data)
        self.status = parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self.body += body

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self.complete = True


def streamed(sent: Reply, events: int = EVENTS) -> bytes:
    """A whole stream on the wire."""
    texts = [sent.text(SERIAL, n, 1000 + n, last=n == events - 1) for n in range(events)]
    deltas = [
        (sent.between(n, texts[:n]) if n in sent.breaks else b"")
        + sent.delta(SERIAL, n, 1000 + n, last=n == events - 1)
        for n in range(events)
    ]
    return sent.opening + b"".join(deltas) + sent.closing(texts)


def payloads(body: bytes) -> list[Any]:
    """The JSON of each frame."""
    lines = (frame.splitlines()[-1] for frame in body.split(b"\n\n") if frame)
    return [json.loads(line[6:]) for line in lines if line != b"data: [DONE]"]


@pytest.mark.parametrize("size", [0, MARK_BYTES, 32, 500])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_is_well_framed_and_has_each_delta_once(dialect: str, size: int) -> None:
    got = Body(streamed(reply(dialect, size)))
    assert got.complete
    assert got.status == 200
    assert TERMINAL[dialect] in got.body
    assert payloads(got.body)
    output = REPEATING.split(got.body)[0]
    marks = MARK.findall(output)
    assert [int(number) for number, _, _ in marks] == [SERIAL * NUMBERS + n for n in range(EVENTS)]
    assert [flag for _, flag, _ in marks] == [b"@"] * (EVENTS - 1) + [b"!"]
    assert [int(sent) for _, _, sent in marks] == [1000 + n for n in range(EVENTS)]
    assert output.count(filler(size)) >= EVENTS


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_whole_reply_is_json_with_its_text(dialect: str) -> None:
    got = Body(reply(dialect, 80).whole)
    assert got.complete
    assert len(MARK.findall(json.dumps(json.loads(got.body)).encode())) == 1


def test_a_responses_stream_counts_its_events_and_repeats_its_text() -> None:
    events = payloads(Body(streamed(reply("responses", 40), 120)).body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert events[-4]["text"] == text
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == text


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_the_engine_translates_every_delta_in_order(client: str, upstream: str) -> None:
    body = Body(streamed(reply(upstream, 40))).body
    machine = Translation(direction(client, upstream), b"", True, ReplyContext("m"), "m").stream_machine()
    out = (machine.feed(body) or b"") + (machine.finish() or b"")
    output = REPEATING.split(out)[0]
    assert [int(number) % NUMBERS for number, _, _ in MARK.findall(output)] == list(range(EVENTS))
    assert TERMINAL[client] in out


@pytest.mark.parametrize("client", DIALECTS)
def test_every_chunk_of_gemini_is_translated_in_order(client: str) -> None:
    body = Body(streamed(generate_reply(40))).body
    chunks = payloads(body.replace(b"\r\n", b"\n"))
    counts = [chunk["usageMetadata"]["candidatesTokenCount"] for chunk in chunks]
    assert counts[:-1] == list(range(1, EVENTS + 1))
    machine = Translation(direction(client, "generate"), b"", True, ReplyContext("m"), "m").stream_machine()
    out = (machine.feed(body) or b"") + (machine.finish() or b"")
    output = REPEATING.split(out)[0]
    assert [int(number) % NUMBERS for number, _, _ in MARK.findall(output)] == list(range(EVENTS))
    assert TERMINAL[client] in out


def test_the_requests_that_stand_for_gemini_s_are_valid() -> None:
    for sent in (agent_request("generate", "m"), request("generate", "m")):
        judge(json.loads(sent))


def test_the_clock_wraps_without_changing_a_mark_s_length() -> None:
    sent = reply("chat", 0)
    assert len(sent.delta(1, 1, 5, last=False)) == len(sent.delta(99_999, 999_999, CLOCK * 3 - 1, last=True))


@pytest.mark.parametrize(
    "script",
    [
        Script(200, 20, 32),
        Script(1, 0, 25),
        Script(5, 0, 100, 16),
        Script(9, 0, 25, joined=True),
        Script(1, size=300, whole=True),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("prefix", ["", "openai/", "custom,"])
def test_a_model_name_selects_the_script(script: Script, dialect: str, prefix: str) -> None:
    body = request(dialect, prefix + script.model, stream=not script.whole)
    assert json.loads(body)["model"] == prefix + script.model
    assert read_script(body) == script


def test_only_a_whole_name_is_a_script() -> None:
    assert read_script(b'{"model":"gpt"}') is None
    assert read_script(b'{"messages":"bench-e5-p0 is a name","model":"bench-e7-p0"}') == Script(7)
    assert read_script(b'{"model":"bench-e0-p0"}') is None
    assert read_script(b'{"model":"bench-e5-p0-x"}') is None
    assert read_script(b'{"model":"bench-e5-p0-b0"}') is None


@pytest.mark.parametrize("wrong", [{"events": 0}, {"events": NUMBERS}, {"events": 1, "batch": 0}])
def test_a_script_has_bounds(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"1"):
        Script(**wrong)


# --- an agent's turn ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_a_turn_is_understood_in_every_direction(client: str, upstream: str) -> None:
    events = 20
    body = Body(streamed(turn_reply(upstream, events, 40), events)).body
    machine = Translation(direction(client, upstream), b"", True, ReplyContext("m"), "m").stream_machine()
    frames = [frame for frame in machine.feed(body).split(b"\n\n") if not REPEATING.search(frame)]
    marks = MARK.findall(b"\n\n".join(frames))
    assert [int(number) for number, _, _ in marks] == [SERIAL * NUMBERS + n for n in range(events)]
    assert [flag for _, flag, _ in marks] == [b"@"] * (events - 1) + [b"!"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_turn_has_reasoning_text_and_two_calls(dialect: str) -> None:
    got = Body(streamed(turn_reply(dialect, 20, 40), 20))
    assert got.complete
    assert TERMINAL[dialect] in got.body
    kinds = [
        {"chat": _chat_kind, "messages": _messages_kind, "responses": _responses_kind}[dialect](each)
        for each in payloads(got.body)
    ]
    texts: dict[str, str] = {}
    for kind, text in filter(None, kinds):
        texts[kind] = texts.get(kind, "") + text
    assert [len(MARK.findall(text.encode())) for text in texts.values()] == [4, 8, 4, 4]
    assert list(texts) == ["reasoning", "text", "call 0", "call 1"]
    assert all(json.loads(texts[f"call {at}"])["text"] for at in (0, 1))
    if dialect == "responses":
        events = payloads(got.body)
        assert [each["sequence_number"] for each in events] == list(range(len(events)))
        output = events[-1]["response"]["output"]
        assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "function_call"]
        assert [output[0]["summary"][0]["text"], output[1]["content"][0]["text"]] == [texts["reasoning"], texts["text"]]
        assert [item["arguments"] for item in output[2:]] == [texts["call 0"], texts["call 1"]]


def _chat_kind(event: Any) -> tuple[str, str] | None:
    delta = event["choices"][0]["delta"] if event["choices"] else {}
    if "reasoning_content" in delta:
        return "reasoning", delta["reasoning_content"]
    if calls := delta.get("tool_calls"):
        return f"call {calls[0]['index']}", calls[0]["function"]["arguments"]
    return ("text", delta["content"]) if delta.get("content") else None


def _messages_kind(event: Any) -> tuple[str, str] | None:
    delta = event.get("delta", {})
    kinds = {"thinking_delta": ("reasoning", "thinking"), "text_delta": ("text", "text")}
    if delta.get("type") == "input_json_delta":
        return f"call {event['index'] - 2}", delta["partial_json"]
    kind = kinds.get(delta.get("type"))
    return (kind[0], delta[kind[1]]) if kind else None


def _responses_kind(event: Any) -> tuple[str, str] | None:
    if not event["type"].endswith(".delta"):
        return None
    kinds = {0: "reasoning", 1: "text", 2: "call 0", 3: "call 1"}
    return kinds[event["output_index"]], event["delta"]


def test_every_script_is_selected_by_its_name() -> None:
    for script in (Script(300, 10, 32, turn=True), Script(9, 0, 32, 16, comments=True), Script(2, joined=True)):
        assert read_script(request("chat", script.model)) == script

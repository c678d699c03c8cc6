"""Blocks of Messages streams that start, change and end in a wrong place, and replies whose content has another form.

Prose that is out of order is read in the order in which it came: nothing of it is lost, and nothing comes twice.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import LossCode, direction
from dragoman.errors import UpstreamStatusError
from regressions import wire
from regressions.repaired import REPAIRED, replied, restored, rows
from regressions.test_odd_calls import cross
from regressions.wire import CHAT, MESSAGES, begin, block, delta, event, stop, tool
from support import responses_frames as emitted
from support.directions import Json, stream_through, translated

RESPONSES = "responses"
clients = pytest.mark.parametrize("client", [CHAT, RESPONSES])
HI = (block(0, type="text", text=""), delta(0, "text", "Hi"), stop(0))
END = wire.end("end_turn")
THINKS = block(0, type="thinking", thinking="", signature="")
STOPPED = END[: END.index(b"event: message_stop")]


@clients
@pytest.mark.parametrize(
    ("frames", "text", "reasoning", "repair"),
    [
        (
            (block(0, type="text", text=""), delta(0, "text", "A"), THINKS, delta(0, "thinking", "B"), stop(0)),
            "A",
            "B",
            "a block started in the place of an open one",
        ),
        (
            (block(0, type="text", text=""), delta(0, "thinking", "B"), delta(0, "text", "A"), stop(0)),
            "A",
            "B",
            "a block had deltas of another kind",
        ),
        (
            (THINKS, delta(0, "thinking", "B"), delta(0, "text", "A"), stop(0)),
            "A",
            "B",
            "a block had deltas of another kind",
        ),
        ((*HI, stop(1)), "Hi", "", "a block ended that was not open"),
        ((begin(), *HI), "Hi", "", "message_start came twice"),
        (
            (block(0, type="text", text="Hi"), delta(0, "text", "Hi"), delta(0, "text", "!"), stop(0)),
            "Hi!",
            "",
            "a delta repeated the text of its block's start",
        ),
        (
            (block(0, type="text", text="Hi"), delta(0, "text", "Hi there"), stop(0)),
            "Hi there",
            "",
            "a delta repeated the text of its block's start",
        ),
    ],
    ids=["replaced", "thinking in text", "text in thinking", "stop alone", "two starts", "repeated", "repeated more"],
)
def test_T02_T12_T13_blocks_out_of_order(
    client: str, frames: tuple[bytes, ...], text: str, reasoning: str, repair: str
) -> None:
    """Ollama starts thinking in the place of a text that it did not end (ollama/ollama#17101), relays mix the kinds of
    deltas (anthropics/claude-code#63487), end blocks that never began (QuantumNous/new-api#5482), start the message
    twice (BerriAI/litellm#33224) and repeat the text of a start (cline/cline#9215)."""
    held, done, _ = restored(client, MESSAGES, begin(), *frames, END)
    assert (held.error, held.text, held.reasoning) == (None, text, reasoning)
    assert done == [repair]


@clients
@pytest.mark.parametrize("rest", [" there", ""])
def test_T12_a_text_in_the_start_of_its_block_stays(client: str, rest: str) -> None:
    """A text that no delta repeats is part of the answer, which must not lose it."""
    frames = (block(0, type="text", text="Hi"), *([delta(0, "text", rest)] if rest else []), stop(0))
    held, done, _ = restored(client, MESSAGES, begin(), *frames, END)
    assert (held.text, done) == ("Hi" + rest, [])


@clients
@pytest.mark.parametrize(
    "frames",
    [
        (tool(0, "call_a", "read"), delta(0, "input_json", '{"f":'), block(0, type="text", text="")),
        (tool(0, "call_a", "read"), delta(0, "text", "Hi")),
        (block(0, type="text", text=""), delta(0, "input_json", "{}")),
        (begin().replace(b"msg_1", b"msg_2"),),
        (delta(3, "text", "Hi"),),
    ],
    ids=["call replaced", "text in a call", "arguments in a text", "another message", "never started"],
)
def test_T02_what_may_mean_two_things_is_an_error(client: str, frames: tuple[bytes, ...]) -> None:
    """Half a call would be run, or the parts of two messages joined (Wei-Shaw/sub2api#4294)."""
    held, _, _ = restored(client, MESSAGES, begin(), *frames, END)
    assert held.error is not None


@clients
def test_T20_done_in_place_of_message_stop(client: str) -> None:
    """Relays end a Messages stream as a Chat one (tombii/better-ccflare#307): the stop reason was there."""
    held, done, _ = restored(client, MESSAGES, begin(), *HI, STOPPED, b"data: [DONE]\n\n")
    assert (held.error, held.text) == (None, "Hi")
    assert done == ["the stream ended without message_stop"]


@clients
def test_T20_done_before_a_stop_reason_is_a_cut(client: str) -> None:
    """A reply that was cut would look complete."""
    held, _, _ = restored(client, MESSAGES, begin(), *HI, b"data: [DONE]\n\n")
    assert held.error is not None


# --- the form of the content ------------------------------------------------------------------------------------------


def _of(upstream: str, content: Any) -> Json:
    if upstream == CHAT:
        return wire.chat_reply(content=content)
    if upstream == MESSAGES:
        return {**wire.messages_reply("end_turn"), "content": content}
    return emitted.response("completed", [{**emitted.message(), "content": content}])


@cross
def test_T25_content_in_another_form_is_read(client: str, upstream: str) -> None:
    """Text in place of an array of parts, and an array of texts in place of a text (vercel/ai#17782)."""
    content = ["Hi", " there"] if upstream == CHAT else "Hi there"
    got, translation = replied(client, upstream, _of(upstream, content))
    stated = json.dumps(got)
    assert "Hi" in stated
    assert " there" in stated
    assert len(rows(translation, REPAIRED)) == 1


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
@pytest.mark.parametrize("item", [{"summary": "Hm"}, {"summary": ["Hm"]}, {"content": "Hm"}, {"content": ["Hm"]}])
def test_T14_reasoning_in_another_form_is_read(client: str, item: Json) -> None:
    """Reasoning that is a text in place of parts was lost without a row (ggml-org/llama.cpp#18542)."""
    output = [{"type": "reasoning", "id": "rs_1", **item}, emitted.message(emitted.text_part("Hi"))]
    got, _ = replied(client, RESPONSES, emitted.response("completed", output))
    assert "Hm" in json.dumps(got)


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("key", ["thinking", "reasoning_text"])
def test_T14_reasoning_in_the_fields_of_other_servers(client: str, key: str) -> None:
    """LM Studio's and Copilot's names of the field (ggml-org/llama.cpp#18542), streamed and whole."""
    frames = [wire.ROLE, wire.chunk({key: "Hm"}), wire.chunk({"content": "Hi"}), wire.chunk({}, "stop"), wire.DONE]
    held, _, _ = restored(client, CHAT, *frames)
    assert (held.reasoning, held.text) == ("Hm", "Hi")
    got, translation = replied(client, CHAT, wire.chat_reply(usage=None, **{"content": "Hi", key: "Hm"}))
    assert "Hm" in json.dumps(got)
    assert not [loss for loss in translation.losses.rows if loss.code is LossCode.UNKNOWN_FIELD]


# --- reasons ----------------------------------------------------------------------------------------------------------


@cross
def test_T22_the_reason_in_the_forms_of_one_vendor(client: str, upstream: str) -> None:
    """MiniMax answers `base_resp` with status 200 (MiniMax-AI/MiniMax-M2.5#2), relays of Bedrock an exception by its
    name: both ended as a reply without content, or as a cut."""
    with pytest.raises(UpstreamStatusError, match="insufficient balance") as caught:
        replied(client, upstream, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}})
    assert caught.value.failure.status == 402
    frame = b'data: {"throttlingException":{"message":"Too many requests"}}\n\n'
    start = {CHAT: wire.ROLE, MESSAGES: begin(), RESPONSES: event("response.created", response=emitted.response())}
    held, _, _ = restored(client, upstream, start[upstream], frame)
    assert held.error is not None
    assert "Too many requests" in held.error["message"]


# --- envelopes --------------------------------------------------------------------------------------------------------

WRAPPED = {
    CHAT: wire.chat_reply(content="Hi there"),
    MESSAGES: wire.messages_reply("end_turn", {"type": "text", "text": "Hi there"}),
    RESPONSES: emitted.response("completed", [emitted.message(emitted.text_part("Hi there"))]),
    "generate": {"candidates": [{"content": {"parts": [{"text": "Hi there"}]}, "finishReason": "STOP"}]},
}


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("upstream", list(WRAPPED))
@pytest.mark.parametrize("name", ["data", "response", "result"])
@pytest.mark.parametrize("streams", [False, True])
def test_T25_a_reply_in_an_envelope(client: str, upstream: str, name: str, streams: bool) -> None:
    """Cline's service answers `{"data": …, "success": true}` (mnfst/llm-gateway#2557), Google's Code Assist has
    `response`: clients saw no choices. A stream that is one JSON document is read likewise."""
    body = json.dumps({name: WRAPPED[upstream], "success": True}).encode()
    if streams and client != upstream:
        out = stream_through(translated(direction(client, upstream)), [body])
    else:
        asked: dict[str, Any] = {
            "model": "m",
            ("input" if client == RESPONSES else "messages"): [{"role": "user", "content": "Hi"}],
        }
        asked |= {"max_tokens": 99} if client == MESSAGES else {}
        out = translated(direction(client, upstream), asked).reply(body)
        assert {CHAT: "choices", MESSAGES: "content", RESPONSES: "output"}[client] in json.loads(out)
    assert b"Hi there" in out


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
def test_T25_chunks_of_gemini_in_an_envelope(client: str) -> None:
    """Google's Code Assist puts each chunk into `response` (lbjlaq/Antigravity-Manager#3202)."""
    parts: list[Json] = [{"content": {"parts": [{"text": "Hi"}]}}, {"content": {"parts": []}, "finishReason": "STOP"}]
    frames = [b"data: %b\n\n" % json.dumps({"response": {"candidates": [part]}}).encode() for part in parts]
    held, _, _ = restored(client, "generate", *frames)
    assert (held.error, held.text) == (None, "Hi")

"""The judges themselves: each must accept a right stream and refuse it once any one rule is broken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from dragoman.canonical.events import Event
from oracles.grammar import Accumulated, Call, GrammarError, chat, messages, sse
from support import canonical
from support.strategies import ANY, CHAT, MESSAGES, MESSAGES_SEQUENTIAL, event_streams
from support.upstreams import Upstream, chat_streams, messages_streams

Json = dict[str, Any]


def frames(payloads: list[Json | str]) -> bytes:
    """Chat frames."""
    return b"".join(b"data: " + (x if isinstance(x, str) else json.dumps(x)).encode() + b"\n\n" for x in payloads)


def named(payloads: list[Json]) -> bytes:
    """Messages frames."""
    return b"".join(f"event: {x['type']}\ndata: {json.dumps(x)}\n\n".encode() for x in payloads)


def piece(delta: Json, reason: str | None = None, **extra: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **extra}


def start(index: int, arguments: str = "") -> Json:
    call = {"index": index, "id": f"call_{index}", "type": "function"}
    return {"tool_calls": [{**call, "function": {"name": "f", "arguments": arguments}}]}


def args(index: int, text: str) -> Json:
    return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


ROLE = piece({"role": "assistant", "content": ""})
COUNTS = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
DONE = "[DONE]"
ERROR: Json = {"error": {"message": "cut", "type": "server_error", "param": None, "code": None}}


def test_chat_accepts_and_accumulates() -> None:
    stream: list[Json | str] = [
        ROLE,
        piece({"reasoning_content": "hm"}),
        piece({"content": "a"}),
        piece({"content": "b"}),
        piece(start(0)),
        piece(start(1)),
        piece(args(0, '{"a":')),
        piece(args(1, "{}")),
        piece(args(0, "1}")),
        piece({}, "tool_calls"),
        DONE,
    ]
    result = chat.check(b": keep-alive\n\n" + frames(stream))
    assert result == Accumulated(
        id="c",
        model="m",
        text="ab",
        reasoning="hm",
        calls=[Call("call_0", "f", '{"a":1}'), Call("call_1", "f", "{}")],
        finish="tool_calls",
        blocks=[("reasoning", "hm"), ("text", "ab"), ("tool", '{"a":1}'), ("tool", "{}")],
        pings=1,
    )
    assert result.order == ["reasoning", "text", "tool", "tool"]


def test_chat_accepts_usage_and_errors() -> None:
    null: Json = {"usage": None}
    usage = {**ROLE, "choices": [], "usage": COUNTS}
    stream: list[Json | str] = [{**ROLE, **null}, piece({}, "stop", **null), usage, DONE]
    assert chat.check(frames(stream), include_usage=True, usage_known=True).usage == COUNTS
    assert chat.check(frames([ROLE, piece({"content": "x"}), ERROR])).error == ERROR["error"]
    assert chat.check(frames([ERROR])).finish is None
    with pytest.raises(GrammarError, match="the key usage, which was not requested"):
        chat.check(frames(stream))
    with pytest.raises(GrammarError, match="no usage is known"):
        chat.check(frames(stream), include_usage=True, usage_known=False)
    with pytest.raises(GrammarError, match="no usage although it was requested"):
        chat.check(frames([*stream[:2], DONE]), include_usage=True, usage_known=True)
    for broken in (
        [stream[0], usage, stream[1], DONE],
        [*stream, usage],
        [*stream[:3], piece({}, **null), DONE],
        [ROLE, *stream[1:]],
        [stream[0], stream[1], {**usage, "usage": {**COUNTS, "total_tokens": 8}}, DONE],
        [stream[0], piece({}, "stop", usage=COUNTS), DONE],
    ):
        with pytest.raises(GrammarError):
            chat.check(frames(broken), include_usage=True)


STOP = piece({}, "stop")
CALLS = piece({}, "tool_calls")
ANNOTATION = {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 0, "title": "", "url": "u"}}
NO_REASON = {**ROLE, "choices": [{"index": 0, "delta": {"content": "x"}}]}


@pytest.mark.parametrize(
    "stream",
    [
        [],
        [ROLE],
        [ROLE, STOP],
        [ROLE, DONE],
        [DONE],
        [STOP, DONE],
        [piece({"content": "x"}), STOP, DONE],
        [piece({"role": "assistant", "content": "x"}), STOP, DONE],
        [ROLE, ROLE, STOP, DONE],
        [ROLE, STOP, STOP, DONE],
        [ROLE, STOP, piece({"content": "x"}), DONE],
        [ROLE, STOP, DONE, DONE],
        [ROLE, STOP, DONE, ERROR],
        [ROLE, ERROR, DONE],
        [ROLE, ERROR, STOP, DONE],
        [ROLE, {"error": {"message": "x", "type": "t"}}],
        [ROLE, {"error": "x"}],
        [ROLE, piece({}, "end_turn"), DONE],
        [ROLE, piece({}, ""), DONE],
        [ROLE, NO_REASON, STOP, DONE],
        [ROLE, {**STOP, "id": "d"}, DONE],
        [ROLE, {**STOP, "created": 2}, DONE],
        [ROLE, {**STOP, "model": "n"}, DONE],
        [ROLE, {**STOP, "object": "chat.completion"}, DONE],
        [ROLE, {**STOP, "novelty": 1}, DONE],
        [ROLE, {key: STOP[key] for key in STOP if key != "created"}, DONE],
        [ROLE, {**STOP, "choices": []}, DONE],
        [ROLE, piece({"content": None}), STOP, DONE],
        [ROLE, piece({"content": "x"}, "stop"), DONE],
        [ROLE, piece({"thinking": "x"}), STOP, DONE],
        [ROLE, piece(start(1)), CALLS, DONE],
        [ROLE, piece(start(0, "{}")), piece(start(0)), CALLS, DONE],
        [ROLE, piece(start(0, "{}")), piece({"tool_calls": [{"index": 0, "id": ""}]}), CALLS, DONE],
        [
            ROLE,
            piece({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": ""}}]}),
            CALLS,
            DONE,
        ],
        [ROLE, piece(args(0, "{}")), CALLS, DONE],
        [ROLE, piece(start(0, "{")), CALLS, DONE],
        [ROLE, piece(start(0, "")), CALLS, DONE],
        [ROLE, piece(start(0, "[]")), CALLS, DONE],
        [ROLE, piece(start(0, "{}")), STOP, DONE],
        [ROLE, piece(start(0, "{}")), piece({"tool_calls": []}), CALLS, DONE],
        [ROLE, CALLS, DONE],
        [ROLE, piece({"annotations": [ANNOTATION]}), piece({"annotations": [ANNOTATION]}), STOP, DONE],
        [ROLE, piece({"annotations": [{"type": "web_search_result_location"}]}), STOP, DONE],
        [ROLE, "{", DONE],
        [ROLE, "null", DONE],
        [ROLE, '{"id":1,"id":1}', STOP, DONE],
    ],
)
def test_chat_refuses(stream: list[Json | str]) -> None:
    with pytest.raises(GrammarError):
        chat.check(frames(stream))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"event: x\n" + data,
        lambda data: b"id: 1\n" + data,
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: b"\n" + data,
        lambda data: data + b": late\n\n",
        lambda data: data.replace(b"data: ", b"data:"),
        lambda data: data.replace(b'"m"', b'"\xff"'),
    ],
)
def test_framing_is_judged(change: Any) -> None:
    data = frames([ROLE, STOP, DONE])
    chat.check(data)
    with pytest.raises(GrammarError):
        chat.check(change(data))


USAGE = {"input_tokens": 5, "output_tokens": 0}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": USAGE}
MSTART: Json = {"type": "message_start", "message": {**MESSAGE, "stop_reason": None, "stop_sequence": None}}
MSTOP: Json = {"type": "message_stop"}
TOOL: Json = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
TEXT: Json = {"type": "text", "text": ""}
THINKING: Json = {"type": "thinking", "thinking": "", "signature": ""}


def message_delta(reason: str | None = "end_turn", **more: Any) -> Json:
    delta = {"stop_reason": reason, "stop_sequence": None, **more}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}


def bstart(index: int, block: Json) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def bdelta(index: int, kind: str, **payload: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **payload}}


def bstop(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}


WORDS = [bstart(0, TEXT), bdelta(0, "text_delta", text="a"), bstop(0)]
MERROR: Json = {"type": "error", "error": {"type": "api_error", "message": "cut"}}


def test_messages_accepts_and_accumulates() -> None:
    stream = [
        MSTART,
        {"type": "ping"},
        bstart(0, THINKING),
        bdelta(0, "thinking_delta", thinking="hm"),
        bdelta(0, "signature_delta", signature="s"),
        bstop(0),
        bstart(1, TOOL),
        bstart(2, TEXT),
        bdelta(1, "input_json_delta", partial_json='{"a":'),
        bdelta(2, "text_delta", text="x"),
        bdelta(1, "input_json_delta", partial_json="1}"),
        bstop(2),
        bstop(1),
        message_delta("tool_use"),
        MSTOP,
    ]
    assert messages.check(named(stream), overlapping=True) == Accumulated(
        id="msg_1",
        model="m",
        text="x",
        reasoning="hm",
        calls=[Call("toolu_1", "f", '{"a":1}')],
        finish="tool_use",
        usage={"input_tokens": 5, "output_tokens": 9},
        blocks=[("reasoning", "hm"), ("tool", '{"a":1}'), ("text", "x")],
        signatures=["s"],
        pings=1,
    )
    with pytest.raises(GrammarError, match="two blocks open"):
        messages.check(named(stream))
    assert messages.check(named([MSTART, *WORDS[:2], MERROR])).error == MERROR["error"]
    half = bdelta(0, "input_json_delta", partial_json="{")
    messages.check(named([MSTART, bstart(0, TOOL), half, bstop(0), message_delta("max_tokens"), MSTOP]))


def sent(*blocks: Json, reason: str = "end_turn") -> list[Json]:
    return [MSTART, *blocks, message_delta(reason), MSTOP]


def without(key: str) -> Json:
    return {**MSTART, "message": {name: value for name, value in MSTART["message"].items() if name != key}}


@pytest.mark.parametrize(
    "stream",
    [
        [],
        [MSTART],
        [MSTART, message_delta()],
        [MSTART, MSTOP],
        [message_delta(), MSTOP],
        [MSTART, MSTART, message_delta(), MSTOP],
        [MSTART, message_delta(), message_delta(), MSTOP],
        [MSTART, message_delta(), MSTOP, {"type": "ping"}],
        [MSTART, message_delta(), *WORDS, MSTOP],
        [*WORDS, MSTART, message_delta(), MSTOP],
        [MSTART, MERROR, message_delta(), MSTOP],
        [MSTART, MERROR, MERROR],
        [MSTART, {"type": "error", "error": {"type": "server_error", "message": "x"}}],
        [MSTART, {"type": "error", "error": {"type": "api_error", "message": ""}}],
        [without("usage"), message_delta(), MSTOP],
        [without("stop_sequence"), message_delta(), MSTOP],
        [without("id"), message_delta(), MSTOP],
        [MSTART, message_delta(None), MSTOP],
        [MSTART, message_delta("stop"), MSTOP],
        [MSTART, message_delta(stop_sequence="x"), MSTOP],
        [MSTART, message_delta(stop_details={"type": "refusal", "category": None, "explanation": None}), MSTOP],
        [MSTART, {**message_delta(), "usage": {}}, MSTOP],
        [MSTART, {**message_delta(), "usage": {"output_tokens": None}}, MSTOP],
        [MSTART, {**message_delta(), "usage": {"output_tokens": 1, "completion_tokens": 1}}, MSTOP],
        [MSTART, {"type": "novelty"}, message_delta(), MSTOP],
        sent(*WORDS[:2]),
        sent(*WORDS[1:]),
        sent(*WORDS, bstop(0)),
        sent(*WORDS, WORDS[1]),
        sent(*WORDS, *WORDS),
        sent(bstart(1, TEXT), bstop(1)),
        sent(bstart(0, {"type": "text", "text": "a"}), bstop(0)),
        sent(bstart(0, {"type": "thinking", "thinking": ""}), bstop(0)),
        sent(bstart(0, {**THINKING, "signature": "s"}), bstop(0)),
        sent(bstart(0, TEXT), bdelta(0, "thinking_delta", thinking="x"), bstop(0)),
        sent(bstart(0, THINKING), bdelta(0, "text_delta", text="x"), bstop(0)),
        sent(bstart(0, TEXT), bdelta(0, "input_json_delta", partial_json="x"), bstop(0)),
        sent(bstart(0, TEXT), bdelta(0, "text_delta", text=None), bstop(0)),
        sent(bstart(0, TEXT), bdelta(0, "text_delta", thinking="x"), bstop(0)),
        sent(bstart(0, TEXT), bdelta(0, "novelty", text="x"), bstop(0)),
        sent(
            bstart(0, THINKING),
            bdelta(0, "signature_delta", signature="s"),
            bdelta(0, "signature_delta", signature="s"),
            bstop(0),
        ),
        sent(
            bstart(0, THINKING),
            bdelta(0, "signature_delta", signature="s"),
            bdelta(0, "thinking_delta", thinking="x"),
            bstop(0),
        ),
        sent(bstart(0, TOOL), bstop(0)),
        sent(reason="tool_use"),
        sent(bstart(0, {**TOOL, "input": {"a": 1}}), bstop(0), reason="tool_use"),
        sent(bstart(0, {**TOOL, "input": ""}), bstop(0), reason="tool_use"),
        sent(bstart(0, {**TOOL, "id": "a b"}), bstop(0), reason="tool_use"),
        sent(bstart(0, {**TOOL, "name": ""}), bstop(0), reason="tool_use"),
        sent(bstart(0, TOOL), bstop(0), bstart(1, TOOL), bstop(1), reason="tool_use"),
        sent(bstart(0, TOOL), bdelta(0, "input_json_delta", partial_json="{"), bstop(0), reason="tool_use"),
    ],
)
def test_messages_refuses(stream: list[Json]) -> None:
    with pytest.raises(GrammarError):
        messages.check(named(stream))


def test_messages_refuses_frames_without_their_event() -> None:
    good = named(sent(*WORDS))
    messages.check(good)
    for bad in (
        good + b"data: [DONE]\n\n",
        good.replace(b"event: content_block_stop\n", b""),
        good.replace(b"event: content_block_stop", b"event: ping"),
        good + b": late\n\n",
    ):
        with pytest.raises(GrammarError):
            messages.check(bad)


@given(event_streams(ANY))
def test_generated_events_are_canonical(events: list[Event]) -> None:
    canonical.check(events)


@given(event_streams(CHAT), event_streams(MESSAGES_SEQUENTIAL))
def test_shapes_are_kept(chat_events: list[Event], messages_events: list[Event]) -> None:
    assert "opaque" not in canonical.check(chat_events).order
    canonical.check(messages_events)
    starts = [type(event).__name__ for event in messages_events if type(event).__name__ in ("BlockStart", "BlockEnd")]
    assert starts == ["BlockStart", "BlockEnd"] * (len(starts) // 2)


def tidied(data: bytes) -> bytes:
    """The stream as we would frame it."""
    out = b""
    for item in sse.split(data):
        if item.data is None:
            out += b": c\n\n"
        else:
            out += (b"event: " + item.event.encode() + b"\n" if item.event else b"") + b"data: " + item.data + b"\n\n"
    return out


@given(messages_streams(replace(MESSAGES, empty_blocks=False), quirks=False))
def test_raw_messages_streams_keep_their_meaning(upstream: Upstream) -> None:
    """Two independent pieces of the tests agree: the renderer of upstream bytes and the judge."""
    judged, meant = messages.check(tidied(upstream.data), overlapping=True), canonical.check(upstream.events)
    assert judged.blocks == [(kind, "" if kind == "opaque" else text) for kind, text in meant.blocks]
    assert (judged.calls, judged.signatures, judged.annotations) == (meant.calls, meant.signatures, meant.annotations)
    assert (judged.error is None) == (meant.error is None)
    assert judged.sequence == meant.sequence


@given(chat_streams(CHAT, quirks=True))
def test_raw_chat_streams_keep_their_meaning(upstream: Upstream) -> None:
    meant = canonical.check(upstream.events)
    text, reasoning, refusal = "", "", ""
    calls: dict[int, list[str]] = {}
    for item in sse.split(upstream.data):
        if item.data is None or item.data == b"[DONE]":
            continue
        for choice in json.loads(item.data).get("choices", []):
            delta = choice["delta"]
            text += delta.get("content") or ""
            refusal += delta.get("refusal") or ""
            reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
            for call in delta.get("tool_calls", []):
                body = call["function"]
                entry = calls.setdefault(call["index"], [call.get("id", ""), body.get("name", ""), ""])
                entry[2] += body["arguments"]
    assert (text, reasoning, refusal) == (meant.text, meant.reasoning, meant.refusal)
    if meant.error is None:
        assert [tuple(calls[index]) for index in sorted(calls)] == [call[:3] for call in meant.calls]

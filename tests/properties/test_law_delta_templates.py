"""Law: frames that are read by their template give the same bytes, losses and counts as frames that are parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Direction, StreamMachine
from dragoman.gateway import ReplyPipeline
from dragoman.stages.passthrough import Passthrough
from dragoman.wire.sse_parser import Parser
from support.directions import CROSS, PASSTHROUGH, translated
from support.strategies import splits

HEADS = {
    "chat": '{"id":"chatcmpl-u","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,',
    "messages": '{"type":"message_start","message":{"id":"msg_u","type":"message","role":"assistant","model":"m",'
    '"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":8,"output_tokens":1}}}',
    "responses": '{"type":"response.created","sequence_number":0,"response":{"id":"resp_u","object":"response",'
    '"created_at":1,"status":"in_progress","model":"m","output":[]}}',
}
_ITEM = '"item_id":"msg_u","output_index":0,"content_index":0,'


def chat(text: str, number: int, *, more: str = "", field: str = "content") -> str:
    delta = f'"{field}":{text}'
    if field == "arguments":
        delta = f'"tool_calls":[{{"index":0,"function":{{"arguments":{text}}}}}]'
    return HEADS["chat"] + f'"delta":{{{delta}}},"finish_reason":null}}]{more}}}'


def messages(text: str, number: int, *, more: str = "", field: str = "text_delta") -> str:
    key = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}[field]
    return f'{{"type":"content_block_delta","index":0,"delta":{{"type":"{field}","{key}":{text}}}{more}}}'


def responses(text: str, number: int, *, more: str = "", field: str = "output_text") -> str:
    where = _ITEM if field == "output_text" else '"item_id":"fc_u","output_index":0,'
    return f'{{"type":"response.{field}.delta","sequence_number":{number},{where}"delta":{text}{more}}}'


def generate(text: str, number: int, *, more: str = "", field: str = "text") -> str:
    mark = "" if field == "text" else ',"thought":true'
    part = f'{{"text":{text}{mark}}}'
    counts = f'{{"promptTokenCount":8,"candidatesTokenCount":{number},"totalTokenCount":{number + 8}}}'
    candidate = f'{{"content":{{"parts":[{part}],"role":"model"}},"index":0}}'
    return f'{{"candidates":[{candidate}],"usageMetadata":{counts},"modelVersion":"m"{more}}}'


DELTAS = {"chat": chat, "messages": messages, "responses": responses, "generate": generate}
STARTS = {
    ("chat", "content"): [HEADS["chat"] + '"delta":{"role":"assistant","content":""},"finish_reason":null}]}'],
    ("chat", "reasoning_content"): [],
    ("chat", "arguments"): [
        HEADS["chat"] + '"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f",'
        '"arguments":""}}]},"finish_reason":null}]}'
    ],
    ("messages", "text_delta"): [
        HEADS["messages"],
        '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    ],
    ("messages", "thinking_delta"): [
        HEADS["messages"],
        '{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}',
    ],
    ("messages", "input_json_delta"): [
        HEADS["messages"],
        '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t_1","name":"f","input":{}}}',
    ],
    ("responses", "output_text"): [
        HEADS["responses"],
        '{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_u",'
        '"type":"message","role":"assistant","status":"in_progress","content":[]}}',
    ],
    ("responses", "function_call_arguments"): [
        HEADS["responses"],
        '{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"fc_u",'
        '"type":"function_call","call_id":"call_1","name":"f","arguments":"","status":"in_progress"}}',
    ],
}
STARTS |= {("generate", "text"): [], ("generate", "thought"): []}
FIELDS = {dialect: [field for own, field in STARTS if own == dialect] for dialect in DELTAS}
ENDS = {
    "chat": [HEADS["chat"] + '"delta":{},"finish_reason":"stop"}]}', "[DONE]"],
    "messages": [
        '{"type":"content_block_stop","index":0}',
        '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}',
        '{"type":"message_stop"}',
    ],
    "responses": [
        '{"type":"response.completed","sequence_number":99,"response":{"id":"resp_u","object":"response","created_at":1,'
        '"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"model":"m","output":[]}}'
    ],
    "generate": ['{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}]}'],
}
SPELLINGS = (
    lambda text: json.dumps(text, ensure_ascii=False),
    json.dumps,
    lambda text: json.dumps(text).replace("/", "\\/"),
    lambda text: " " + json.dumps(text),
)
"""Forms of one text that servers may write: shortest, all ASCII, with escapes that are not needed, with a space."""
NO_TEXT = ("null", "1", '["a"]', '"', '"a","b"', '"a\\"', '"\\ud83d"', "", '"\x01"', '"a" "b"')
"""Values that may stand in a text's place by mistake or malice."""
words = st.text(st.sampled_from('ab c"\\/\n{}é日\U0001f600\u2028\x7f'), max_size=6)
MORE = ("", ',"obfuscation":"aB3"', ',"obfuscation":"x9"', ',"obfuscation":"-"', ',"extra":1', ',"usage":null')
ODD = (b": comment\n\n", b"\n", b'event: ping\ndata: {"type":"ping"}\n\n', b"data: {}\n\n", b"data: [1]\n\n")


@st.composite
def alike_streams(draw: st.DrawFn, dialect: str) -> tuple[bytes, list[bytes]]:
    """Return what opens a stream, and many deltas of one block that are nearly alike."""
    field = draw(st.sampled_from(FIELDS[dialect]))
    more = draw(st.sampled_from(MORE))
    name = b"event: x\n" if draw(st.booleans()) else b""
    spell = draw(st.sampled_from(SPELLINGS))
    end = draw(st.sampled_from((b"\n", b"\n", b"\n", b"\r\n")))

    def frame(payload: str) -> bytes:
        return name + b"data: " + payload.encode("utf-8", "surrogatepass") + end + end

    frames = []
    for number in range(draw(st.integers(3, 25))):
        text, sequence = spell(draw(words)), number + 2
        match draw(st.integers(0, 30)):
            case 0:
                frames.append(draw(st.sampled_from(ODD)))
                continue
            case 1:
                text = draw(st.sampled_from(NO_TEXT))
            case 2:
                sequence = draw(st.sampled_from((0, 7, 10**17)))
            case 3:
                text = draw(st.sampled_from(SPELLINGS))(draw(words))
        own = draw(st.sampled_from(MORE)) if more and draw(st.booleans()) else more
        frames.append(frame(DELTAS[dialect](text, sequence, more=own, field=field)))
    if draw(st.booleans()):
        frames += map(frame, ENDS[dialect])
    head = b"".join(map(frame, STARTS[dialect, field]))
    return head, frames


def run(row: Direction, pieces: list[bytes], *, parsed: bool, **options: Any) -> tuple[bytes, dict[Any, int], Any]:
    translation = translated(row, **options)
    stages = translation.stages()
    assert isinstance(stages, ReplyPipeline)
    if parsed:
        stages.parser = Parser()
    machine = StreamMachine(stages, translation.context)
    out = b"".join(machine.feed(piece) for piece in pieces)
    return out + machine.finish(), dict(translation.losses.counts), translation.context.usage


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_a_template_changes_nothing(row: Direction, data: st.DataObject) -> None:
    head, frames = data.draw(alike_streams(row.upstream.dialect))
    stream = b"".join([head, *frames])
    options = {"profile": data.draw(st.sampled_from((None, "compatible")))}
    expected = run(row, [stream], parsed=True, **options)
    assert run(row, [stream], parsed=False, **options) == expected
    assert run(row, [head, *frames], parsed=False, **options) == expected
    assert run(row, data.draw(splits(stream)), parsed=False, **options) == expected


def watch(row: Direction, pieces: list[bytes], *, parsed: bool, model: str | None) -> tuple[Any, ...]:
    translation = translated(row)
    translation.upstream_model = model or translation.upstream_model
    stage = translation.stages()
    assert isinstance(stage, Passthrough)
    if parsed:
        stage._longest = 0  # each frame is measured, and so read by itself
    out = b"".join(stage.feed(piece) for piece in pieces if not stage.done)
    seen = stage.observer
    whole = out if stage.done else out + stage.finish()
    return whole, seen.complete, seen.closed, seen.usage, seen.failure, stage.begun, bool(seen.violations)


@pytest.mark.parametrize("model", [None, "other"])
@pytest.mark.parametrize("row", PASSTHROUGH, ids=str)
@given(data=st.data())
def test_a_template_changes_nothing_that_is_observed(row: Direction, model: str | None, data: st.DataObject) -> None:
    head, frames = data.draw(alike_streams(row.upstream.dialect))
    stream = b"".join([head, *frames])
    for pieces in ([stream], [head, *frames], data.draw(splits(stream))):
        together, singly = (watch(row, pieces, parsed=parsed, model=model) for parsed in (False, True))
        assert together[:-1] == singly[:-1]
        # Of several deltas that are read together only the last number is compared.
        assert singly[-1] or not together[-1]


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_nearly_all_of_a_stream_is_read_by_its_template(row: Direction) -> None:
    dialect = row.upstream.dialect
    field = FIELDS[dialect][0]
    stages = translated(row).stages()
    assert isinstance(stages, ReplyPipeline)
    parser, reader = stages.parser, stages.reader
    kinds = []
    first = 2 if dialect != "generate" else 20  # a count with one more digit has another template
    payloads = [*STARTS[dialect, field], *(DELTAS[dialect](f'"w{n}"', n + first, field=field) for n in range(20))]
    for payload in payloads:
        kinds += [type(event).__name__ for event in reader.feed(parser.feed(b"data: %b\n\n" % payload.encode()))]
    assert kinds[-15:] == ["TextRun"] * 15

"""Numbers of calls: what arrives as text leaves as that text, and what orjson rounds can be exact."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Dialect, Direction, Translation, builtin_profile, direction, translate
from dragoman.canonical.events import Stop, StopReason, Usage
from dragoman.canonical.parts import ToolCall
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of
from dragoman.dialects import CLIENT_DIALECTS
from dragoman.dialects.all_codecs import CODECS
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dumps, has_long_number, loads, loads_exact
from dragoman.wire.sse import encode_frames
from support import samples
from support.directions import CROSS, judge, translated
from support.responses_samples import response

WEI = 123456789012345678901234567890
WRITTEN = '{"wei":123456789012345678901234567890,"id":18446744073709551616,"x":1.0,"e":1E5,"z":-0.0,"t":1.10,"i":-0}'


@pytest.mark.parametrize("number", [2**64, 2**64 + 1, WEI, -(2**63) - 1, -WEI])
def test_what_orjson_rounds_can_be_read_exactly(number: int) -> None:
    data = b'{"a":[{"n":%d}],"t":"\xc3\xa9"}' % number
    assert type(loads(data)["a"][0]["n"]) is float
    assert loads_exact(data) == {"a": [{"n": number}], "t": "é"}


@pytest.mark.parametrize(
    "value", [2**64 - 1, -(2**63), 1.5, -0.0, 1e17, "1e+30", {"a": ["123456789012345678901234567890"]}, None, True]
)
def test_what_orjson_keeps_is_the_same(value: Any) -> None:
    data = json.dumps(value).encode()
    assert loads_exact(data) == loads(data) == value


LONG = ("3.14159265358979323846", "-0.12345678901234567890123", "1.00000000000000000001", "123456789.123456789123")
LONG_INTEGERS = (str(WEI), str(-WEI), "18446744073709551616", "-9223372036854775809")


@pytest.mark.parametrize("number", [*LONG, *LONG_INTEGERS, "1.234567890123456789e-5"])
@pytest.mark.parametrize("around", ['{"a":%s}', '{"long":"%%s 0 %s","a":[%s,1.5]}', '{"t":"é\\n","b":[[%s]],"n":%s}'])
def test_a_long_number_keeps_its_text(number: str, around: str) -> None:
    data = around.replace("%s", number).replace("%%", "%").encode()
    assert dumps(loads_exact(data)) == data


@given(st.text("0123456789.ab\n", max_size=400), st.integers(0, 400), st.sampled_from((0, 1024)))
def test_no_long_number_is_missed(text: str, at: int, more: int) -> None:
    data = text.encode() + b"," * more  # long documents are searched in steps
    assert not re.search(rb"[0-9.]{19}", data) or has_long_number(data)
    assert has_long_number(data[:at] + b"1234567890.12345678" + data[at:])


def test_short_numbers_are_not_long_however_many_there_are() -> None:
    assert not has_long_number(b"123456789012345678," * 1000)
    assert not has_long_number(b"")


def test_an_integer_that_no_float_can_hold_is_no_json() -> None:
    data = b"[" + b"9" * 300 + b"]"
    assert dumps(loads_exact(data)) == data
    with pytest.raises(ValueError):
        loads_exact(b"[" + b"9" * 5000 + b"]")


@pytest.mark.parametrize("read", [loads, loads_exact])
@pytest.mark.parametrize("beside", ["", "\\u0041\\ud83d", "123456789012345678901234567890"])
def test_a_number_beyond_all_floats_is_no_json(read: Any, beside: str) -> None:
    """The standard library takes it for infinity, which would be written as null."""
    with pytest.raises(ValueError):
        read(f'["{beside}",1e400]'.encode())


def test_exact_numbers_in_what_is_nested_beyond_the_interpreters_limit() -> None:
    data = b"[" * 900 + b"%d" % WEI + b"]" * 900
    value = loads_exact(data)
    for _ in range(900):
        (value,) = value
    assert value in (WEI, float(WEI))


# --- arguments that are an object in the upstream's reply -------------------------------------------------------------


def called(upstream: str, given: Any) -> str:
    """The arguments of the one call of a whole reply in which they are an object."""
    context = ReplyContext("m")
    if upstream == "messages":
        block = {"type": "tool_use", "id": "t", "name": "f", "input": given}
        body = {**samples.reply(Dialect.MESSAGES), "content": [block]}
    elif upstream == "chat":
        body = samples.reply(Dialect.CHAT)
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": given}}
        body["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": [call]}
    else:
        item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": given}
        body = response("completed", [item])
    arguments: str = CODECS[Dialect(upstream)].read_reply(body, context).parts[0].arguments
    return arguments


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_an_exact_number_in_a_whole_reply_is_carried(upstream: str) -> None:
    assert json.loads(called(upstream, loads_exact(b'{"wei":%d,"t":"a+b"}' % WEI))) == {"wei": WEI, "t": "a+b"}


# --- arguments that are text ------------------------------------------------------------------------------------------

REPLY = Reply("r_1", "m", [ToolCall("c", "f", WRITTEN, ("content", 0))], Stop(StopReason.TOOL_CALLS), Usage(1, 0, 0, 1))


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
def test_the_text_of_arguments_leaves_as_it_came(client: Dialect) -> None:
    codec = direction(client, client).client
    context = ReplyContext("m", include_usage=True)
    streamed = encode_frames(codec.writer(context).feed(events_of(REPLY)))
    assert [call.arguments for call in judge(client, streamed).calls] == [WRITTEN]
    whole = dumps(codec.write_reply(REPLY, context)).decode()
    assert WRITTEN in (whole if client is Dialect.MESSAGES else whole.replace("\\", ""))


@pytest.mark.parametrize("row", [row for row in CROSS if row.client.dialect is not Dialect.MESSAGES], ids=str)
def test_arguments_in_the_history_are_sent_as_they_came(row: Direction) -> None:
    if row.client.dialect is Dialect.CHAT:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": WRITTEN}}
        stated: list[Any] = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ]
    else:
        stated = [
            {"role": "user", "content": "Hi"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": WRITTEN},
            {"type": "function_call_output", "call_id": "c", "output": "done"},
        ]
    conversation: dict[str, Any] = {row.client.dialect.facts.conversation: stated}
    sent = translated(row, **conversation).body.decode()
    assert WRITTEN in (sent if row.upstream.dialect is Dialect.MESSAGES else sent.replace("\\", ""))


@pytest.mark.parametrize("client", [Dialect.CHAT, Dialect.RESPONSES])
def test_a_whole_reply_keeps_an_integer_beyond_64_bits(client: Dialect) -> None:
    asked = translated(direction(client, Dialect.MESSAGES))
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"wei": WEI}}
    body = {**samples.reply(Dialect.MESSAGES), "content": [block], "stop_reason": "tool_use"}
    noted = json.loads(asked.reply(samples.dump(body)))
    assert str(WEI) in json.dumps(noted)


# --- requests ---------------------------------------------------------------------------------------------------------

SCHEMA = '{"type":"object","properties":{"a":{"type":"number","maximum":%s,"enum":[%s]}}}'
HISTORIES = {
    "messages": '{"model":"m","max_tokens":5,"tools":[{"name":"f","input_schema":SCHEMA}],"messages":[{"role":"user",'
    '"content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"a":%s,"b":[%s]}}]},'
    '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"y"}]}]}',
    "chat": '{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":SCHEMA}}],"response_format":'
    '{"type":"json_schema","json_schema":{"name":"f","schema":SCHEMA}},"messages":[{"role":"user","content":"x"},'
    '{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":'
    '"{\\"a\\":%s}"}}]},{"role":"tool","tool_call_id":"c","content":"y"}]}',
    "responses": '{"model":"m","tools":[{"type":"function","name":"f","parameters":SCHEMA}],"input":[{"role":"user",'
    '"content":"x"},{"type":"function_call","call_id":"c","name":"f","arguments":"{\\"a\\":%s}"},'
    '{"type":"function_call_output","call_id":"c","output":"y"}]}',
}


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("number", [*LONG, *LONG_INTEGERS])
@pytest.mark.parametrize("upstream", HISTORIES)
@pytest.mark.parametrize("client", HISTORIES)
def test_long_numbers_of_calls_and_schemas_are_sent_as_they_are(
    client: str, upstream: str, number: str, rewrite: bool
) -> None:
    body = HISTORIES[client].replace("SCHEMA", SCHEMA).replace("%s", number)
    profile = builtin_profile(upstream).replace({"rewrite": rewrite})
    sent = translate(direction(client, upstream), body.encode(), profile=profile).body.decode()
    assert sent.count(number) == body.count(number)


@pytest.mark.parametrize("number", [*LONG, *LONG_INTEGERS])
def test_long_numbers_stay_where_an_envelope_is_restored(number: str) -> None:
    wrapped = Envelope("messages", "m").wrap("messages", {"type": "thinking", "thinking": "", "signature": "S"})
    body = HISTORIES["messages"].replace("SCHEMA", SCHEMA).replace("%s", number)
    block = '{"type":"thinking","thinking":"","signature":"' + wrapped + '"},{"type":"tool_use"'
    body = body.replace('{"type":"tool_use"', block)
    sent = translate(direction("messages", "messages"), body.encode()).body.decode()
    assert (sent.count(number), "dgm1." in sent) == (body.count(number), False)


# --- replies ----------------------------------------------------------------------------------------------------------

WHOLE = {
    "messages": '{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"c",'
    '"name":"f","input":{"a":%s}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}',
    "chat": '{"id":"m","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{'
    '"id":"c","type":"function","function":{"name":"f","arguments":{"a":%s}}}]},"finish_reason":"tool_calls"}]}',
    "responses": '{"id":"m","model":"m","status":"completed","output":[{"type":"function_call","id":"f","call_id":"c",'
    '"name":"f","arguments":{"a":%s}}]}',
    "generate": '{"responseId":"m","modelVersion":"m","candidates":[{"content":{"parts":[{"functionCall":{"id":"c",'
    '"name":"f","args":{"a":%s}}}]},"finishReason":"STOP"}]}',
}
STREAMS = {
    "generate": (
        '{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c","name":"f","args":{"a":%s}}}]}}]}',
        '{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}]}',
    ),
    "messages": (
        '{"type":"message_start","message":{"id":"m","model":"m","usage":{"input_tokens":1}}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"f","input":'
        '{"a":%s}}}',
        '{"type":"content_block_stop","index":0}',
        '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}',
        '{"type":"message_stop"}',
    ),
    "chat": (
        '{"id":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":'
        '{"a":%s}}}]}}]}',
        '{"id":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"d","function":{"name":"f","arguments":'
        '{"a":%s}}}]}}]}',
        '{"id":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}',
        "[DONE]",
    ),
    "responses": (
        '{"type":"response.created","response":{"id":"m","model":"m"}}',
        '{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"f","call_id":"c",'
        '"name":"f","arguments":""}}',
        '{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"f","call_id":"c",'
        '"name":"f","arguments":{"a":%s}}}',
        '{"type":"response.completed","response":{"id":"m","status":"completed","output":[]}}',
    ),
}


def asked(client: str, upstream: str, *, stream: bool) -> Translation:
    bodies: dict[str, dict[str, Any]] = {
        "messages": {"max_tokens": 5, "messages": [{"role": "user", "content": "x"}]},
        "chat": {"messages": [{"role": "user", "content": "x"}]},
        "responses": {"input": "x"},
    }
    return translate(direction(client, upstream), dumps({"model": "m", "stream": stream, **bodies[client]}))


@pytest.mark.parametrize("number", [*LONG, *LONG_INTEGERS])
@pytest.mark.parametrize("row", CROSS, ids=str)
def test_long_numbers_of_whole_replies_are_kept(row: Direction, number: str) -> None:
    client, upstream = row.client.dialect, row.upstream.dialect
    out = asked(client, upstream, stream=False).reply(WHOLE[upstream].replace("%s", number).encode())
    assert number.encode() in out


@pytest.mark.parametrize("number", [*LONG, *LONG_INTEGERS])
@pytest.mark.parametrize("row", CROSS, ids=str)
def test_long_numbers_of_streamed_objects_are_kept(row: Direction, number: str) -> None:
    client, upstream = row.client.dialect, row.upstream.dialect
    translation = asked(client, upstream, stream=True)
    machine = translation.stream_machine()
    sent = "".join(f"data: {data}\n\n" for data in STREAMS[upstream]).replace("%s", number)
    out = machine.feed(sent.encode()) + machine.finish()
    assert translation.failure is None
    assert number.encode() in out

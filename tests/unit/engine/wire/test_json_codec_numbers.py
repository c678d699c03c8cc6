"""Numbers of calls: what arrives as text leaves as that text, and what orjson rounds can be exact."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Dialect, Direction, direction
from dragoman.canonical.events import Stop, StopReason, Usage
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of
from dragoman.canonical.request import ToolCall
from dragoman.dialects.all_codecs import CODECS
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dumps, loads, loads_exact
from dragoman.wire.sse import Encoder
from support import samples
from support.directions import CROSS, judge, translated
from support.responses_samples import response

WEI = 123456789012345678901234567890
SPELLED = '{"wei":123456789012345678901234567890,"id":18446744073709551616,"x":1.0,"e":1E5,"z":-0.0,"t":1.10,"i":-0}'


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

REPLY = Reply("r_1", "m", [ToolCall("c", "f", SPELLED, ("content", 0))], Stop(StopReason.TOOL_CALLS), Usage(1, 0, 0, 1))


@pytest.mark.parametrize("client", list(Dialect))
def test_the_text_of_arguments_leaves_as_it_came(client: Dialect) -> None:
    codec = direction(client, client).client
    context = ReplyContext("m", include_usage=True)
    streamed = Encoder().feed(codec.writer(context).feed(events_of(REPLY)))
    assert [call.arguments for call in judge(client, streamed).calls] == [SPELLED]
    whole = dumps(codec.write_reply(REPLY, context)).decode()
    assert SPELLED in (whole if client is Dialect.MESSAGES else whole.replace("\\", ""))


@pytest.mark.parametrize("row", [row for row in CROSS if row.client.dialect is not Dialect.MESSAGES], ids=str)
def test_arguments_in_the_history_are_sent_as_they_came(row: Direction) -> None:
    if row.client.dialect is Dialect.CHAT:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": SPELLED}}
        said: list[Any] = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ]
    else:
        said = [
            {"role": "user", "content": "Hi"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": SPELLED},
            {"type": "function_call_output", "call_id": "c", "output": "done"},
        ]
    conversation: dict[str, Any] = {row.client.prompt[1]: said}
    sent = translated(row, **conversation).body.decode()
    assert SPELLED in (sent if row.upstream.dialect is Dialect.MESSAGES else sent.replace("\\", ""))


@pytest.mark.parametrize("client", [Dialect.CHAT, Dialect.RESPONSES])
def test_a_whole_reply_keeps_an_integer_beyond_64_bits(client: Dialect) -> None:
    asked = translated(direction(client, Dialect.MESSAGES))
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"wei": WEI}}
    body = {**samples.reply(Dialect.MESSAGES), "content": [block], "stop_reason": "tool_use"}
    told = json.loads(asked.reply(samples.dump(body)))
    assert str(WEI) in json.dumps(told)

"""The operator's prefix rules for tool names, there and back (mapping §11), and how knobs are checked."""

from __future__ import annotations

import json

import pytest

from dragoman.canonical.request import Json
from dragoman.knobs import KNOBS
from dragoman.tools.names import NameTable, with_prefix
from dragoman_server.config.value_problems import parse_word, value_problem
from support.canonical_turns import translated

RULE = ("mcp_=mcp__",)
READ = {"type": "function", "function": {"name": "mcp_read_file", "parameters": {"type": "object", "properties": {}}}}
BODY: Json = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "mcp_read_file", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ],
    "tools": [READ],
    "tool_choice": {"type": "function", "function": {"name": "mcp_read_file"}},
}
CALLED = {"type": "tool_use", "id": "toolu_9", "name": "mcp__read_file", "input": {}}
USAGE = {"input_tokens": 1, "output_tokens": 1}


def test_seed_S2_28_names_are_sent_with_the_other_prefix_everywhere() -> None:
    body, made = translated("chat", "messages", BODY, tool_prefixes=RULE)
    assert [tool["name"] for tool in body["tools"]] == ["mcp__read_file"]
    assert body["messages"][1]["content"][0]["name"] == "mcp__read_file"
    assert body["tool_choice"] == {"type": "tool", "name": "mcp__read_file"}
    assert made.renamed_tools == {"mcp__read_file": "mcp_read_file"}


def test_a_whole_reply_has_the_clients_name() -> None:
    _, made = translated("chat", "messages", BODY, tool_prefixes=RULE)
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [CALLED]}
    noted = json.loads(made.reply(json.dumps({**reply, "stop_reason": "tool_use", "usage": USAGE}).encode()))
    assert noted["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "mcp_read_file"


def test_a_streamed_reply_has_the_clients_name() -> None:
    _, made = translated("chat", "messages", {**BODY, "stream": True}, tool_prefixes=RULE)
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": USAGE}
    frames: list[Json] = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": CALLED},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": USAGE},
        {"type": "message_stop"},
    ]
    machine = made.stream_machine()
    out = machine.feed("".join(f"event: {f['type']}\ndata: {json.dumps(f)}\n\n" for f in frames).encode())
    out += machine.finish()
    assert b'"mcp_read_file"' in out
    assert b"mcp__read_file" not in out


def test_off_by_default() -> None:
    body, made = translated("chat", "messages", BODY)
    assert body["tools"][0]["name"] == "mcp_read_file"
    assert made.renamed_tools == {}


@pytest.mark.parametrize(
    ("name", "rules", "sent"),
    [
        ("mcp_read", RULE, "mcp__read"),
        ("mcp__read", RULE, "mcp__read"),
        ("my_mcp_read", RULE, "my_mcp_read"),
        ("a_b", ("a_=x_", "x_=y_"), "x_b"),
        ("a_b", ("a_=",), "b"),
        ("a_", ("a_=",), "a_"),
        ("mcp_read", (), "mcp_read"),
    ],
)
def test_the_first_rule_that_fits_is_applied_once(name: str, rules: tuple[str, ...], sent: str) -> None:
    assert with_prefix(name, rules) == sent


@pytest.mark.parametrize("names", [("mcp_read", "mcp__read"), ("mcp__read", "mcp_read")])
def test_two_tools_that_would_have_one_name_keep_two(names: tuple[str, str]) -> None:
    table = NameTable(64, RULE)
    sent = [table.fit(name) for name in names]
    assert len(set(sent)) == 2
    assert [table.back.get(one, one) for one in sent] == list(names)
    assert [table.fit(name) for name in names] == sent


def test_a_long_name_is_fitted_after_the_rule_and_comes_back() -> None:
    table = NameTable(64, RULE)
    name = "mcp_" + "x" * 60
    sent = table.fit(name)
    assert len(sent) == 64
    assert sent.startswith("mcp__x")
    assert table.back[sent] == name


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        (["mcp_=mcp__"], None),
        (["a=", "b=c"], None),
        (["mcp_"], 'expected strings like OLD=NEW; got "mcp_"'),
        (["=x"], 'expected strings like OLD=NEW; got "=x"'),
        (["a=b c"], 'expected strings like OLD=NEW; got "a=b c"'),
        ([1], "expected strings; got 1"),
        ("mcp_=mcp__", 'expected an array; got "mcp_=mcp__"'),
    ],
)
def test_rules_are_checked_where_they_are_configured(rules: object, wrong: str | None) -> None:
    assert value_problem(KNOBS["tool_prefixes"], rules) == wrong


def test_rules_on_the_command_line_are_separated_by_commas() -> None:
    assert parse_word(KNOBS["tool_prefixes"], "a_=b_,c_=d_") == ("a_=b_", "c_=d_")
    assert parse_word(KNOBS["tool_prefixes"], "") == ()


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("off", None),
        (3, None),
        (0, "expected 1 to 1000; got 0"),
        (1001, "expected 1 to 1000; got 1001"),
        (True, "expected one of off, an integer from 1 to 1000; got true"),
        (1.5, "expected one of off, an integer from 1 to 1000; got 1.5"),
        ("offf", 'expected one of off, an integer from 1 to 1000; got "offf" (did you mean "off"?)'),
        ("N", 'expected one of off, an integer from 1 to 1000; got "N"'),
    ],
)
def test_a_knob_that_takes_a_number_is_checked(value: object, wrong: str | None) -> None:
    assert value_problem(KNOBS["evict_images"], value) == wrong


@pytest.mark.parametrize(("word", "value"), [("3", 3), ("off", "off"), ("1.5", 1.5)])
def test_a_number_on_the_command_line_is_one(word: str, value: object) -> None:
    assert parse_word(KNOBS["evict_images"], word) == value

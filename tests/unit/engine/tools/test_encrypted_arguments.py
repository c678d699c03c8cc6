"""Parameters that only OpenAI's models encrypt: other upstreams get plain ones, and Codex calls that state it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from dragoman.canonical.request import Namespace, Tool
from dragoman.dialects.directions import direction
from dragoman.profiles.profile import builtin_profile
from dragoman.tools.encrypted_arguments import remove_encryption
from dragoman.translate_request import Translation, translate
from regressions.dialect_bodies import assistant_turn, replied
from support.directions import Json, stream_through

MESSAGE = {"type": "string", "encrypted": True}
SECRET: Json = {"type": "object", "properties": {"to": {"type": "string"}, "message": MESSAGE}, "required": ["message"]}
PLAIN: Json = {"type": "object", "properties": {"to": {"type": "string"}}}
NESTED: list[Json] = [
    {"type": "array", "items": MESSAGE},
    {"type": "object", "additionalProperties": MESSAGE},
    {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, MESSAGE]}}},
    {"type": "object", "$defs": {"m": MESSAGE}},
    {**SECRET, "encrypted": True},
]
NOT_IT: list[Json] = [
    PLAIN,
    {"type": "object", "properties": {"encrypted": {"type": "boolean"}}},
    {"type": "object", "properties": {"encrypted": True}},
    {"type": "object", "properties": {"a": {"type": "string", "encrypted": False}}},
    {"type": "object", "properties": {"a": {"type": "string", "default": "encrypted"}}},
]
REWRITTEN = builtin_profile("responses", "compatible").replace({"rewrite": True})
UPSTREAMS = [("chat", None), ("messages", None), ("responses", REWRITTEN)]


def tool(schema: Json | None, name: str = "f", space: str | None = None) -> Tool:
    return Tool("function", name, (), schema=schema, namespace=Namespace(space) if space else None)


@pytest.mark.parametrize("schema", [SECRET, *NESTED])
def test_the_keyword_is_removed_wherever_a_schema_stands(schema: Json) -> None:
    given = copy.deepcopy(schema)
    tools = [tool(given, "f", "ns"), tool(PLAIN), tool(None)]
    assert remove_encryption(tools) == {("ns", "f")}
    assert '"encrypted"' not in json.dumps(tools[0].schema)
    assert given == schema


@pytest.mark.parametrize("schema", NOT_IT)
def test_what_only_looks_like_it_stays(schema: Json) -> None:
    declared = tool(schema)
    assert remove_encryption([declared]) == frozenset()
    assert declared.schema is schema


def asked(upstream: str, profile: Any, *, stream: bool) -> Translation:
    functions = [{"type": "function", "name": n, "parameters": s} for n, s in (("tell", SECRET), ("list", PLAIN))]
    space = {"type": "namespace", "name": "team", "description": "d", "tools": functions}
    own = {"type": "function", "name": "tell", "parameters": PLAIN}
    items = [
        {"type": "additional_tools", "role": "developer", "tools": [space]},
        {"role": "user", "content": "Go"},
    ]
    body = {"model": "m", "stream": stream, "input": items, "tools": [own]}
    return translate(direction("responses", upstream), json.dumps(body).encode(), profile=profile)


CALLS = [
    ("call", "c1", "team__tell", '{"message":"hi"}'),
    ("call", "c2", "team__list", "{}"),
    ("call", "c3", "tell", "{}"),
]
"""Only the first is of a tool that declares the keyword."""


@pytest.mark.parametrize(("upstream", "profile"), UPSTREAMS, ids=[name for name, _ in UPSTREAMS])
def test_calls_are_marked_as_plain_in_streams_and_whole_replies(upstream: str, profile: Any) -> None:
    translation = asked(upstream, profile, stream=True)
    assert b"encrypted" not in translation.body
    lines = stream_through(translation, assistant_turn(upstream, *CALLS)).decode().splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    marked = [
        event["item"].get("encrypted_function_args")
        for event in events
        if event["type"] in ("response.output_item.added", "response.output_item.done")
        and event["item"]["type"] == "function_call"
    ]
    assert sorted(marked, key=str) == [None] * 4 + [[]] * 2
    (ended,) = [event["response"] for event in events if event["type"] == "response.completed"]
    translation = asked(upstream, profile, stream=False)
    whole = json.loads(translation.reply(json.dumps(replied(upstream, *CALLS)).encode()))
    for response in (ended, whole):
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        assert [(item["name"], item.get("encrypted_function_args")) for item in calls] == [
            ("tell", []),
            ("list", None),
            ("tell", None),
        ]


def test_openai_encrypts_itself() -> None:
    profile = builtin_profile("responses").replace({"rewrite": True})
    translation = asked("responses", profile, stream=False)
    assert b'"encrypted":true' in translation.body
    call = ("call", "c1", "tell", '{"message":"gAAAA"}')
    whole = json.loads(translation.reply(json.dumps(replied("responses", call)).encode()))
    assert "encrypted_function_args" not in whole["output"][0]

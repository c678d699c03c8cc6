"""Group E with Responses on either side: names and schemas of tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import LossCode
from oracles.requests import check
from regressions.dialect_bodies import (
    RESPONSES,
    SCHEMA,
    assistant_turn,
    conversation,
    from_responses,
    new_directions,
    offered,
    replied,
    sent_tools,
    to_responses,
)
from regressions.wire import MESSAGES, send
from support.directions import Json, judge, stream_through

HEADERS = {"anthropic-version": "2023-06-01"}


def sent(client: str, upstream: str, **fields: Any) -> Json:
    """The upstream's body, which the simulated vendor takes."""
    return check(upstream, send(client, upstream, **fields)[0], HEADERS)


# --- names ------------------------------------------------------------------------------------------------------------


@new_directions
def test_T42_long_and_dotted_names_fit_and_come_back_in_every_new_direction(client: str, upstream: str) -> None:
    """Tool names over 64 characters (cline/cline#11885, anthropics/claude-code#21136, anthropics/claude-code#20830),
    and with dots in them (CherryHQ/cherry-studio#2895)."""
    names = ["mcp__" + "n" * 130, "files.read", "plain"]
    fields = conversation(client, "a", [("call", "call_a", names[0], "{}")], ("result", "call_a", "y"))
    body, translation = send(client, upstream, **fields, tools=offered(client, *names))
    check(upstream, body, HEADERS)
    names_sent = [offer["name"] for offer in sent_tools(upstream, body)]
    assert len(set(names_sent)) == 3
    assert not set(names[:2]) & set(names_sent)
    assert names_sent[2] == "plain"
    assert names_sent[0] in json.dumps(body["input" if upstream == RESPONSES else "messages"])
    parts = [("call", f"call_{n}", name, "{}") for n, name in enumerate(names_sent)]
    held = judge(client, stream_through(translation, assistant_turn(upstream, *parts)))
    assert [call.name for call in held.calls] == names
    whole = json.loads(translation.reply(json.dumps(replied(upstream, *parts)).encode()))
    assert all(json.dumps(name) in json.dumps(whole) for name in names)


@to_responses
def test_T42_a_namespace_and_its_tool_fit_together(upstream: str) -> None:
    """A name joined of a namespace and a tool's name is soon over 64 characters (anthropics/claude-code#20830)."""
    space, name = "mcp__" + "s" * 50, "n" * 100
    tools = [{"type": "namespace", "name": space, "description": "d", "tools": offered(RESPONSES, name)}]
    body, translation = send(RESPONSES, upstream, tools=tools)
    check(upstream, body, HEADERS)
    (offer,) = sent_tools(upstream, body)
    held = judge(
        RESPONSES, stream_through(translation, assistant_turn(upstream, ("call", "call_a", offer["name"], "{}")))
    )
    assert [(call.namespace, call.name) for call in held.calls] == [(space, name)]


@to_responses
def test_T42_call_ids_of_any_server_fit(upstream: str) -> None:
    """Ids with dots and colons, or too long for the other side (CherryHQ/cherry-studio#2895)."""
    for call_id in ("functions.read:0", "call_" + "x" * 90):
        part = ("call", call_id, "read", "{}")
        fields = conversation(RESPONSES, "a", [part], ("result", call_id, "y"))
        sent(RESPONSES, upstream, **fields, tools=offered(RESPONSES, "read"))


# --- schemas ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["oneOf", "anyOf", "allOf"])
def test_T43_combiners_at_the_root_are_repaired_and_reported_by_the_clients_own_path(word: str) -> None:
    """Root-level `oneOf`/`anyOf`/`allOf` is refused, tools vanish (software-mansion/argent#773,
    opentokenz/mcpx#28)."""
    plain = offered(RESPONSES, "t", schema={word: [SCHEMA]})
    for tools, name, path in (
        (plain, "t", "tools[0]"),
        ([{"type": "namespace", "name": "ns", "tools": plain}], "ns__t", "tools[0].tools[0]"),
    ):
        body, translation = send(RESPONSES, MESSAGES, tools=tools)
        check(MESSAGES, body, HEADERS)
        (tool,) = body["tools"]
        assert (tool["name"], set(tool["input_schema"])) == (name, {"type", "properties"})
        assert [(row.code, row.path) for row in translation.losses.rows] == [(LossCode.SCHEMA_SANITISED, path)]


@from_responses
def test_T43_no_tool_vanishes_on_its_way_to_a_responses_upstream(client: str) -> None:
    """Tools vanish for the sake of their schema (opentokenz/mcpx#28)."""
    schemas: list[Json] = [{}, {"properties": {}}, {"type": "object"}, SCHEMA, {"anyOf": [SCHEMA]}]
    tools = [tool for n, schema in enumerate(schemas) for tool in offered(client, f"t{n}", schema=schema)]
    body = sent(client, RESPONSES, tools=tools)
    assert [offer["name"] for offer in body["tools"]] == ["t0", "t1", "t2", "t3", "t4"]
    assert all(offer["parameters"]["type"] == "object" for offer in body["tools"])
    assert all(offer["strict"] is False for offer in body["tools"])  # absent would make every property required


@to_responses
def test_T43_a_tool_without_a_schema_gets_the_empty_one(upstream: str) -> None:
    """Schemas that the target refuses for their shape (kaitranntt/ccs#459)."""
    tools = [{"type": "function", "name": "a"}, {"type": "function", "name": "b", "parameters": {"properties": {}}}]
    body = sent(RESPONSES, upstream, tools=tools)
    schemas = [offer.get("input_schema") or offer.get("parameters") for offer in sent_tools(upstream, body)]
    if upstream == MESSAGES:
        assert [schema["type"] for schema in schemas if schema is not None] == ["object", "object"]


@new_directions
def test_T43_other_schema_words_stay_as_they_are(client: str, upstream: str) -> None:
    """A schema is the tool's contract: nothing within it is edited away (kaitranntt/ccs#459)."""
    schema = {**SCHEMA, "$schema": "https://json-schema.org/draft/2020-12/schema", "x-order": ["f"], "$defs": {}}
    body = sent(client, upstream, tools=offered(client, "a", schema=schema))
    (offer,) = sent_tools(upstream, body)
    assert offer["input_schema" if upstream == MESSAGES else "parameters"] == schema

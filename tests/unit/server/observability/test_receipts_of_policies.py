"""Each policy is reported in the receipt of the request that it changed, through a real gateway."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from support.canonical_turns import PNG
from support.gateways import Gate, config_for, gate
from support.samples import dump, reply
from support.sockets import ScriptedServer, answer

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
QUESTION: list[Json] = [{"role": "user", "content": "go"}]
USE = {"type": "tool_use", "id": "toolu_1", "name": "mcp_look", "input": {}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
LOOKED: list[Json] = [
    *QUESTION,
    {"role": "assistant", "content": [USE]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [PICTURE, PICTURE]}]},
]
ORPHAN: list[Json] = [*QUESTION, {"role": "assistant", "content": [USE]}, {"role": "user", "content": "never mind"}]
TALK: list[Json] = [*QUESTION, {"role": "user", "content": "on"}]
GREETED: list[Json] = [{"role": "assistant", "content": "Hello."}, *QUESTION]
UNION: Json = {"name": "f", "input_schema": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}}
PARALLEL: list[Json] = [
    *QUESTION,
    {"role": "assistant", "content": [USE, {**USE, "id": "toolu_2"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}]},
    {"role": "user", "content": "hurry"},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_2", "content": "2"}]},
]


@dataclass(frozen=True)
class Case:
    """A request of a Messages client and what of it is reported."""

    code: str | None
    fields: Json = field(default_factory=dict)
    upstream: Dialect = CHAT
    flags: Json = field(default_factory=dict)
    knobs: Json = field(default_factory=dict)
    done: str = ""
    renames: Json = field(default_factory=dict)


CASES = {
    "strict_alternation": Case(
        "turns_merged", {"messages": TALK}, flags={"strict_alternation": True}, done="joined the message before it"
    ),
    "results_first": Case(
        "block_order",
        {"messages": PARALLEL},
        RESPONSES,
        {"results_first": True},
        done="moved after the tool results",
    ),
    "orphans repair": Case("orphan_repaired", {"messages": ORPHAN}, done="an error result was added"),
    "orphans strip": Case(
        "orphan_dropped", {"messages": ORPHAN}, knobs={"orphans": "strip"}, done="the call has no result"
    ),
    "thinking_replay": Case(
        "reasoning_foreign",
        {"messages": [*QUESTION, {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "ok"}]}, *QUESTION]},
        flags={"reasoning_replay": False},
        done="dropped",
    ),
    "evict_images": Case(
        "image_evicted", {"messages": LOOKED}, knobs={"evict_images": 1}, done="became a placeholder"
    ),
    "leaked fields": Case(
        "leaked_field", {"messages": QUESTION, "instructions": "x"}, done="a field of responses; dropped"
    ),
    "pad_first_user": Case(
        "user_padded",
        {"messages": GREETED},
        knobs={"pad_first_user": "on"},
        done="a placeholder of the user's was put before it",
    ),
    "schemas": Case(
        "schema_sanitised",
        {"messages": QUESTION, "tools": [UNION]},
        flags={"schema_root_union": False},
        done="its root (oneOf) became one object of all properties",
    ),
    "tool_prefixes": Case(
        None,
        {"messages": QUESTION, "tools": [{"name": "mcp_look", "input_schema": {"type": "object", "properties": {}}}]},
        knobs={"tool_prefixes": ("mcp_=mcp__",)},
        renames={"mcp__look": "mcp_look"},
    ),
}  # fmt: skip


async def noted(entrance: Gate, body: Json, **headers: str) -> tuple[int, Json]:
    """The status of a request and its receipt."""
    async with entrance.post(MESSAGES, body, headers=headers) as response:
        await response.read()
        request_id = response.headers["x-dragoman-request-id"]
        status = response.status
    async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}") as response:
        return status, await response.json()


def configured(url: str, case: Case) -> Any:
    config = config_for(url, case.upstream, knobs=case.knobs)
    provider = config.providers["up"]
    return replace(config, providers={"up": replace(provider, profile=provider.profile.replace(case.flags))})


def asked(case: Case) -> Json:
    return {"model": "m", "max_tokens": 100, **case.fields}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_policys_effect_stands_in_the_receipt(case: Case) -> None:
    script = answer(200, dump(reply(case.upstream)))
    async with ScriptedServer(script) as server, gate(configured(server.url, case)) as entrance:
        status, facts = await noted(entrance, asked(case))
    assert status == 200
    rows = {(row["code"], row["done"]) for row in facts["losses"]}
    if case.code is None:
        assert not rows
    else:  # what is left then meets the dialect's own losses, such as media that move behind the results
        assert (case.code, case.done) in rows
    assert all(row["meaning"] and row["path"] for row in facts["losses"])
    assert facts["renames"] == case.renames


LOSSY = {name: case for name, case in CASES.items() if case.code}


@pytest.mark.parametrize("case", LOSSY.values(), ids=LOSSY)
async def test_a_change_is_refused_where_losses_are(case: Case) -> None:
    async with ScriptedServer(answer(200, b"{}")) as server, gate(configured(server.url, case)) as entrance:
        status, facts = await noted(entrance, asked(case), **{"x-dragoman-on-loss": "reject"})
        assert not server.requests
    assert (status, facts["ended"]) == (400, "rejected")
    assert case.code
    assert case.code in facts["error"]["message"]
    assert facts["error"]["param"]


async def test_orphans_reject_names_the_call() -> None:
    case = Case(None, {"messages": ORPHAN}, knobs={"orphans": "reject"})
    async with ScriptedServer(answer(200, b"{}")) as server, gate(configured(server.url, case)) as entrance:
        status, facts = await noted(entrance, asked(case))
    assert (status, facts["error"]["param"]) == (400, "messages[1].content[0]")

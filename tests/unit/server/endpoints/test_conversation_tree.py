"""The tree of a stored conversation, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Secret
from dragoman_server.config.state_options import StateOptions
from support.named_keys import made
from support.stateful import Stateful, stateful
from support.thread_stores import KEY

UPSTREAMS = pytest.mark.parametrize("upstream", list(Dialect))
CHAT = Dialect.CHAT


async def get(state: Stateful, node_id: str, api_key: str = "x", **query: str) -> tuple[int, str, str]:
    url = f"{state.gate.url}/v1/dragoman/conversations/{node_id}/tree"
    async with state.gate.session.get(url, params=query, headers={"x-api-key": api_key}) as answer:
        return answer.status, answer.content_type, await answer.text()


async def tree(state: Stateful, node_id: str, **query: str) -> Any:
    status, kind, text = await get(state, node_id, **query)
    assert (status, kind) == (200, "application/json"), text
    return json.loads(text)


@UPSTREAMS
@pytest.mark.parametrize("stream", [False, True])
async def test_a_tree_with_tokens_and_losses(upstream: Dialect, stream: bool) -> None:
    async with stateful(upstream) as state:

        async def respond(**fields: Any) -> Any:
            fields["max_output_tokens"] = 99
            reply = await state.sdk.responses.create(model="sim-text", stream=stream, **fields)
            return [event async for event in reply][-1].response if stream else reply

        first = await respond(input="One?", max_tool_calls=3)
        second = await respond(input="Two?", previous_response_id=first.id)
        fork = await respond(input="Fork?", previous_response_id=first.id)
        found = await tree(state, fork.id)
        assert found == await tree(state, first.id)
        assert [(row["id"], row["parent"]) for row in found["nodes"]] == [
            (first.id, None),
            (second.id, first.id),
            (fork.id, first.id),
        ]
        for row, reply in zip(found["nodes"], (first, second, fork), strict=True):
            assert row["usage"] == {
                "input_tokens": reply.usage.input_tokens,
                "output_tokens": reply.usage.output_tokens,
            }
        lost = {"max_tool_calls": 1}
        assert [row["losses"] for row in found["nodes"]] == [lost, {}, {}]
        assert found["totals"]["losses"] == lost
        assert "One?" not in json.dumps(found)
        status, kind, diagram = await get(state, first.id, format="mermaid")
        assert (status, kind) == (200, "text/plain")
        assert diagram.startswith("flowchart TD\n")
        assert diagram.count("-->") == 2


async def test_the_tree_of_a_conversation() -> None:
    async with stateful(CHAT) as state:
        sdk = state.sdk
        made_one = await sdk.conversations.create()
        first = await sdk.responses.create(model="sim-text", conversation=made_one.id, input="One?")
        second = await sdk.responses.create(model="sim-text", conversation=made_one.id, input="Two?")
        found = await tree(state, made_one.id)
        assert [(row["id"], row["parent"]) for row in found["nodes"]] == [
            (made_one.id, None),
            (first.id, made_one.id),
            (second.id, first.id),
        ]
        await sdk.conversations.delete(made_one.id)
        assert (await get(state, made_one.id))[0] == 404
        assert [row["id"] for row in (await tree(state, second.id))["nodes"]] == [first.id, second.id]


async def test_losses_survive_a_restart_encrypted(tmp_path: Path) -> None:
    options = StateOptions(kind="sqlite", path=str(tmp_path / "s.db"), encryption_key=Secret(KEY))
    async with stateful(CHAT, options) as state:
        first = await state.sdk.responses.create(model="sim-text", input="One?", max_tool_calls=3)
    async with stateful(CHAT, options) as state:
        (row,) = (await tree(state, first.id))["nodes"]
        assert row["losses"] == {"max_tool_calls": 1}
        assert (await state.sdk.responses.retrieve(first.id)).output_text == first.output_text


async def test_who_sees_a_tree() -> None:
    (alice, first), (bob, second), (root, admin) = made("alice"), made("bob"), made("root", admin=True)
    async with stateful(CHAT, keys=[first, second, admin]) as state:
        own = await state.client(alice).responses.create(model="sim-text", input="One?")
        assert (await get(state, own.id, alice))[0] == 200
        unknown = await get(state, "resp_0", bob)
        status, _, text = await get(state, own.id, bob)
        assert status == unknown[0] == 404
        assert text.replace(own.id, "resp_0") == unknown[2]
        assert (await get(state, own.id, root))[0] == 404
        assert (await get(state, own.id, root, key="alice"))[0] == 200
        assert (await get(state, own.id, root, key="bob"))[0] == 404
        status, _, text = await get(state, own.id, bob, key="alice")
        assert (status, json.loads(text)["error"]["code"]) == (403, "admin_required")
        assert (await get(state, own.id, "wrong"))[0] == 401


@pytest.mark.parametrize(("node_id", "kind"), [("conv_1", "Conversation"), ("resp_1", "Response"), ("a b", "Response")])
async def test_an_unknown_conversation(node_id: str, kind: str) -> None:
    async with stateful(CHAT) as state:
        status, _, text = await get(state, node_id)
        assert (status, json.loads(text)["error"]["message"]) == (404, f"{kind} with id '{node_id}' not found.")


async def test_queries_that_are_wrong() -> None:
    async with stateful(CHAT) as state:
        status, _, text = await get(state, "resp_1", format="svg")
        assert (status, json.loads(text)["error"]["param"]) == (400, "format")
        assert (await get(state, "resp_1", key="alice"))[0] == 403  # there are no keys, so there is no admin

"""Law: a conversation is what its changes made it, in their order, with any branches, and apart from other owners."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.threads import (
    Conversation,
    Node,
    Store,
    added_items,
    conversation_node,
    deleted_item,
    input_items,
    members,
    new_metadata,
    path_history,
    path_items,
)
from support.stores import Clock
from support.thread_stores import assistant, opened, user

OWNERS = ("a", "b")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(OWNERS),
        st.sampled_from(("add", "respond", "respond", "delete", "metadata", "branch")),
        st.integers(0, 30),
    ),
    max_size=20,
)


class World:
    """One conversation of each owner, with the same id, and what the test knows of it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.number = 0
        self.items: dict[str, list[Any]] = {owner: [user("start")] for owner in OWNERS}
        self.metadata: dict[str, Any] = {owner: {} for owner in OWNERS}
        self.branches: dict[str, list[tuple[str, list[Any]]]] = {owner: [] for owner in OWNERS}
        """Responses, with the texts of their paths."""

    async def state(self, owner: str) -> Conversation:
        return Conversation(members(await self.store.tree(owner, "conv_1")))

    def response(self, owner: str, parent: str) -> tuple[Node, list[Any]]:
        given_items, output = [user(f"q{self.number}")], [assistant(f"a{self.number}")]
        reply = {"object": "response", "id": f"resp_{self.number}", "output": output}
        node = Node(
            owner, f"resp_{self.number}", parent, 0, json.dumps(given_items).encode(), json.dumps(reply).encode()
        )
        return node, [*given_items, *output]

    async def step(self, owner: str, action: str, number: int) -> None:
        self.number += 1
        state, change = await self.state(owner), (f"convchange_{self.number}", self.number)
        if action == "add":
            new = [user(f"u{self.number}.{index}") for index in range(number % 3)]
            node = added_items(owner, state, *change, {"items": new})
            self.items[owner] += new
        elif action == "delete":
            shown = state.shown()
            if not shown:
                return
            at = number % len(shown)
            node = deleted_item(owner, state, *change, shown[at]["id"])
            del self.items[owner][at]
        elif action == "metadata":
            self.metadata[owner] = {"n": str(number)}
            node = new_metadata(owner, state, *change, {"metadata": self.metadata[owner]})
        elif action == "branch" and self.branches[owner]:
            parent, before = self.branches[owner][number % len(self.branches[owner])]
            node, new = self.response(owner, parent)
            self.branches[owner].append((node.id, before + new))
        else:
            node, new = self.response(owner, "conv_1")
            self.items[owner] += new
            self.branches[owner].append((node.id, self.items[owner].copy()))
        await self.store.put(node)

    async def check(self) -> None:
        for owner in OWNERS:
            state = await self.state(owner)
            assert state.history() == self.items[owner]
            assert state.metadata == self.metadata[owner]
            ids = [item["id"] for item in state.shown()]
            assert len(ids) == len(set(ids)) == len(self.items[owner])
            tree = await self.store.tree(owner, "conv_1")
            for response, items in self.branches[owner]:
                path = await self.store.path(owner, response)
                assert path is not None
                assert path_history(path, tree) == items
                shown = path_items(path, tree)
                assert [item["content"] for item in shown][-1] == [{"type": "input_text", "text": items[-2]["content"]}]
                assert len(shown) == len(items) - 1
                assert input_items(path[1:])  # a list of the path alone does not fail


@pytest.mark.parametrize("kind", ["memory", "sqlite-in-memory"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=STEPS)
def test_a_conversation_is_what_its_changes_made_it(kind: str, steps: list[Any], tmp_path: Path) -> None:
    async def play() -> None:
        async with opened(kind, Clock(), tmp_path) as store:
            world = World(store)
            for owner in OWNERS:
                await store.put(conversation_node(owner, "conv_1", 0, {"items": [user("start")]}))
            for step in steps:
                await world.step(*step)
            await world.check()

    asyncio.run(play())

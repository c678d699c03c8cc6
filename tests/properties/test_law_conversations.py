"""Law: a conversation is what its changes made it, in their order, with any branches, and apart from other owners.

Random conversations of two owners, which have the same id, grow, change, branch, lose responses and expire. The test
keeps the changes itself. The payload of the conversation, and of each response, equals in each dialect the one that is
made of the items that these changes leave.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman import direction, translate
from dragoman.dialects import Dialect
from dragoman.threads import (
    Conversation,
    ItemPage,
    Node,
    Store,
    StoredItems,
    StoreError,
    Thread,
    ThreadLimits,
    added_items,
    conversation_node,
    deleted_item,
    lineage_of,
    members,
    new_metadata,
    page_of,
    path_items,
    read_head,
    sections_of,
)
from dragoman.wire import json_dumps, json_loads
from support.postgres_server import PostgresServer, postgres_server
from support.redis_server import RedisServer, redis_server
from support.stores import Clock
from support.thread_stores import assistant, opened, server_url, user

OWNERS = ("a", "b")
TTL = 100.0
ROOT = "conv_1"
NEXT = user("and now?")
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(("add", "respond", "respond", "delete_item", "metadata", "branch", "branch", "delete")),
            st.sampled_from(OWNERS),
            st.integers(0, 30),
        ),
        st.tuples(st.just("wait"), st.sampled_from(OWNERS), st.sampled_from((30, 60, 101))),
    ),
    max_size=20,
)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@dataclass
class Change:
    """A change of a conversation: items that it adds, and one that it removes."""

    node_id: str
    items: list[Any] = field(default_factory=list)
    removed: Any = None
    metadata: Any = None


@dataclass
class Known:
    """The conversation of one owner, as the test knows it."""

    changes: list[Change] = field(default_factory=list)
    branches: dict[str, tuple[str, list[Any]]] = field(default_factory=dict)
    """Responses below one of the changes: the id of the one before each, and its items."""
    deleted: set[str] = field(default_factory=set)
    expires: float = 0.0

    def responses(self) -> list[str]:
        """All responses that are stored."""
        names = [change.node_id for change in self.changes if change.node_id.startswith("resp_")]
        return [name for name in (*names, *self.branches) if name not in self.deleted]

    def items(self, last: str | None = None) -> list[Any]:
        """The items of the conversation after a change, or now."""
        found = [user("start")]
        for change in self.changes:
            if change.node_id not in self.deleted:
                found = [item for item in found if item != change.removed] + change.items
            if change.node_id == last:
                break
        return found

    def path(self, name: str) -> list[Any] | None:
        """The items of a response's path; None if a response of it was deleted."""
        if name in self.deleted:
            return None
        if name not in self.branches:
            return self.items(name)
        parent, own = self.branches[name]
        before = self.path(parent)
        return None if before is None else before + own

    def metadata(self) -> Any:
        """The metadata of the conversation."""
        given = [each.metadata for each in self.changes if each.metadata is not None]
        return given[-1] if given else {}


class World:
    """The store, and the conversation of each owner."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.number = 1  # that of ROOT: each request of a gateway has another one
        self.known = {owner: Known() for owner in OWNERS}

    async def begin(self, owner: str) -> None:
        await self.put(conversation_node(owner, ROOT, 0, {"items": [user("start")]}))

    async def put(self, node: Node) -> None:
        await self.store.put(node)
        self.known[node.owner].expires = self.clock.now + TTL

    def response(self, owner: str, parent: str) -> tuple[Node, list[Any]]:
        name = f"resp_{self.number}"
        given_items, output = [user(f"q{self.number}")], [assistant(f"a{self.number}")]
        reply = {"object": "response", "id": name, "output": output}
        node = Node(owner, name, parent, 0, json.dumps(given_items).encode(), json.dumps(reply).encode())
        return node, [*given_items, *output]

    async def step(self, action: str, owner: str, number: int) -> None:
        self.number += 1
        known, name = self.known[owner], f"convchange_{self.number}"
        change = (name, self.number)
        responses = known.responses()
        if action == "wait":
            await self.wait(number)
        elif action == "delete" and responses:
            gone = responses[number % len(responses)]
            assert await self.store.delete(owner, gone)
            known.deleted.add(gone)
        elif action == "branch" and responses:
            parent = responses[number % len(responses)]
            node, items = self.response(owner, parent)
            await self.put(node)
            known.branches[node.id] = parent, items
        else:
            state = Conversation(members(await self.store.tree(owner, ROOT)))
            if action == "add":
                items = [user(f"u{self.number}.{index}") for index in range(number % 3)]
                node = added_items(owner, state, *change, {"items": items})
                known.changes.append(Change(name, items))
            elif action == "delete_item" and (shown := state.shown()):
                at = number % len(shown)
                known.changes.append(Change(name, removed=known.items()[at]))
                node = deleted_item(owner, state, *change, shown[at]["id"])
            elif action == "metadata":
                metadata = {"n": str(number)}
                node = new_metadata(owner, state, *change, {"metadata": metadata})
                known.changes.append(Change(name, metadata=metadata))
            else:
                node, items = self.response(owner, ROOT)
                known.changes.append(Change(node.id, items))
            await self.put(node)

    async def wait(self, seconds: int) -> None:
        """Let time pass. A conversation that expires is gone as a whole, and begins again."""
        self.clock.now += seconds
        await self.store.expire()
        for owner, known in self.known.items():
            if known.expires <= self.clock.now:
                assert await self.store.tree(owner, ROOT) == []
                for name in known.responses():
                    assert await self.store.get(owner, name) is None
                    assert await self.store.path(owner, name) is None
                self.known[owner] = Known()
                await self.begin(owner)

    async def check(self) -> None:
        for owner, known in self.known.items():
            tree = await self.store.tree(owner, ROOT)
            assert {node.owner for node in tree} == {owner}
            state = Conversation(members(tree))
            assert state.metadata == known.metadata()
            ids = [item["id"] for item in state.shown()]
            assert len(ids) == len(set(ids)) == len(known.items())
            await self.check_parts(owner, state)
            await self.check_payload(owner, ROOT, known.items())
            shown = [row["id"] for row in lineage_of(tree)["nodes"] if row["kind"] == "response"]
            assert sorted(shown) == sorted(known.responses())
            other = OWNERS[1 - OWNERS.index(owner)]
            for name in (*known.branches, *(change.node_id for change in known.changes)):
                assert await self.store.get(other, name) is None
                if name.startswith("resp_"):
                    await self.check_response(owner, name, known.path(name), tree)

    async def check_parts(self, owner: str, state: Conversation) -> None:
        """Return what is read in parts is the same."""
        outlines = await self.store.tree_outline(owner, ROOT, 2)
        assert (await read_head(lambda part: self.store.nodes(owner, part), outlines)).as_json() == state.as_json()
        items = StoredItems(lambda part: self.store.nodes(owner, part), sections_of(outlines))
        assert await items.history(10**9) == state.history()
        for page in (ItemPage(3, "asc"), ItemPage(3, "desc")):
            assert await items.page(page) == page_of(state.shown(), page)

    async def check_response(self, owner: str, name: str, items: list[Any] | None, tree: list[Node]) -> None:
        path = await self.store.path(owner, name)
        if items is None:
            assert path is None
            with pytest.raises(StoreError):
                await Thread(self.store, owner, name).items()
            return
        assert path is not None
        await self.check_payload(owner, name, items)
        listed = path_items(path, tree)
        assert len(listed) == len(items) - 1
        assert listed[-1]["content"] == [{"type": "input_text", "text": items[-2]["content"]}]

    async def check_payload(self, owner: str, name: str, items: list[Any]) -> None:
        thread = Thread(self.store, owner, name)
        assert await thread.items() == items
        body = json_dumps({"model": "m", "input": [*items, NEXT], "store": False})
        for dialect in Dialect:
            alone = translate(direction("responses", dialect), body)
            assert await thread.payload(dialect, "m", input=[NEXT]) == json_loads(alone.body)


@pytest.mark.parametrize("kind", ["memory", "sqlite-in-memory", "redis", "postgres"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=STEPS)
def test_a_conversation_is_what_its_changes_made_it(
    kind: str, steps: list[Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = server_url(kind, request)

    async def play() -> None:
        clock = Clock()
        async with opened(kind, clock, tmp_path, ThreadLimits(ttl=TTL), url) as store:
            world = World(store, clock)
            for owner in OWNERS:
                await world.begin(owner)
            for step in steps:
                await world.step(*step)
            await world.check()

    asyncio.run(play())

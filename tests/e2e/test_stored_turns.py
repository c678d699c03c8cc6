"""Turns of a WebSocket that are stored: each below the one that it continues, for other connections and for HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects import Dialect
from support.stateful import stateful
from support.texts import sent_texts
from support.websockets import speaking

UPSTREAMS = pytest.mark.parametrize("upstream", list(Dialect))
CHAT = Dialect.CHAT
MODEL = "sim-text"


def response(events: list[Any]) -> Any:
    """The response of a turn, which must agree with itself from its first event on."""
    first, last = events[0]["response"], events[-1]["response"]
    for field in ("id", "previous_response_id", "store", "conversation"):
        assert first.get(field) == last.get(field)
    return last


@UPSTREAMS
async def test_turns_are_stored_below_each_other(upstream: Dialect) -> None:
    async with stateful(upstream) as state:
        async with speaking(state.gate.url) as client:
            first = response(await client.turn(model=MODEL, input="One?"))
            second = response(await client.turn(model=MODEL, input="Two?", previous_response_id=first["id"]))
            fork = response(await client.turn(model=MODEL, input="Fork?", previous_response_id=first["id"], store=True))
        assert [each["previous_response_id"] for each in (first, second, fork)] == [None, first["id"], first["id"]]
        assert [each["store"] for each in (first, second, fork)] == [True, True, True]
        tree = await state.store.tree("", first["id"])
        assert [(node.id, node.parent) for node in tree] == [
            (first["id"], None),
            (second["id"], first["id"]),
            (fork["id"], first["id"]),
        ]
        assert [len(node.input_items()) for node in tree] == [1, 1, 1]  # each its own items only
        stored = await state.sdk.responses.retrieve(second["id"])
        assert stored.previous_response_id == first["id"]
        # Over HTTP, and over another connection.
        answer = next(item for item in first["output"] if item["type"] == "message")["content"][0]["text"]
        await state.sdk.responses.create(model=MODEL, previous_response_id=fork["id"], input="HTTP?")
        assert sent_texts(state.sent())[:3] == ["One?", answer, "Fork?"]
        async with speaking(state.gate.url) as client:
            third = response(await client.turn(model=MODEL, input="Three?", previous_response_id=second["id"]))
            assert sent_texts(state.sent())[:3] == ["One?", answer, "Two?"]
            fourth = response(await client.turn(model=MODEL, input="Four?", previous_response_id=third["id"]))
            assert sent_texts(state.sent())[-1] == "Four?"
        path = await state.store.path("", fourth["id"])
        assert [node.id for node in path] == [first["id"], second["id"], third["id"], fourth["id"]]


@UPSTREAMS
async def test_a_turn_after_one_that_is_not_stored_is_a_root(upstream: Dialect) -> None:
    """It is complete by itself, so it can be continued. It states what it continues."""
    async with stateful(upstream) as state, speaking(state.gate.url) as client:
        first = (await client.turn(model=MODEL, input="One?", store=False))[-1]["response"]
        assert first["store"] is False
        second = response(await client.turn(model=MODEL, input="Two?", previous_response_id=first["id"]))
        assert (second["store"], second["previous_response_id"]) == (True, first["id"])
        (node,) = await state.store.tree("", second["id"])
        assert node.parent is None
        assert len(node.input_items()) >= 3
        await state.sdk.responses.create(model=MODEL, previous_response_id=second["id"], input="Three?")
        texts = sent_texts(state.sent())
        assert [text for text in texts if text.endswith("?")] == ["One?", "Two?", "Three?"]


@UPSTREAMS
async def test_a_turn_in_a_conversation(upstream: Dialect) -> None:
    async with stateful(upstream) as state, speaking(state.gate.url) as client:
        conversation = await state.sdk.conversations.create(
            items=[{"type": "message", "role": "user", "content": "Before."}]
        )
        first = response(await client.turn(model=MODEL, input="One?", conversation=conversation.id))
        assert (first["conversation"], first["store"]) == ({"id": conversation.id}, True)
        assert sent_texts(state.sent()) == ["Before.", "One?"]
        # A branch, of which the connection alone does not know the beginning.
        await client.turn(model=MODEL, input="Two?", previous_response_id=first["id"])
        texts = sent_texts(state.sent())
        assert [texts[0], texts[1], texts[-1]] == ["Before.", "One?", "Two?"]
        failed = (
            await client.turn(
                model=MODEL, input="x", previous_response_id=first["id"], conversation={"id": conversation.id}
            )
        )[-1]
        assert (failed["status"], failed["error"]["param"]) == (400, "previous_response_id")
        assert "together with `conversation`" in failed["error"]["message"]
        failed = (await client.turn(model=MODEL, input="x", conversation=conversation.id, generate=False))[-1]
        assert (failed["status"], failed["error"]["param"]) == (400, "conversation")


async def test_an_error_in_a_turn_names_the_clients_own_field() -> None:
    async with stateful(CHAT) as state, speaking(state.gate.url) as client:
        first = response(await client.turn(model=MODEL, input="One?"))
        wrong: Any = [{"type": "message", "role": "user", "content": [{"type": "no_such_part"}]}]
        failed = (await client.turn(model=MODEL, input=wrong, previous_response_id=first["id"]))[-1]
        assert failed["type"] == "error"
        assert failed["error"]["param"].startswith("input[0]")


async def test_a_response_that_was_deleted_can_be_continued_on_its_connection() -> None:
    async with stateful(CHAT) as state, speaking(state.gate.url) as client:
        first = response(await client.turn(model=MODEL, input="One?"))
        await state.sdk.responses.delete(first["id"])
        second = response(await client.turn(model=MODEL, input="Two?", previous_response_id=first["id"]))
        assert second["previous_response_id"] == first["id"]
        (node,) = await state.store.tree("", second["id"])
        assert (node.parent, len(node.input_items())) == (None, 3)

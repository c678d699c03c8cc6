"""The history that a request continues: limits, and events while it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman import ClientRequestError, DragomanError
from dragoman.errors import LimitExceeded
from dragoman.threads import StoredRequest, conversation_node
from dragoman.wire import json_dumps
from dragoman_server.config.state_options import StateOptions
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.stored_responses import StoredResponses
from support.thread_stores import assistant, node, user


@pytest.fixture
async def stored() -> AsyncIterator[StoredResponses]:
    made = StoredResponses(StateOptions(kind="memory", max_chain=3), Totals(), lambda: 0.0)
    await made.open()
    await made.change(node("k", "resp_1"))
    await made.change(node("k", "resp_2", "resp_1"))
    yield made
    await made.close()


def continuing(previous: str | None = None, *, store: bool = True, conversation: str | None = None) -> StoredRequest:
    return StoredRequest(previous, conversation, store, b"[]")


async def test_the_history_of_a_request(stored: StoredResponses) -> None:
    found, size = await stored.history.of_request("k", continuing("resp_2"), 10_000)
    assert size > len(json_dumps(found))
    assert found == [user("resp_1"), assistant("RESP_1"), user("resp_2"), assistant("RESP_2")]
    with pytest.raises(ClientRequestError, match="previous_response_id"):
        await stored.history.of_request("other", continuing("resp_2"), 10_000)
    with pytest.raises(DragomanError, match="not found"):
        await stored.history.of_request("k", continuing(conversation="conv_1"), 10_000)


async def test_a_history_above_the_limit_names_the_field_and_the_way_out(stored: StoredResponses) -> None:
    with pytest.raises(LimitExceeded) as caught:
        await stored.history.of_request("k", continuing("resp_2"), 200)
    failure = caught.value.failure
    assert (failure.status, failure.param) == (413, "previous_response_id")
    assert failure.message.startswith("previous_response_id: the conversation exceeds the limit request_body = 200")


async def test_only_a_response_that_is_stored_makes_a_path_longer(stored: StoredResponses) -> None:
    await stored.change(node("k", "resp_3", "resp_2"))
    found, _ = await stored.history.of_request("k", continuing("resp_3", store=False), 10_000)
    assert len(found) == 6
    with pytest.raises(ClientRequestError, match="the most are 3"):
        await stored.history.of_request("k", continuing("resp_3"), 10_000)
    with pytest.raises(ClientRequestError, match="the most are 3"):
        await stored.history.below("k", continuing("resp_3"))
    assert await stored.history.below("k", continuing("resp_3", store=False)) is not None
    assert await stored.history.below("k", continuing("resp_x")) is None


async def test_members_are_without_branches(stored: StoredResponses) -> None:
    for each in (conversation_node("k", "conv_1", 0, {}), node("k", "resp_a", "conv_1"), node("k", "resp_b", "resp_a")):
        await stored.change(each)
    assert [each.id for each in await stored.history.members("k", "conv_1")] == ["conv_1", "resp_a"]
    for owner, name in (("other", "conv_1"), ("k", "conv_2"), ("k", "resp_a")):
        with pytest.raises(DragomanError) as caught:
            await stored.history.members(owner, name)
        assert caught.value.failure.status == 404


async def test_a_response_that_is_deleted_meanwhile_is_a_503(stored: StoredResponses) -> None:
    store: Any = stored._store
    nodes = store.nodes

    async def deleting(owner: str, outlines: Any) -> Any:
        await store.delete(owner, "resp_1")
        return await nodes(owner, outlines)

    store.nodes = deleting
    with pytest.raises(DragomanError) as caught:
        await stored.history.of_request("k", continuing("resp_2"), 10_000)
    assert (caught.value.failure.status, caught.value.failure.headers) == (503, {"retry-after": "1"})

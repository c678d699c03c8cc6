"""The items of references: their sizes are added first, and each response is read once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import ClientRequestError
from dragoman.errors import LimitExceeded
from dragoman.threads import Node
from dragoman_server.config.state_options import StateOptions
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.item_references import with_stored_items
from dragoman_server.proxy.stored_responses import StoredResponses
from support.thread_stores import user

FIRST, SECOND = "1" * 32, "2" * 32


async def expanded(*ids: str, limit: int = 10_000) -> list[Any]:
    stored = StoredResponses(StateOptions(kind="memory"), Totals(), lambda: 0.0)
    for base in (FIRST, SECOND):
        items = [user("ü" * 100), user(f"of {base[0]}")]
        await stored.change(Node("k", f"resp_{base}", None, 0, json.dumps(items).encode(), b'{"output":[]}'))
    payload = {"model": "m", "input": [{"id": item_id} for item_id in ids]}
    places = dict(enumerate(ids))
    return list((await with_stored_items(stored, "k", payload, places, limit))["input"])


async def test_items_of_several_responses() -> None:
    found = await expanded(f"msg_{SECOND}_1", f"msg_{FIRST}_1", f"msg_{SECOND}_1")
    assert found == [user("of 2"), user("of 1"), user("of 2")]


async def test_an_item_counts_as_often_as_it_is_referred_to() -> None:
    item_id = f"msg_{FIRST}_0"
    size = len(json.dumps(user("ü" * 100), ensure_ascii=False, separators=(",", ":")).encode())
    assert await expanded(*[item_id] * 3, limit=3 * size) == [user("ü" * 100)] * 3
    with pytest.raises(LimitExceeded, match=f"request_body = {3 * size - 1}"):
        await expanded(*[item_id] * 3, limit=3 * size - 1)


@pytest.mark.parametrize("missing", ["msg_1", f"msg_{'3' * 32}_0", f"msg_{FIRST}_2", f"msg_{FIRST}1"])
async def test_the_first_item_that_is_missing_is_named(missing: str) -> None:
    with pytest.raises(ClientRequestError, match="there is no stored item") as caught:
        await expanded(f"msg_{FIRST}_0", missing, "msg_2")
    assert caught.value.failure.param == "input[1].id"

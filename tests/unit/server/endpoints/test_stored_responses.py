"""The endpoints of stored responses: unknown ids and pages. The rest is tested with the SDK."""

from __future__ import annotations

import pytest
from yarl import URL

from dragoman.dialects import Dialect
from support.stateful import stateful


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "order=up", "after=item_1"])
async def test_a_page_that_there_is_not(query: str) -> None:
    async with stateful(Dialect.CHAT) as state:
        first = await state.sdk.responses.create(model="sim-text", input="Hi")
        url = f"{state.gate.url}/v1/responses/{first.id}/input_items?{query}"
        async with state.gate.session.get(url) as response:
            assert response.status == 400
            assert (await response.json())["error"]["param"] == query.partition("=")[0]


@pytest.mark.parametrize("path", ["a%20b", "%ff", "x" * 200, "a'b", "%F0%9F%98%80"])
async def test_an_id_that_there_cannot_be(path: str) -> None:
    async with stateful(Dialect.CHAT) as state:
        for end in ("", "/input_items"):
            async with state.gate.session.get(URL(f"{state.gate.url}/v1/responses/{path}{end}", encoded=True)) as reply:
                assert reply.status == 404
                assert "not found" in (await reply.json())["error"]["message"]

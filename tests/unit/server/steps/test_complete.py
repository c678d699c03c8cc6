"""A request for a count gets the output limit that its translation needs."""

from __future__ import annotations

import pytest

from dragoman import Dialect
from dragoman.wire import Json
from dragoman_server.draft import Draft
from dragoman_server.receipt import Receipt
from dragoman_server.steps.complete import complete
from support.scopes import drafted, scope_of

CHAT, MESSAGES, RESPONSES, *_ = Dialect


def draft(payload: Json) -> Draft:
    made = drafted(payload=payload)
    made.target = scope_of(Receipt("r", CHAT, 0)).services.router.resolve("m", CHAT)
    return made


@pytest.mark.parametrize(
    ("client", "payload", "limit"), [(MESSAGES, {}, 128_000), (MESSAGES, {"max_tokens": 7}, 7), (RESPONSES, {}, None)]
)
async def test_the_limit(client: Dialect, payload: Json, limit: int | None) -> None:
    before = dict(payload)
    after = draft(payload)
    complete(scope_of(Receipt("req_1", client, 7)), after)
    assert after.payload.get("max_tokens") == limit
    assert payload == before

"""Compaction: what asks for it is removed before the conversation is known, and a summary is requested after."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Dialect
from dragoman.wire import json_dumps, json_loads
from dragoman_server.draft import Draft
from dragoman_server.proxy.request_keys import COMPACT
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.steps.compact import compact, plan_compaction
from support.scopes import drafted, scope_of
from support.thread_stores import user


def scene(**payload: Any) -> tuple[RequestScope, Draft]:
    scope = scope_of(Receipt("req_1", Dialect.RESPONSES, 7))
    draft = drafted(payload={"model": "m", "input": [user("a"), user("b")], **payload})
    draft.body, draft.target = json_dumps(draft.payload), scope.services.router.resolve("m", Dialect.RESPONSES)
    return scope, draft


async def test_most_requests_stay_as_they_are() -> None:
    scope, draft = scene()
    payload, body = draft.payload, draft.body
    plan_compaction(scope, draft)
    assert compact(scope, draft) is None
    assert (draft.compaction, draft.turn) == (None, None)
    assert draft.payload is payload
    assert draft.body is body


async def test_a_request_to_compact_becomes_one_for_a_summary() -> None:
    scope, draft = scene()
    draft.request[COMPACT] = True
    given = draft.payload
    plan_compaction(scope, draft)
    assert draft.compaction is not None
    assert (draft.compaction.whole, draft.compaction.given) == (True, given)
    assert draft.payload["store"] is False
    rest = compact(scope, draft)
    assert rest is not None
    await rest
    assert json_loads(draft.body) == draft.payload
    assert draft.turn is not None
    assert draft.turn.request is None
    assert draft.turn.reply.summarised is not None


@pytest.mark.parametrize("is_sent", [True, False])
async def test_below_its_threshold_a_conversation_is_not_compacted(is_sent: bool) -> None:
    scope, draft = scene(context_management=[{"type": "compaction", "compact_threshold": 100_000}])
    draft.is_sent = is_sent
    plan_compaction(scope, draft)
    rest = compact(scope, draft)
    assert rest is not None
    await rest
    assert "context_management" not in draft.payload
    assert json_loads(draft.body) == draft.payload
    assert draft.turn is None

"""The limits of a key: reserved before a request is sent, settled when it has ended."""

from __future__ import annotations

import pytest

from dragoman import Dialect, DragomanError, Usage, direction, translate
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.steps.limit import estimate, limit
from support.gateways import CHAT
from support.named_keys import keyed, made
from support.samples import dump, request
from support.scopes import drafted, scope_of

BODY = dump(request(CHAT))


def translated(scope: RequestScope) -> RequestScope:
    scope.receipt.translation = translate(direction(CHAT, CHAT), BODY)
    scope.receipt.provider = "up"
    return scope


async def test_the_end_settles_what_was_reserved() -> None:
    _, record = made("alice", daily_tokens=1_000_000)
    gateway = Gateway(keyed("http://up", CHAT, record))
    await gateway.open_stores()
    accounts = gateway.services.named_keys.accounts
    assert accounts is not None
    scope = translated(RequestScope(gateway.services, Receipt("req_1", CHAT, 7, key=record)))
    scope.caller = scope.caller._replace(key=record)
    draft = drafted(payload=request(CHAT) | {"max_completion_tokens": 1000})
    draft.target = gateway.services.router.resolve("m", CHAT)
    await limit(scope, draft)
    assert scope.claim is not None
    state = accounts._store._accounts[record.id].state  # type: ignore[attr-defined]
    assert [*state.held.values()] == [1000]
    scope.translation.context.usage = Usage(input_total=40, output_total=2)
    scope.end("completed", 200)
    await accounts._settlements.flush(5)
    assert not state.held
    assert 42 in [each.amount for each in await accounts._store.spent(record.id)]
    await gateway.close()


async def test_above_the_limit_a_request_is_rejected_and_not_counted() -> None:
    _, record = made("alice", requests_per_minute=1)
    gateway = Gateway(keyed("http://up", CHAT, record))
    await gateway.open_stores()
    await gateway.services.count(record, CHAT)
    scope = translated(RequestScope(gateway.services, Receipt("req_1", CHAT, 7, key=record)))
    scope.caller = scope.caller._replace(key=record)
    with pytest.raises(DragomanError) as caught:
        await limit(scope, drafted())
    assert (caught.value.failure.status, scope.claim) == (429, None)
    await gateway.close()


async def test_a_client_without_a_key_has_no_limits() -> None:
    scope = translated(scope_of(Receipt("req_1", Dialect.CHAT, 7)))
    await limit(scope, drafted())
    assert scope.claim is None


async def test_a_body_that_passes_through_is_estimated() -> None:
    scope = translated(scope_of(Receipt("req_1", Dialect.CHAT, 7)))
    scope.translation.context.input_estimate = 0
    estimate(scope, drafted())
    assert scope.translation.context.input_estimate == len(scope.translation.body) // 4
    scope.translation.context.input_estimate = 5
    estimate(scope, drafted())
    assert scope.translation.context.input_estimate == 5

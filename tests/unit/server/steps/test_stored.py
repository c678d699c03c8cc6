"""A request that continues a stored response gets the whole conversation, or runs in the background."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ClientRequestError, Dialect
from dragoman.threads import Node
from dragoman.wire import json_dumps, json_loads
from dragoman_server.draft import CompactionStep, Draft
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.request_keys import CONTINUED, Continued
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.steps.stored import stored
from support.gateways import CHAT, config_for
from support.scopes import drafted
from support.thread_stores import user

FIRST = f"resp_{'1' * 32}"


async def scene(**payload: Any) -> tuple[RequestScope, Draft]:
    """A request of a client that has stored one response."""
    services = Gateway(config_for("http://up", CHAT)).services
    assert services.responses.stored is not None
    await services.responses.stored.change(Node("", FIRST, None, 0, json_dumps([user("before")]), b'{"output":[]}'))
    scope = RequestScope(services, Receipt("req_1", Dialect.RESPONSES, 7))
    payload = {"model": "m", "input": "now", **payload}
    draft = drafted(payload=payload, loaded=services.loaded)
    draft.body, draft.target = json_dumps(payload), services.router.resolve("m", Dialect.RESPONSES)
    return scope, draft


async def test_the_conversation_is_the_input() -> None:
    scope, draft = await scene(previous_response_id=FIRST)
    await stored(scope, draft)
    assert [each["content"] for each in draft.payload["input"]] == ["before", "now"]
    assert json_loads(draft.body) == draft.payload
    assert draft.turn is not None
    assert (draft.turn.items, draft.turn.reply.keep is not None) == (1, True)


async def test_a_request_that_has_its_conversation_keeps_it() -> None:
    scope, draft = await scene(input=[user("before"), user("now")])
    draft.request[CONTINUED] = Continued(FIRST, 1)
    await stored(scope, draft)
    assert len(draft.payload["input"]) == 2
    assert draft.turn is not None
    assert (draft.turn.items, draft.turn.reply.fields["previous_response_id"]) == (1, FIRST)


async def test_a_request_for_the_background_is_sent_as_it_was_given() -> None:
    scope, draft = await scene(background=True)
    responses = scope.services.responses.stored
    assert responses is not None
    given = {**draft.payload, "context_management": []}
    draft.compaction = CompactionStep(draft.payload, given, 5)
    await stored(scope, draft)
    assert draft.background is not None
    assert draft.payload is given


async def test_an_explanation_runs_nothing() -> None:
    scope, draft = await scene(background=True)
    draft.is_sent = False
    await stored(scope, draft)
    assert draft.background is None
    assert "background" not in draft.payload


async def test_a_response_that_is_not_stored_cannot_run_in_the_background() -> None:
    scope, draft = await scene(background=True, store=False)
    with pytest.raises(ClientRequestError, match="store: true"):
        await stored(scope, draft)

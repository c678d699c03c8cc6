"""The translation of a request: for its provider, or for the first of a plan that can express it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman import ClientRequestError, Dialect
from dragoman.wire import json_loads
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.draft import Draft
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.steps.translate import translate_again, translate_request, translate_unsent
from support.gateways import config_for
from support.samples import dump, request
from support.scopes import drafted

CHAT, MESSAGES, RESPONSES, *_ = Dialect
ONLY_CHAT: Any = {"logprobs": True, "top_logprobs": 3}


def planned(config: Config) -> Config:
    providers = {"up1": Provider("up1", MESSAGES, "http://up1"), "up2": Provider("up2", CHAT, "http://up2")}
    targets = (RouteTarget("up1"), RouteTarget("up2"))
    return replace(config, providers=providers, routes=[Route("*", targets=targets, knobs={"on_loss": "reject"})])


def scene(config: Config, client: Dialect = CHAT, **fields: Any) -> tuple[RequestScope, Draft]:
    scope = RequestScope(Gateway(config).services, Receipt("req_1", client, 7))
    body = dump({**request(client), **fields})
    draft = drafted(body, payload=json_loads(body), loaded=scope.services.loaded)
    draft.body = body
    draft.target = scope.services.router.resolve("m", client)
    return scope, draft


PLAIN = config_for("http://up", MESSAGES)


async def test_the_receipt_has_the_translation_and_its_provider() -> None:
    scope, draft = scene(PLAIN)
    await translate_request(scope, draft)
    assert scope.translation.direction.upstream.dialect is MESSAGES
    assert (scope.receipt.provider, scope.receipt.route, draft.ranking) == ("up", "*", None)


async def test_the_first_candidate_that_can_express_a_request_gets_it() -> None:
    scope, draft = scene(planned(PLAIN), **ONLY_CHAT)
    await translate_request(scope, draft)
    assert draft.candidate is not None
    assert (draft.candidate.provider.name, scope.receipt.provider) == ("up2", "up2")
    assert draft.ranking is not None
    assert [each.provider.name for each in draft.ranking] == ["up1", "up2"]


async def test_an_explanation_is_for_the_target_alone() -> None:
    scope, draft = scene(planned(PLAIN), **ONLY_CHAT)
    with pytest.raises(ClientRequestError):
        await translate_unsent(scope, draft)
    assert draft.ranking is None


async def test_another_candidate_gets_the_clients_own_request() -> None:
    scope, draft = scene(planned(PLAIN))
    await translate_request(scope, draft)
    draft.payload = {}
    other = draft.target._replace(provider=scope.services.config.providers["up2"])
    await translate_again(scope, draft, other)
    assert draft.call.url == "http://up2/v1/chat/completions"
    assert draft.call.body is scope.translation.body
    assert scope.receipt.provider == "up2"

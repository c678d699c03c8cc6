"""The target of a request: by its model, by a hook, or as the only provider that serves the endpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman import Dialect, DragomanError
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.hooks import Hooks, Target
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.steps.route import ONLY_PROVIDER, route, route_forwarded
from support.gateways import CHAT, config_for
from support.named_keys import made
from support.scopes import drafted

CONFIG = config_for("http://up", CHAT)


def scope(endpoint: str = "", **gateway: Any) -> RequestScope:
    return RequestScope(Gateway(CONFIG, **gateway).services, Receipt("req_1", Dialect.CHAT, 7, endpoint=endpoint))


async def test_the_model_decides() -> None:
    own = scope()
    draft = drafted(payload={"model": "m"})
    await route(own, draft)
    assert (draft.target.provider.name, draft.target.upstream_model) == ("up", "m")
    assert own.receipt.model == "m"


async def test_a_key_that_may_not_use_the_model_is_a_403() -> None:
    own = scope()
    own.receipt.key = made("alice", models=("other",))[1]
    with pytest.raises(DragomanError) as caught:
        await route(own, drafted(payload={"model": "m"}))
    assert (caught.value.failure.status, own.receipt.model) == (403, "m")


async def test_the_hook_comes_first() -> None:
    async def choose(*_: Any) -> Target:
        return Target("up", "chosen")

    draft = drafted(payload={"model": "m"})
    await route(scope(hooks=Hooks(choose=choose)), draft)
    assert draft.target.upstream_model == "chosen"


async def test_a_forwarded_request_without_a_model_has_the_only_provider() -> None:
    own = scope("embeddings")
    draft = drafted(payload={})
    await route_forwarded(own, draft)
    assert (draft.target.provider.name, own.receipt.route, own.receipt.model) == ("up", ONLY_PROVIDER, None)


async def test_a_provider_that_does_not_serve_the_endpoint_is_named() -> None:
    config = replace(CONFIG, providers={"up": replace(CONFIG.providers["up"], endpoints=("images",))})
    own = RequestScope(Gateway(config).services, Receipt("req_1", Dialect.CHAT, 7, endpoint="embeddings"))
    with pytest.raises(DragomanError, match="the provider up of model m does not serve"):
        await route_forwarded(own, drafted(payload={"model": "m"}, loaded=own.services.loaded))

"""The services that requests share: fixed for the life of a gateway, but for its configuration."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from dragoman import Dialect, DragomanError
from dragoman_server.proxy.gateway import Gateway
from support.gateways import CHAT, config_for
from support.named_keys import keyed, made


async def test_only_the_configuration_is_replaced() -> None:
    config = config_for("http://up", CHAT)
    gateway = Gateway(config)
    services, loaded = gateway.services, gateway.services.loaded
    gateway.reconfigure(replace(config, server=replace(config.server, receipts=5)))
    assert gateway.services is services
    assert services.loaded is not loaded
    assert services.config.server.receipts == 5
    assert services.router is services.loaded.router
    with pytest.raises(FrozenInstanceError):
        services.receipts = services.receipts  # type: ignore[misc]


async def test_requests_that_are_not_sent_count_in_the_limits_of_a_key() -> None:
    _, record = made("alice", requests_per_minute=2)
    gateway = Gateway(keyed("http://up", CHAT, record))
    await gateway.open_stores()
    try:
        for _ in range(2):
            await gateway.services.count(record, Dialect.CHAT)
        await gateway.services.count(None, Dialect.CHAT)
        with pytest.raises(DragomanError) as caught:
            await gateway.services.count(record, Dialect.CHAT)
        assert caught.value.failure.status == 429
    finally:
        await gateway.close()

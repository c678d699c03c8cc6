"""The transport and the pool options of a configuration."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.upstream.aiohttp_transport import AiohttpTransport
from dragoman.aio.upstream.http11.transport import Http11Transport
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.proxy.gateway import Gateway


@pytest.mark.parametrize(
    ("server", "kind"),
    [({}, Http11Transport), ({"transport": "raw"}, Http11Transport), ({"transport": "aiohttp"}, AiohttpTransport)],
)
async def test_the_transport_is_the_one_configured(server: dict[str, Any], kind: type) -> None:
    gateway = Gateway(parse_config({"server": server}, {}))
    gateway.open()
    assert type(gateway.services.upstream._transport) is kind
    await gateway.close()


def test_connections_are_read() -> None:
    given = {"limit": 5, "idle": 0, "idle_seconds": 4, "unread": 65536}
    config = parse_config({"server": {"connections": given}}, {})
    assert config.server.connections == PoolOptions(limit=5, idle=0, idle_seconds=4, unread=65536)


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({"transport": "rawr"}, 'server.transport: expected one of raw, aiohttp; got "rawr" (did you mean "raw"?)'),
        ({"connections": {"limit": -1}}, "server.connections.limit: expected 0 or more; got -1"),
        ({"connections": {"head": 10}}, "server.connections.head: expected 1024 or more; got 10"),
        (
            {"connections": {"idle_seconds": float("inf")}},
            "server.connections.idle_seconds: expected 0 or more; got inf",
        ),
        ({"connections": {"idel": 1}}, 'server.connections.idel: unknown key (did you mean "idle"?)'),
    ],
)
def test_invalid_settings_are_reported(server: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config({"server": server}, {})
    assert str(raised.value) == problem

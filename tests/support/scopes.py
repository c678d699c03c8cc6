"""Scopes of requests, of a gateway that is not open."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from unittest.mock import Mock

from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from dragoman.dialects import Dialect
from dragoman.errors import Failure
from dragoman.wire import Json
from dragoman_server.config.schema import Config
from dragoman_server.draft import Draft
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.loaded_config import LoadedConfig
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services

from .gateways import config_for


@cache
def services() -> Services:
    """Services that all tests may share which change nothing in them."""
    return Gateway(config_for("http://up", Dialect.CHAT)).services


def scope_of(receipt: Receipt, config: Config | None = None) -> RequestScope:
    """The scope of a request with this receipt, which no counters count."""
    return RequestScope(services() if config is None else Gateway(config).services, receipt)


def end(receipt: Receipt, ended: str, status: int, failure: Failure | None = None) -> None:
    """End the request of a receipt."""
    scope_of(receipt).end(ended, status, failure)


def drafted(
    body: bytes = b"",
    *,
    payload: Json | None = None,
    loaded: LoadedConfig | None = None,
    content_type: str = "application/json",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Draft:
    """The draft of a request whose body has arrived, in a running event loop."""
    content = StreamReader(Mock(spec=BaseProtocol, _reading_paused=False), 2**16, loop=asyncio.get_running_loop())
    content.feed_data(body)
    content.feed_eof()
    known = {"host": "x", "content-type": content_type, **headers}
    request = make_mocked_request("POST", "/v1/x", headers=known, payload=content)
    return Draft(request, (loaded or services().loaded), payload=payload or {})

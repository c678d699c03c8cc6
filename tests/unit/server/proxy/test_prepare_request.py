"""Everything that is known of a request is known before it is sent."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from dragoman import Dialect, DragomanError
from dragoman.aio import Transport
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Route
from dragoman_server.observability.receipts import Receipt
from dragoman_server.proxy.attempts import Attempts
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.prepare_request import prepare_request
from support import samples
from support.gateways import config_for

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES


def incoming(body: Any) -> web.Request:
    content = StreamReader(Mock(spec=BaseProtocol, _reading_paused=False), 2**16, loop=asyncio.get_running_loop())
    content.feed_data(json.dumps(body).encode())
    content.feed_eof()
    headers = {"host": "x", "content-type": "application/json"}
    return make_mocked_request("POST", "/v1/messages", headers=headers, payload=content)


async def test_a_prepared_request_is_translated_and_not_sent() -> None:
    transport = Mock(spec=Transport)
    gateway, receipt = Gateway(config_for("http://up", CHAT), upstream=transport), Receipt("req_1", MESSAGES, 0)
    call, exchange, send = await prepare_request(gateway, incoming(samples.request(MESSAGES)), receipt, None)
    assert (call.url, send) == ("http://up/v1/chat/completions", transport.open)
    assert exchange.translation is receipt.translation
    assert json.loads(call.body)["messages"]
    assert (receipt.provider, receipt.route) == ("up", "*")
    assert gateway.receipts.of_any_client("req_1") is receipt
    transport.open.assert_not_called()


async def test_a_route_with_retries_sends_by_attempts() -> None:
    config = config_for("http://up", CHAT)
    config = replace(config, routes=[Route("*", "up", targets=(RouteTarget("up"), RouteTarget("up", "other")))])
    gateway = Gateway(config, upstream=Mock(spec=Transport))
    receipt = Receipt("req_1", MESSAGES, 0)
    _, _, send = await prepare_request(gateway, incoming(samples.request(MESSAGES)), receipt, None)
    assert isinstance(getattr(send, "__self__", None), Attempts)


async def test_a_rejected_request_has_no_translation() -> None:
    gateway, receipt = Gateway(config_for("http://up", CHAT), upstream=Mock(spec=Transport)), Receipt("r", MESSAGES, 0)
    with pytest.raises(DragomanError, match="messages"):
        await prepare_request(gateway, incoming({**samples.request(MESSAGES), "messages": 7}), receipt, None)
    assert (receipt.translation, receipt.provider) == (None, "up")

"""Requests to upstreams outside of translated exchanges."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp.test_utils import make_mocked_request

from dragoman.aio import AiohttpTransport, Http11Transport, Timeouts, UpstreamRequest
from dragoman.errors import LimitExceeded, UpstreamUnreachable
from dragoman_server.config.schema import Config, Server
from dragoman_server.proxy.open_requests import OpenRequests
from dragoman_server.proxy.upstream_calls import UpstreamCalls
from support.sockets import ScriptedServer, answer

REQUEST = make_mocked_request("POST", "/v1/responses/input_tokens")


@asynccontextmanager
async def calls(transport: str = "http11") -> AsyncIterator[tuple[UpstreamCalls, OpenRequests]]:
    requests = OpenRequests()
    opened = UpstreamCalls(None, requests)
    opened.open(Config(server=Server(transport=transport)))
    try:
        yield opened, requests
    finally:
        await opened.close()


def call(url: str) -> UpstreamRequest:
    return UpstreamRequest(f"{url}/v1/models", {}, b"", False, Timeouts(), "GET")


async def test_a_gateway_that_is_not_open_has_no_transport() -> None:
    closed = UpstreamCalls(None, OpenRequests())
    with pytest.raises(UpstreamUnreachable, match="not open"):
        await closed.fetch(call("http://127.0.0.1:1"), 100)
    async with calls() as (opened, _):
        assert isinstance(opened.transport, Http11Transport)
    with pytest.raises(UpstreamUnreachable, match="not open"):
        opened.transport  # noqa: B018


async def test_the_configuration_names_the_transport() -> None:
    async with calls("aiohttp") as (opened, _):
        assert isinstance(opened.transport, AiohttpTransport)


async def test_a_whole_response_is_fetched() -> None:
    async with ScriptedServer(answer(200, b'{"data":[]}')) as server, calls() as (opened, requests):
        status, headers, body = await opened.fetch(call(server.url), 100, REQUEST)
        assert (status, body) == (200, b'{"data":[]}')
        assert headers["content-length"] == "11"
        assert not requests


async def test_a_list_is_fetched_without_a_client() -> None:
    async with ScriptedServer(answer(200, b"[]")) as server, calls() as (opened, _):
        assert await opened.fetch_list(call(server.url)) == (200, b"[]")


async def test_a_response_beyond_the_limit_is_an_error_and_ends_the_request() -> None:
    async with ScriptedServer(answer(200, b"x" * 50)) as server, calls() as (opened, requests):
        with pytest.raises(LimitExceeded):
            await opened.fetch(call(server.url), 10, REQUEST)
        assert not requests


async def test_a_request_is_open_within_its_block() -> None:
    async with ScriptedServer(answer(200, b"x")) as server, calls() as (opened, requests):
        async with opened.opened(call(server.url), REQUEST) as (response, timers):
            assert list(requests) == [timers]
            assert await response.read(10) == b"x"
        assert not requests

"""`async with` closes transports and responses: at the end, and when an exception leaves it."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.aio import AiohttpTransport, Http11Transport, StreamTimers, Timeouts, UpstreamRequest
from support.sockets import head, sse_head
from support.waiting import until
from support.wire_server import WireServer, replying

OK = head(200, [("content-length", "2")]) + b"ok"


@pytest.mark.parametrize("make", [AiohttpTransport, Http11Transport])
async def test_a_response_returns_its_connection_and_a_transport_closes_it(make: Any) -> None:
    async with WireServer(replying(OK)) as server:
        async with make() as transport:
            for _ in range(2):
                request = UpstreamRequest(server.url, {}, b"{}", False, Timeouts())
                with StreamTimers(request.timeouts) as timers:
                    async with await transport.open(request, timers) as response:
                        assert await response.read(10) == b"ok"
                assert repr(timers) == "<StreamTimers stopped>"
        assert len(server.peers) == 1
        await until(lambda: server.peers[0].gone.is_set())


@pytest.mark.parametrize("make", [AiohttpTransport, Http11Transport])
async def test_an_exception_cuts_the_connection(make: Any) -> None:
    async def fail(transport: Any, url: str) -> None:
        request = UpstreamRequest(url, {}, b"{}", True, Timeouts())
        with StreamTimers(request.timeouts) as timers:
            async with await transport.open(request, timers):
                raise KeyError

    async with WireServer(replying(sse_head())) as server, make() as transport:
        with pytest.raises(KeyError):
            await fail(transport, server.url)
        await until(lambda: server.peers[0].gone.is_set())

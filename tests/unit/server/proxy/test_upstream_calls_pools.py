"""The numbers of connections to upstreams."""

from __future__ import annotations

from dragoman.aio import StreamTimers, Timeouts, UpstreamRequest
from dragoman.aio.upstream.aiohttp_transport import AiohttpTransport
from dragoman.aio.upstream.http11.transport import Http11Transport
from dragoman_server.observability.metric_families import UPSTREAM_CONNECTIONS, UPSTREAM_WAITING, Totals
from dragoman_server.proxy.upstream_calls import add_pools
from support.sockets import ScriptedServer, answer


async def test_connections_by_their_origin() -> None:
    transport, timeouts = Http11Transport(), Timeouts()
    async with ScriptedServer(answer(200, b"{}")) as server:
        call = UpstreamRequest(f"{server.url}/v1?key=canary", {}, b"{}", False, timeouts)
        response = await transport.open(call, StreamTimers(timeouts))
        totals = Totals()
        add_pools(transport, totals)
        assert totals.read(UPSTREAM_CONNECTIONS, server.url, "busy") == [1]
        await response.read(100)
        await response.close()
        totals = Totals()
        add_pools(transport, totals)
        assert totals.values == {
            UPSTREAM_CONNECTIONS.name: {(server.url, "busy"): [0], (server.url, "idle"): [1]},
            UPSTREAM_WAITING.name: {(server.url,): [0]},
        }
        await transport.close()


async def test_other_transports_have_none() -> None:
    totals, transport = Totals(), AiohttpTransport()
    for each in (None, transport):
        add_pools(each, totals)
    assert totals.values == {}
    await transport.close()

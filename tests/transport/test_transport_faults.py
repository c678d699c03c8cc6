"""Both transports over the fault proxy: a bad network between them and a sound server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.errors import StreamTruncated, UpstreamTimeout, UpstreamUnreachable
from support.fault_proxy import Ending, Fault, FaultProxy
from support.sockets import LAST_CHUNK, chunk, head
from support.transports import Client
from support.waiting import turns, until
from support.wire_server import WireServer, replying

STEPPED = True
EVENTS = [b"data: %d\n\n" % number for number in range(20)]
BODY = b"".join(EVENTS)
HEAD = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
PIECES = [HEAD, *map(chunk, EVENTS), LAST_CHUNK]
WIRE = b"".join(PIECES)
BREAKS: dict[str, Callable[[int], Fault]] = {
    "cut": lambda after: Fault(cut=after),
    "reset": lambda after: Fault(reset=after),
    "half-close": lambda after: Fault(half_close=after),
}


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_a_reply_in_drips(client: Client, size: int) -> None:
    async with (
        WireServer(replying(*PIECES)) as server,
        FaultProxy(server.port, to_client=lambda: Fault(drip=size)) as proxy,
    ):
        for _ in range(2):
            assert await client.body(proxy.url) == BODY
        assert proxy.connections == 1


async def test_a_request_in_drips(client: Client) -> None:
    body = b"0123456789" * 30
    async with (
        WireServer(replying(*PIECES)) as server,
        FaultProxy(server.port, to_server=lambda: Fault(drip=1)) as proxy,
    ):
        assert await client.body(proxy.url, body) == BODY
        assert server.requests[0].body == body


@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
async def test_an_end_after_any_number_of_bytes(client: Client, broken: Callable[[int], Fault]) -> None:
    """No answer before the head is whole, then StreamTruncated, and success for the whole reply only."""
    points = [0, 1, len(HEAD) - 1, len(HEAD), len(HEAD) + 1, len(HEAD) + 4, len(WIRE) - 5, len(WIRE) - 1, len(WIRE)]
    after = 0
    async with (
        WireServer(replying(*PIECES)) as server,
        FaultProxy(server.port, to_client=lambda: broken(after)) as proxy,
    ):
        for after in points:
            got: list[bytes] = []
            expected = UpstreamUnreachable if after < len(HEAD) else StreamTruncated
            if after == len(WIRE):
                assert await client.body(proxy.url, b"whole") == BODY
            else:
                with pytest.raises(expected):
                    async with client.ask(proxy.url, b"%d" % after) as asked:
                        await asked.pieces(got)
            assert BODY.startswith(b"".join(got))
        bodies = [request.body for request in server.requests]
        assert len(bodies) == len(set(bodies)), "a request was sent twice"


async def test_a_stall_ends_in_the_idle_timeout_or_goes_on(client: Client) -> None:
    fault = Fault(hold=len(HEAD) + 40)
    async with (
        WireServer(replying(*PIECES)) as server,
        FaultProxy(server.port, to_client=fault) as proxy,
    ):
        with pytest.raises(UpstreamTimeout, match="idle"):
            await client.body(proxy.url, timeouts=Timeouts(idle=0.05))
        held = asyncio.create_task(client.body(proxy.url))
        await until(lambda: len(proxy.links) == 2 and proxy.links[1].passed["client"] == fault.hold)
        await turns(20)
        assert not held.done()
        fault.go.set()
        assert await held == BODY


@pytest.mark.parametrize("how", [Ending.CUT, Ending.RESET])
async def test_a_command_ends_an_open_stream(client: Client, how: Ending) -> None:
    fault = Fault(hold=len(HEAD) + len(chunk(EVENTS[0])))
    async with (
        WireServer(replying(*PIECES)) as server,
        FaultProxy(server.port, to_client=fault) as proxy,
    ):
        got: list[bytes] = []
        async with client.ask(proxy.url) as asked:
            reading = asyncio.create_task(asked.pieces(got))
            await fault.held.wait()
            await until(lambda: got)
            proxy.end(how)
            with pytest.raises(StreamTruncated):
                await reading
        assert got == [EVENTS[0]]


async def test_a_server_may_still_answer_a_half_closed_client(client: Client) -> None:
    """A middlebox that ends our direction behind the request (some do) leaves the reply whole."""
    async with WireServer(replying(*PIECES)) as server:
        size = 0
        async with FaultProxy(server.port) as plain:
            await client.body(plain.url)
            size = plain.links[0].passed["server"]
        async with FaultProxy(server.port, to_server=lambda: Fault(half_close=size)) as proxy:
            assert len(f"{proxy.port}") == len(f"{plain.port}"), "the host header has another length"
            assert await client.body(proxy.url) == BODY


async def test_a_connection_that_is_accepted_late(client: Client) -> None:
    async with WireServer(replying(*PIECES)) as server, FaultProxy(server.port) as proxy:
        proxy.accepting.clear()
        call = asyncio.create_task(client.body(proxy.url))
        await until(lambda: proxy.connections)
        await turns(20)
        assert not server.peers
        proxy.accepting.set()
        assert await call == BODY


async def test_a_connection_that_is_accepted_never(client: Client) -> None:
    async with WireServer(replying(*PIECES)) as server, FaultProxy(server.port) as proxy:
        proxy.accepting.clear()
        with pytest.raises(UpstreamTimeout):
            await client.body(proxy.url, timeouts=Timeouts(connect=0.1, first_byte=0.1))
        assert not server.peers


async def test_a_port_that_is_closed_and_opened_again(client: Client) -> None:
    async with WireServer(replying(*PIECES)) as server, FaultProxy(server.port) as proxy:
        assert await client.body(proxy.url) == BODY
        await proxy.refuse()
        proxy.end(Ending.CUT)
        await until(lambda: server.peers[0].gone.is_set())
        await turns(10)
        with pytest.raises(UpstreamUnreachable, match="cannot connect"):
            await client.body(proxy.url)
        await proxy.listen()
        assert await client.body(proxy.url) == BODY
        assert len(server.requests) == 2

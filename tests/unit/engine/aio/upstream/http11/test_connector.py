"""The connector: one lookup for concurrent requests, racing addresses, error messages without addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from itertools import pairwise
from typing import Any, cast

import pytest

from dragoman.aio.few_per_turn import CONNECTS, FewPerTurn
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import PoolOptions, Timeouts
from dragoman.aio.upstream.http11 import connector
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.aio.upstream.http11.connector import Connector
from dragoman.aio.upstream.http11.request_head import Origin
from dragoman.aio.upstream.http11.transport import Http11Transport
from dragoman.aio.upstream.interface import UpstreamRequest
from dragoman.errors import UpstreamUnreachable

NAME = Origin(False, "upstream.test", 80)
INFO = [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 80))]


class Names:
    """A loop that knows names. Look-ups wait for `answer`; `failing` ones fail."""

    def __init__(self) -> None:
        self.asked = 0
        self.failing = False
        self.now = 100.0
        self.answer = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def time(self) -> float:
        """The result that the test has set."""
        return self.now

    async def getaddrinfo(self, host: str, port: int) -> Any:
        """As a lookup's."""
        self.asked += 1
        await self.answer.wait()
        if self.failing:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return INFO

    def create_task(self, work: Any) -> Any:
        """As the loop's."""
        return self._loop.create_task(work)


async def turns() -> None:
    """Let tasks run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_name_is_looked_up_once_for_all_who_ask() -> None:
    names, dialer = Names(), Connector(None, 30)
    dialer.loop, dialer.lookup = names, names.getaddrinfo  # type: ignore[assignment]
    asking = [asyncio.create_task(dialer._resolve(NAME)) for _ in range(3)]
    await turns()
    asking[0].cancel()
    names.answer.set()
    assert await asyncio.gather(*asking[1:]) == [INFO, INFO]
    assert asking[0].cancelled()
    assert await dialer._resolve(NAME) == INFO
    assert names.asked == 1
    names.now += 30
    await dialer._resolve(NAME)
    assert names.asked == 2


async def test_a_look_up_that_failed_is_not_remembered() -> None:
    names, dialer = Names(), Connector(None, 30)
    dialer.loop, dialer.lookup = names, names.getaddrinfo  # type: ignore[assignment]
    names.answer.set()
    names.failing = True
    for _ in range(2):
        with pytest.raises(UpstreamUnreachable, match=r"^cannot connect to the upstream: Name or service not known$"):
            await dialer.connect(NAME, Connection.__new__(Connection))
    assert names.asked == 2


async def test_addresses_that_did_not_work_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names, dialer = Names(), Connector(None, 30)
    dialer.loop, dialer.lookup = names, names.getaddrinfo  # type: ignore[assignment]
    names.answer.set()

    async def refused(addresses: Any, **_: Any) -> socket.socket:
        assert addresses == INFO
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(connector, "start_connection", refused)
    for _ in range(2):
        with pytest.raises(UpstreamUnreachable, match=r"^cannot connect to the upstream: Connection refused$"):
            await dialer.connect(NAME, Connection.__new__(Connection))
    assert names.asked == 2


async def test_close_cancels_lookups() -> None:
    names, dialer = Names(), Connector(None, 30)
    dialer.loop, dialer.lookup = names, names.getaddrinfo  # type: ignore[assignment]
    asking = asyncio.create_task(dialer._resolve(NAME))
    await turns()
    dialer.close()
    await turns()
    assert asking.cancelled()
    assert not dialer._lookups


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"), "TLS failed: "),
        (ConnectionResetError(), "ConnectionResetError"),
        (OSError(113, "No route to host"), "No route to host"),
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9)"), "Connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (RuntimeError("a reason of uvloop"), "a reason of uvloop"),
    ],
)
def test_the_error_names_the_reason(error: Exception, reason: str) -> None:
    assert connector._reason(error).startswith(reason)


def test_the_default_context_verifies() -> None:
    async def context() -> ssl.SSLContext:
        dialer = Connector(None, 30)
        assert dialer._context() is dialer._context()
        return dialer._context()

    made = asyncio.run(context())
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.check_hostname


async def test_many_urls_do_not_pile_up() -> None:
    upstream = Http11Transport(PoolOptions())
    for number in range(3000):
        upstream._target(f"http://h{number}.test/")
    assert len(upstream._targets) <= 1024
    assert len(upstream._pools) <= 1024
    assert upstream.busy == 0
    await upstream.close()


async def test_a_header_that_cannot_be_sent_opens_no_connection() -> None:
    upstream = Http11Transport()
    watch = StreamTimers(Timeouts())
    with pytest.raises(ValueError, match="nothing was sent"):
        await upstream.open(UpstreamRequest("http://127.0.0.1:1/", {"x": "a\r\nb: c"}, b"", True, Timeouts()), watch)
    assert upstream.busy == 0
    watch.stop()
    await upstream.close()


async def test_a_turn_begins_and_ends_few_of_many_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that waited for one lookup begin a few per turn; so do those whose upstream accepts all at a time."""
    begun, ended, accepted = 0, 0, asyncio.Event()

    async def start(*_: Any, **__: Any) -> Any:
        nonlocal begun
        begun += 1
        await accepted.wait()
        return Refused()

    class Refused:
        """A socket that fails at its first use."""

        def setsockopt(self, *_: object) -> None:
            nonlocal ended
            ended += 1
            raise OSError

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(connector, "start_connection", start)
    dialer = Connector(None, 30)
    dialer._connects = FewPerTurn(CONNECTS, clock=lambda: 0.0)
    origin, made = Origin(False, "127.0.0.1", 80), 5 * CONNECTS
    connects = [asyncio.create_task(dialer.connect(origin, cast("Any", None))) for _ in range(made)]
    counts = [(0, 0)]
    while counts[-1][0] < made:
        await asyncio.sleep(0)
        counts.append((begun, ended))
    dialer._connects = FewPerTurn(CONNECTS, clock=lambda: 0.0)
    accepted.set()
    while counts[-1][1] < made:
        await asyncio.sleep(0)
        counts.append((begun, ended))
    for before, after in pairwise(counts):
        assert after[0] - before[0] <= CONNECTS
        assert after[1] - before[1] <= CONNECTS
    for error in await asyncio.gather(*connects, return_exceptions=True):
        assert isinstance(error, UpstreamUnreachable)

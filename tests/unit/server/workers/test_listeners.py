"""Sockets of one address for several processes."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from dragoman.aio.unsent import KERNEL_UNSENT
from dragoman_server.observability.metric_families import Totals
from dragoman_server.workers import listeners
from dragoman_server.workers.listeners import BALANCED, Listeners

BOTH = pytest.mark.parametrize(
    "balanced", [pytest.param(True, marks=pytest.mark.skipif(not BALANCED, reason="not on this system")), False]
)


@contextmanager
def bound(host: str = "127.0.0.1", port: int = 0, *, balanced: bool, shares: int = 1) -> Iterator[Listeners]:
    made = Listeners(host, port, balanced=balanced)
    try:
        made.grow(shares)
        yield made
    finally:
        made.close()


def answers(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(30)
        return client.connect_ex(("127.0.0.1", port)) == 0


@BOTH
def test_all_shares_have_one_port_and_no_connection_comes_before_it_is_wanted(balanced: bool) -> None:
    with bound(balanced=balanced, shares=3) as made:
        assert len(made.groups) == (3 if balanced else 1)
        assert {sock.getsockname()[1] for group in made.groups for sock in group} == {made.port}
        assert made.url == f"http://127.0.0.1:{made.port}"
        assert len({fd for group in made.descriptors() for fd in group}) == len(made.groups)
        assert not answers(made.port)
        made.listen(100)
        assert all(answers(made.port) for _ in range(20))
        made.grow(2)
        assert len(made.groups) == (3 if balanced else 1)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel keeps little elsewhere")
@BOTH
def test_the_kernel_keeps_little_for_a_client_that_does_not_read(balanced: bool) -> None:
    with bound(balanced=balanced, shares=2) as made:
        made.listen(100)
        found: list[int] = []
        with socket.create_connection(("127.0.0.1", made.port), 30):
            for group in made.groups:
                for sock in group:
                    with suppress(BlockingIOError), sock.accept()[0] as connection:
                        found.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT))
    assert found == [KERNEL_UNSENT]


@BOTH
def test_a_port_in_use_is_not_shared_with_strangers(balanced: bool) -> None:
    with bound(balanced=balanced) as first:
        first.listen(100)
        with pytest.raises(
            OSError, match=f"cannot listen on 127.0.0.1:{first.port}: address already in use"
        ) as expected:
            Listeners("127.0.0.1", first.port, balanced=balanced)
        assert expected.value.errno == errno.EADDRINUSE
    with bound("127.0.0.1", first.port, balanced=balanced) as second:
        assert second.port == first.port


def test_an_unknown_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(OSError, match=r"cannot listen on nowhere:8080: name or service not known"):
            Listeners("nowhere", 8080)
    with pytest.raises(OSError, match=r"cannot listen on (192\.0\.2\.1|192\.0\.2\.1:0): cannot assign"):
        Listeners("192.0.2.1", 0)


@BOTH
def test_a_name_of_several_addresses_has_one_port(balanced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [(socket.AF_INET, (host, 0)) for host in ("127.0.0.1", "192.0.2.1", "127.0.0.2")]
    monkeypatch.setattr(listeners, "_resolved", lambda host, port: addresses)
    with bound("many", balanced=balanced, shares=2) as made:
        for group in made.groups:
            assert [sock.getsockname() for sock in group] == [("127.0.0.1", made.port), ("127.0.0.2", made.port)]


@pytest.mark.skipif(sys.platform != "linux", reason="not on this system")
@pytest.mark.parametrize("balanced", [False, True])
def test_connections_that_were_not_accepted_are_counted(balanced: bool) -> None:
    with bound(balanced=balanced, shares=2) as made:
        made.listen(100)
        assert made.waiting() == 0
        clients = [socket.create_connection(("127.0.0.1", made.port), timeout=30) for _ in range(5)]
        assert made.waiting() == 5
        for group in made.groups:
            for sock in group:
                with suppress(BlockingIOError):
                    while True:
                        sock.accept()[0].close()
        assert made.waiting() == 0
        for client in clients:
            client.close()


def test_systems_that_do_not_report_it_have_no_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    with bound(balanced=False) as made:
        monkeypatch.setattr(sys, "platform", "darwin")
        totals = Totals()
        made.add_gauges(totals)
        assert not totals.values

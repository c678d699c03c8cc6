"""Sentences on upstreams that cannot be reached."""

from __future__ import annotations

import errno

import pytest

from dragoman.errors import UpstreamTimeout, UpstreamUnreachable
from dragoman_server.config.provider import Provider
from dragoman_server.routing.list_problems import SERVERS, port_of, unreachable
from support.gateways import CHAT


def failed(cause: OSError | None) -> UpstreamUnreachable:
    error = UpstreamUnreachable("cannot connect to the upstream: it is away")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(("port", "title"), [(port, title) for port, (title, _) in SERVERS.items()])
def test_a_port_stands_for_a_server(port: int, title: str) -> None:
    provider = Provider("up", CHAT, f"http://127.0.0.1:{port}/v1")
    assert port_of(provider) == port
    text = unreachable(provider, failed(ConnectionRefusedError(errno.ECONNREFUSED, "x")), 5)
    assert text.startswith(f"nothing listens on 127.0.0.1:{port}: is {title} running? It starts with: ")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (failed(ConnectionRefusedError(errno.ECONNREFUSED, "x")), "nothing listens on host:443: is the model server"),
        (failed(OSError(errno.EHOSTUNREACH, "x")), "host:443 cannot be reached: it is away"),
        (failed(None), "host:443 cannot be reached: it is away"),
        (TimeoutError(), "host:443 sent no response in 5 s"),
        (UpstreamTimeout("connect", 5), "host:443 sent no response in 5 s"),
    ],
)
def test_other_failures(error: Exception, expected: str) -> None:
    assert unreachable(Provider("up", CHAT, "https://host/v1"), error, 5).startswith(expected)

"""The body of an error status is read once, whatever needs it, and in a thread if it is long."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from dragoman import Dialect, Failure, translation
from dragoman.gateway import read_error
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.proxy import refusal
from dragoman_server.proxy.long_bodies import LONG_BODY
from support.gateways import CHAT, MESSAGES, config_for, gate
from support.samples import dump
from support.sockets import Abort, ScriptedServer, Send, answer, head


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads in which the bodies of errors are read."""
    found: list[threading.Thread] = []

    def read(*args: Any, **more: Any) -> Failure:
        found.append(threading.current_thread())
        return read_error(*args, **more)

    monkeypatch.setattr(refusal, "read_error", read)
    monkeypatch.setattr(translation, "read_error", read)
    return found


def with_attempts(config: Config) -> Config:
    route = Route("*", targets=(RouteTarget("up"),))
    return replace(config, routes=[route], retries=RetryOptions(attempts=2, backoff=0.01, backoff_max=0.02))


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
@pytest.mark.parametrize("attempts", [False, True])
@pytest.mark.parametrize("size", [0, LONG_BODY])
async def test_a_refusal_is_read_once(
    readings: list[threading.Thread], client: Dialect, attempts: bool, size: int
) -> None:
    error = {"type": "invalid_request_error", "message": "no such thing", "detail": "x" * size}
    async with ScriptedServer(answer(400, dump({"type": "error", "error": error}))) as server:
        config = config_for(server.url, MESSAGES)
        config = with_attempts(config) if attempts else config
        async with gate(config) as entrance, entrance.post(client) as response:
            assert response.status == 400
            assert b"no such thing" in await response.read()
    assert [thread is threading.main_thread() for thread in readings] == [size == 0]


@pytest.mark.parametrize("attempts", [False, True])
async def test_the_status_of_a_body_that_breaks_off_is_the_clients(attempts: bool) -> None:
    async with ScriptedServer([Send(head(422, [("content-length", "100")]) + b"{"), Abort()]) as server:
        config = config_for(server.url, MESSAGES)
        config = with_attempts(config) if attempts else config
        async with gate(config) as entrance, entrance.post(MESSAGES) as response:
            assert response.status == 422
            assert b"422" in await response.read()

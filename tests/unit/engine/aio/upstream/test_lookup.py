"""Names are looked up side by side, whatever number of others hang."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from dragoman.aio.upstream.lookup import addresses_of


async def test_an_address_is_found() -> None:
    found = await addresses_of("127.0.0.1", 80)
    assert found[0][4] == ("127.0.0.1", 80)


async def test_an_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(socket.gaierror):
        await addresses_of("nowhere.test", 80)


async def test_names_that_hang_delay_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine, answer = socket.getaddrinfo, threading.Event()

    def slow(host: Any, *args: Any, **more: Any) -> Any:
        if host != "127.0.0.1":
            answer.wait(30)
            host = "127.0.0.2"
        return genuine(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    hung = [asyncio.create_task(addresses_of(f"hung{number}.test", 80)) for number in range(40)]
    await asyncio.sleep(0)
    assert (await addresses_of("127.0.0.1", 80))[0][4][0] == "127.0.0.1"
    assert not any(task.done() for task in hung)
    hung.pop().cancel()
    answer.set()
    assert {(await task)[0][4][0] for task in hung} == {"127.0.0.2"}

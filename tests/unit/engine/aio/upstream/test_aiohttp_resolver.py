"""Names are looked up side by side with aiohttp's client too."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from dragoman.aio.upstream.aiohttp_resolver import ThreadResolver
from dragoman.aio.upstream.aiohttp_transport import AiohttpTransport


async def test_a_name_has_its_addresses() -> None:
    found = await ThreadResolver().resolve("127.0.0.1", 80, socket.AF_UNSPEC)
    assert [(each["host"], each["port"], each["family"]) for each in found] == [("127.0.0.1", 80, socket.AF_INET)]


async def test_an_address_of_one_link_keeps_its_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 80, 0, 2))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
    (address,) = await ThreadResolver().resolve("near.test", 80, socket.AF_UNSPEC)
    assert address["host"] == "fe80::1%2"


async def test_a_name_of_another_family_has_none() -> None:
    with pytest.raises(socket.gaierror):
        await ThreadResolver().resolve("127.0.0.1", 80, socket.AF_INET6)


async def test_names_that_hang_delay_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine, answer = socket.getaddrinfo, threading.Event()

    def slow(host: Any, *args: Any, **more: Any) -> Any:
        if str(host).startswith("hung"):
            answer.wait(30)
        return genuine("127.0.0.1", *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    async with AiohttpTransport() as transport:
        resolver = transport._session.connector._resolver  # type: ignore[union-attr]
        assert isinstance(resolver, ThreadResolver)
        tasks = [asyncio.create_task(resolver.resolve(f"hung{number}.test", 80)) for number in range(40)]
        await asyncio.sleep(0)
        assert (await resolver.resolve("other.test", 80))[0]["host"] == "127.0.0.1"
        assert not any(task.done() for task in tasks)
        answer.set()
        assert len(await asyncio.gather(*tasks)) == 40

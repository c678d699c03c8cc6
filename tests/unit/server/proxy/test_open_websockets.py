"""The open WebSocket connections of a gateway."""

from __future__ import annotations

import asyncio

from dragoman_server.proxy.open_websockets import OpenWebSockets


class Connection:
    """A connection that records what it was reported to do."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def leave(self) -> None:
        self.calls.append("leave")

    def drop(self) -> None:
        self.calls.append("drop")


async def test_it_waits_until_all_are_closed() -> None:
    connections, one, two = OpenWebSockets(), Connection(), Connection()
    await connections.close(0)
    connections.add(one)
    connections.add(two)
    connections.leave()
    closing = asyncio.create_task(connections.close(30))
    connections.remove(one)
    await asyncio.sleep(0)
    assert not closing.done()
    connections.remove(two)
    await closing
    assert one.calls == two.calls == ["leave"]
    assert not connections


async def test_those_that_do_not_close_are_dropped() -> None:
    connections, one = OpenWebSockets(), Connection()
    connections.add(one)
    await connections.close(0.01)
    assert one.calls == ["drop"]

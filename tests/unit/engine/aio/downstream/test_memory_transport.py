"""The transport without a socket: order, flow control in both directions, and the three ways in which it ends."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.aio.downstream.memory_transport import HIGH, LOW, MemoryTransport
from support.waiting import turns


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.calls: list[object] = []

    def data_received(self, data: bytes) -> None:
        self.calls.append(data)

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append(("lost", exc))


class Ends:
    def __init__(self) -> None:
        self.protocol = Recorder()
        self.interruptions = 0
        self.transport = MemoryTransport(self.protocol, {"peername": ("203.0.113.7", 1)}, self._interrupt)

    def _interrupt(self) -> None:
        self.interruptions += 1


async def test_bytes_pass_in_both_directions_and_writes_stay_apart() -> None:
    ends = Ends()
    transport = ends.transport
    transport.deliver(b"in")
    transport.write(b"one")
    transport.write(bytearray(b"two"))
    transport.write(b"")
    transport.writelines([b"th", b"ree"])
    assert [await transport.read() for _ in range(3)] == [b"one", b"two", b"three"]
    assert ends.protocol.calls == [b"in"]
    assert transport.get_extra_info("peername") == ("203.0.113.7", 1)
    assert transport.get_extra_info("socket") is None
    assert not transport.can_write_eof()


async def test_a_read_waits_for_a_write() -> None:
    transport = Ends().transport
    reading = asyncio.create_task(transport.read())
    await turns()
    assert not reading.done()
    transport.write(b"late")
    assert await reading == b"late"


async def test_writing_is_paused_while_much_is_unread() -> None:
    """A piece counts until the next read: until then it may still be on its way."""
    ends = Ends()
    transport = ends.transport
    transport.write(bytes(HIGH))
    assert ends.protocol.calls == []
    transport.write(b"x")
    assert ends.protocol.calls == ["pause"]
    assert transport.get_write_buffer_size() == HIGH + 1
    await transport.read()
    assert ends.protocol.calls == ["pause"]
    await transport.read()
    assert transport.get_write_buffer_size() == 1 <= LOW
    assert ends.protocol.calls == ["pause", "resume"]


async def test_reading_is_paused() -> None:
    transport = Ends().transport
    await transport.readable()
    transport.pause_reading()
    waiting = asyncio.create_task(transport.readable())
    await turns()
    assert (waiting.done(), transport.is_reading()) == (False, False)
    transport.resume_reading()
    await waiting


async def test_a_close_waits_until_all_is_read() -> None:
    ends = Ends()
    transport = ends.transport
    transport.pause_reading()
    transport.write(b"last")
    transport.close()
    transport.write(b"dropped")
    transport.deliver(b"dropped")
    await transport.readable()
    assert [await transport.read(), await transport.read()] == [b"last", b""]
    assert transport.is_closing()
    assert ends.protocol.calls == []
    transport.stop()
    transport.stop()
    assert ends.protocol.calls == [("lost", None)]
    assert ends.interruptions == 0


async def test_an_abort_drops_what_is_unread_and_ends_a_read() -> None:
    ends = Ends()
    reading = asyncio.create_task(ends.transport.read())
    await turns()
    ends.transport.abort()
    assert await reading == b""
    ends.transport.write(b"dropped")
    assert (ends.transport.get_write_buffer_size(), ends.interruptions) == (0, 0)


@pytest.mark.parametrize("end", [MemoryTransport.abort, MemoryTransport.lose])
async def test_an_abort_interrupts_a_reader_that_is_sending(end: object) -> None:
    ends = Ends()
    ends.transport.write(b"slow")
    ends.transport.write(b"unread")
    await ends.transport.read()
    assert callable(end)
    end(ends.transport)
    end(ends.transport)
    assert ends.interruptions == 1
    assert await ends.transport.read() == b""


async def test_a_lost_connection_has_its_error() -> None:
    ends = Ends()
    error = ConnectionResetError("gone")
    ends.transport.lose(error)
    ends.transport.stop()
    assert ends.protocol.calls == [("lost", error)]


async def test_a_replaced_protocol_gets_the_rest() -> None:
    ends, other = Ends(), Recorder()
    ends.transport.set_protocol(other)
    ends.transport.deliver(b"x")
    ends.transport.stop()
    assert ends.protocol.calls == []
    assert other.calls == [b"x", ("lost", None)]
    assert ends.transport.get_protocol() is other

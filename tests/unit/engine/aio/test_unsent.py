"""Bytes that a client has not taken."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from dragoman.aio.unsent import KERNEL_UNSENT, limit_unsent, unsent


def test_no_connection_has_no_unsent_bytes() -> None:
    assert unsent(None) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what the kernel holds")
async def test_bytes_in_the_kernel_count_until_the_client_has_them() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
        assert unsent(transport) == 0
        transport.write(bytes(1000))
        assert transport.get_write_buffer_size() == 0
        held = unsent(transport)
        assert held >= 1000
        transport.write(bytes(4_000_000))
        assert unsent(transport) > transport.get_write_buffer_size() > 0
        before, theirs_read = unsent(transport), 0
        in_transport = transport.get_write_buffer_size()
        while unsent(transport) == before:
            theirs_read += len(theirs.recv(4096))
        assert theirs_read < 1_000_000
        assert transport.get_write_buffer_size() == in_transport
        transport.abort()


async def test_a_closed_connection_counts_its_transport_alone() -> None:
    ours, theirs = socket.socketpair()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    theirs.close()
    transport.abort()
    await asyncio.sleep(0)
    assert unsent(transport) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the sizes are those of Linux")
@pytest.mark.parametrize("limited", [True, False])
async def test_the_kernel_takes_little_of_what_a_peer_does_not_read(limited: bool) -> None:
    """Connections inherit the limit of the socket that they were accepted from."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if limited:
            limit_unsent(listener)
        with socket.create_connection(listener.getsockname()) as peer:
            peer.setblocking(False)
            ours, _ = listener.accept()
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
            transport.write(bytes(16_000_000))
            in_kernel = unsent(transport) - transport.get_write_buffer_size()
            # The buffer of a new connection within a machine has 2.5 MB.
            assert (in_kernel < 4 * KERNEL_UNSENT) is limited
            transport.abort()


def test_a_socket_without_the_option_is_left_as_it_is() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        limit_unsent(ours)

"""Bytes and ends of sockets that were not read."""

from __future__ import annotations

import socket

import pytest

from dragoman.aio.unread import has_unread


@pytest.mark.parametrize("end", [False, True], ids=["bytes", "end"])
def test_bytes_and_an_end_are_unread_until_they_are_read(end: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not has_unread(ours.fileno())
        if end:
            theirs.shutdown(socket.SHUT_WR)
        else:
            theirs.send(b"x")
        assert has_unread(ours.fileno())
        ours.recv(1)
        assert has_unread(ours.fileno()) is end

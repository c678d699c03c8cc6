"""The counts of a simulator's streams."""

from __future__ import annotations

import pytest

from dragoman_server.simulator.state import Streams


def test_a_stream_is_counted_by_its_end() -> None:
    streams = Streams()
    with streams.counted():
        assert streams == Streams(open=1, started=1)
    with pytest.raises(ConnectionResetError), streams.counted():
        raise ConnectionResetError
    assert streams == Streams(started=2, ended=1, abandoned=1)

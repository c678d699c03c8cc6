"""Where a long batch is cut into slices."""

from __future__ import annotations

import asyncio
from math import isqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.aio.batch_slices import LINES, SLICE, WRITE_SLICE, slice_end, write_slices

SHORT = st.sampled_from([b"\n", b":\n\n", b"data: {}\n\n", b"x\n"])
LONG = st.sampled_from([b"data: " + b"x" * 200 + b"\n\n", b"y" * 50_000, b"\r\n" + b"z" * 99])
BATCHES = st.lists(st.tuples(SHORT | LONG, st.integers(1, 6000)), max_size=4).map(
    lambda parts: b"".join(unit * count for unit, count in parts)[:300_000]
)


@given(BATCHES)
def test_slices_are_the_batch_and_none_holds_much(data: bytes) -> None:
    start = 0
    while start < len(data):
        end = slice_end(data, start)
        piece = data[start:end]
        assert piece
        assert len(piece) <= SLICE
        # Where lines are of one length it is LINES; a slice that is cut for fewer has at most a line for each byte.
        assert piece.count(b"\n") <= isqrt(SLICE * LINES) + 1
        assert end == len(data) or piece.endswith(b"\n\n") or b"\n\n" not in piece
        start = end
    assert start == len(data)


@pytest.mark.parametrize("line", [b":\n\n", b"data: {}\n\n", b"event: x\ndata: " + b"x" * 150 + b"\n\n"])
def test_a_slice_of_equal_events_has_so_many_lines(line: bytes) -> None:
    data = line * (300_000 // len(line))
    assert LINES - 4 <= data[: slice_end(data, 0)].count(b"\n") <= LINES


def test_a_slice_of_long_lines_is_long() -> None:
    data = (b"data: " + b"x" * 5000 + b"\n\n") * 20
    assert slice_end(data, 0) == 6 * 5008


@pytest.mark.parametrize("length", [0, 1, WRITE_SLICE, WRITE_SLICE + 1, 2 * WRITE_SLICE, 3 * WRITE_SLICE + 7])
async def test_a_long_write_takes_a_turn_for_each_slice(length: int) -> None:
    data = bytes(number % 251 for number in range(length))
    order: list[str | bytes] = []

    async def write(piece: bytes) -> None:
        order.append(piece)
        asyncio.get_running_loop().call_soon(order.append, "turn")

    last = await write_slices(write, data)
    pieces = [piece for piece in order if isinstance(piece, bytes)]
    assert b"".join(pieces) + last == data
    assert all(len(piece) == WRITE_SLICE for piece in pieces)
    assert len(last) <= WRITE_SLICE
    assert last or not data
    assert order == [each for piece in pieces for each in (piece, "turn")]

"""The body of a reply that is read whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from dragoman.aio.upstream.whole_body import read_whole
from dragoman.errors import LimitExceeded, StreamTruncated


class Body:
    """Batches of a body; `cut` ends it by an error."""

    def __init__(self, *pieces: bytes, cut: bool = False) -> None:
        self.pieces = pieces
        self.cut = cut
        self.taken = 0
        self.closed = False

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the pieces."""
        try:
            for piece in self.pieces:
                self.taken += 1
                yield piece
            if self.cut:
                raise StreamTruncated("cut")
        finally:
            self.closed = True


@pytest.mark.parametrize("pieces", [(), (b"a", b"bc"), (b"x" * 300_000,)])
async def test_the_pieces_are_joined(pieces: tuple[bytes, ...]) -> None:
    body = Body(*pieces)
    assert await read_whole(body.batches(), 300_000) == b"".join(pieces)
    assert body.closed


async def test_a_body_above_its_limit_is_not_read_to_its_end() -> None:
    body = Body(b"abc", b"d", b"e")
    with pytest.raises(LimitExceeded):
        await read_whole(body.batches(), 3)
    assert (body.taken, body.closed) == (2, True)


async def test_a_broken_body_has_the_number_of_its_bytes() -> None:
    body = Body(b"abc", b"de", cut=True)
    with pytest.raises(StreamTruncated) as caught:
        await read_whole(body.batches(), 99)
    assert caught.value.received == 5

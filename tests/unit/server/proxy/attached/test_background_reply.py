"""A response that goes on at its upstream unless it is cancelled there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import pytest

from dragoman.errors import DragomanError, StreamTruncated, UpstreamTimeout, UpstreamUnreachable
from dragoman.wire import complete_frames
from dragoman_server.proxy.attached import background_reply
from dragoman_server.proxy.attached.background_reply import BackgroundReply

CREATED = b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
DELTA = b'event: response.output_text.delta\ndata: {"delta":"\\nevent: response.completed\\n"}\n\n'
END = b'event: response.completed\ndata: {"type":"response.completed"}\n\n'


class Inner:
    """A response with this body, in pieces of `size` bytes."""

    def __init__(self, data: bytes, size: int) -> None:
        self.pieces = [data[at : at + size] for at in range(0, len(data), size)]
        self.closed = False
        self.status = 200
        self.headers: Mapping[str, str] = {}

    async def read(self, limit: int) -> bytes:
        return b"".join(self.pieces)[:limit]

    async def batches(self) -> AsyncGenerator[bytes, None]:
        for piece in self.pieces:
            yield piece

    async def close(self) -> None:
        self.closed = True


async def never(*_: object) -> None:
    raise AssertionError


async def read(data: bytes, size: int, response_id: str = "") -> tuple[list[str], list[str], bytes]:
    """The ids that were found before anything followed them, those that were cancelled, and the body."""
    known: list[str] = []
    cancelled: list[str] = []

    async def know(found: str) -> None:
        known.append(found)

    async def cancel(found: str) -> None:
        cancelled.append(found)

    reply = BackgroundReply(inner := Inner(data, size), cancel, never, know, response_id)
    assert reply.status == 200
    got = b""
    async for piece in reply.batches():
        got += piece
        assert known or response_id or got[: len(CREATED)] != CREATED
    await reply.close()
    await reply.close()
    assert inner.closed
    return known, cancelled, got


@pytest.mark.parametrize("size", [1, 2, 7, 30, 64, 1000])
async def test_it_is_cancelled_if_it_is_closed_before_its_end(size: int) -> None:
    whole = CREATED + DELTA + END
    assert await read(whole, size) == (["resp_1"], [], whole)
    cut = CREATED + DELTA
    assert await read(cut, size) == (["resp_1"], ["resp_1"], cut)
    assert await read(cut, size, "resp_2") == ([], ["resp_2"], cut)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("end", [b"\r\n", b"\r"], ids=["CR LF", "CR"])
async def test_frames_of_any_line_ends_are_found_at_any_split(end: bytes, size: int) -> None:
    whole = (CREATED + DELTA + END).replace(b"\n", end)
    known, cancelled, got = await read(whole, size)
    assert (known, cancelled) == (["resp_1"], [])
    assert got == whole


async def test_each_byte_of_a_long_frame_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that wait for the end of their frame are not copied, nor searched again, with each read."""
    searched = 0

    def counted(held: bytes | bytearray, data: bytes) -> tuple[bytes, bytes | bytearray]:
        nonlocal searched
        searched += len(data)
        whole, rest = complete_frames(held, data)
        assert not whole or not held or rest is not held
        assert whole or rest is held or not held
        return whole, rest

    monkeypatch.setattr(background_reply, "complete_frames", counted)
    frame = b"data: " + b"x" * 100_000 + b"\n\n"
    whole = CREATED + frame + END
    assert await read(whole, 100) == (["resp_1"], [], whole)
    assert searched == len(whole)


@pytest.mark.parametrize(
    "first", [b"data: {}\n\n", b"data: nonsense\n\n", b'data: {"response":{"id":"../models"}}\n\n', b"data: [1]\n\n"]
)
async def test_an_id_that_cannot_be_in_a_url_is_not_used(first: bytes) -> None:
    assert await read(first + DELTA, 1000) == ([], [], first + DELTA)


async def test_a_whole_body_is_read_as_it_is() -> None:
    async def none(_: str) -> None:
        raise AssertionError

    reply = BackgroundReply(Inner(b"error", 2), none, never)
    assert await reply.read(100) == b"error"
    await reply.close()


def event(number: int, name: str = "response.output_text.delta", text: str = "") -> bytes:
    data = f'{{"type":"{name}","sequence_number":{number},"response":{{"id":"resp_1"}},"delta":"{text}"}}'
    return f"event: {name}\ndata: {data}\n\n".encode()


class Broken(Inner):
    """A response whose connection breaks by this error after its body."""

    def __init__(self, data: bytes, size: int, error: DragomanError | None) -> None:
        super().__init__(data, size)
        self.error = error

    async def batches(self) -> AsyncGenerator[bytes, None]:
        async for piece in super().batches():
            yield piece
        if self.error is not None:
            raise self.error


EVENTS = [
    event(0, "response.created"),
    *(event(n, text=f"{n}\\n") for n in range(1, 9)),
    event(9, "response.completed"),
]
KEEPALIVE = b"event: keepalive\ndata: {}\n\n"


async def rejoined(
    cut: int, size: int, error: DragomanError | None, *rest: tuple[int, int] | None
) -> tuple[bytes, list[tuple[str, int, int]], list[str], DragomanError | None]:
    """A response whose connection breaks after so many bytes. Each further one has these events, if there is one.

    Return the body, the requests for a further connection, the responses that were cancelled, and the last error.
    """
    whole, asked, cancelled, opened = b"".join(EVENTS), list[tuple[str, int, int]](), list[str](), list[Inner]()
    script = [*rest]

    async def know(_: str) -> None:
        pass

    async def cancel(found: str) -> None:
        cancelled.append(found)

    async def rejoin(found: str, number: int, fruitless: int) -> Inner | None:
        assert opened[-1].closed
        asked.append((found, number, fruitless))
        part = script.pop(0)
        if part is None:
            return None
        first, end = part
        body = KEEPALIVE + b"".join(EVENTS[first:end]) + (EVENTS[end][:9] if script else b"")
        opened.append(Broken(body, size, error if script else None))
        return opened[-1]

    opened.append(Broken(whole[:cut], size, error))
    reply, got, failure = BackgroundReply(opened[0], cancel, rejoin, know), b"", None
    try:
        async for piece in reply.batches():
            got += piece
    except DragomanError as raised:
        failure = raised
    await reply.close()
    return got.replace(KEEPALIVE, b""), asked, cancelled, failure


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
async def test_lines_may_end_otherwise(end: bytes) -> None:
    whole = (CREATED + DELTA + END).replace(b"\n", end)
    for size in (1, 7, 1000):
        known, _, got = await read(whole, size)
        assert (known, got) == (["resp_1"], whole)


@pytest.mark.parametrize("error", [None, StreamTruncated(), UpstreamUnreachable("reset")])
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_connection_that_breaks_is_replaced_after_the_last_whole_event(
    error: DragomanError | None, size: int
) -> None:
    whole = b"".join(EVENTS)
    for cut in range(len(EVENTS[0]), len(whole), 13):
        have = sum(len(b"".join(EVENTS[: number + 1])) <= cut for number in range(len(EVENTS)))
        if have == len(EVENTS):
            continue
        # The upstream sends what follows, or all events once more.
        for first in (have, 0):
            got, asked, cancelled, failure = await rejoined(cut, size, error, (first, 10))
            assert (got, asked) == (whole, [("resp_1", have - 1, 0)])
            assert (cancelled, failure) == ([], None)


async def test_each_further_break_goes_on_and_one_without_a_new_event_is_counted() -> None:
    cut = len(b"".join(EVENTS[:3])) + 5
    got, asked, cancelled, failure = await rejoined(cut, 50, StreamTruncated(), (3, 3), (0, 2), (3, 5), (5, 10))
    assert got == b"".join(EVENTS)
    assert asked == [("resp_1", 2, 0), ("resp_1", 2, 1), ("resp_1", 2, 2), ("resp_1", 4, 0)]
    assert (cancelled, failure) == ([], None)


async def test_without_another_connection_the_error_stays_and_the_response_is_cancelled() -> None:
    error = StreamTruncated()
    cut = len(b"".join(EVENTS[:3])) + 5
    got, asked, cancelled, failure = await rejoined(cut, 50, error, None)
    assert got == b"".join(EVENTS)[:cut]
    assert (asked, cancelled, failure) == ([("resp_1", 2, 0)], ["resp_1"], error)


async def test_a_timeout_is_no_broken_connection() -> None:
    error = UpstreamTimeout("idle", 3)
    _, asked, cancelled, failure = await rejoined(300, 50, error)
    assert (asked, cancelled, failure) == ([], ["resp_1"], error)


async def test_nothing_is_requested_again_before_the_first_event_or_without_numbers() -> None:
    _, asked, _, failure = await rejoined(20, 50, StreamTruncated())
    assert asked == []
    assert failure is not None


async def test_a_frame_without_an_end_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of the body has a limit of its own. The connection is not replaced in the middle of the frame."""
    monkeypatch.setattr(background_reply, "_HELD", 250)
    long = event(1, text="x" * 600)
    assert max(map(len, EVENTS)) < 250
    whole, asked = EVENTS[0] + long + b"".join(EVENTS[2:]), list[int]()

    async def refuse(_: str, number: int, __: int) -> None:
        asked.append(number)

    for cut, number in ((len(EVENTS[0]) + 500, None), (len(EVENTS[0] + long + EVENTS[2]) + 9, 2)):
        asked.clear()
        reply = BackgroundReply(Broken(whole[:cut], 30, StreamTruncated()), never, refuse, None, "resp_1")
        got = list[bytes]()
        with pytest.raises(StreamTruncated):
            await read_on(reply, got)
        assert b"".join(got) == whole[:cut]
        assert asked == ([] if number is None else [number])


async def read_on(reply: BackgroundReply, got: list[bytes]) -> None:
    async for piece in reply.batches():
        got.append(piece)
        assert len(reply._held) <= 250

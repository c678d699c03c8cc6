"""Frames, questions and answers between two ends of a socket pair."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman_server.workers.ipc import FRAME_MAX, PENDING_MAX, IpcChannel, Unanswered, receive_first


class Side:
    """One end, which records messages and answers as configured."""

    channel: IpcChannel

    def __init__(self) -> None:
        self.messages: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.gate = asyncio.Event()
        self.gate.set()

    def on_message(self, what: str, message: Any) -> None:
        self.messages.put_nowait((what, message))

    async def answer(self, what: str, message: Any) -> Any:
        await self.gate.wait()
        if what == "unknown":
            raise Unanswered
        return [what, message["number"]]


@asynccontextmanager
async def a_pair() -> AsyncIterator[tuple[Side, Side]]:
    sides = Side(), Side()
    reading = []
    for side, sock in zip(sides, socket.socketpair(), strict=True):
        side.channel = await IpcChannel.open(sock, side.on_message, side.answer)
        reading.append(asyncio.create_task(side.channel.run()))
    try:
        yield sides
    finally:
        for side in sides:
            await side.channel.close()
        await asyncio.wait_for(asyncio.gather(*reading), 30)


async def test_both_sides_send_and_ask_at_once() -> None:
    async with a_pair() as (left, right):
        left.channel.send("hello", number=1, text="ü" * 100_000)
        right.channel.send("good day")
        answers = await asyncio.gather(
            *(side.channel.ask("twice", 5, number=number) for number in range(20) for side in (left, right))
        )
        assert answers == [["twice", number] for number in range(20) for _ in range(2)]
        what, message = await right.messages.get()
        assert (what, message["number"], len(message["text"])) == ("hello", 1, 100_000)
        assert (await left.messages.get())[0] == "good day"


async def test_what_has_no_answer_is_unanswered() -> None:
    async with a_pair() as (left, right):
        with pytest.raises(Unanswered):
            await left.channel.ask("unknown", 5)
        right.gate.clear()
        with pytest.raises(Unanswered):
            await left.channel.ask("late", 0.01, number=1)
        right.gate.set()
        assert await left.channel.ask("next", 5, number=2) == ["next", 2], "a late answer is no answer to another"


async def test_a_side_that_leaves_leaves_no_question_open() -> None:
    async with a_pair() as (left, right):
        right.gate.clear()
        asked = asyncio.create_task(left.channel.ask("late", 5, number=1))
        while not right.channel._answering:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0)
        await right.channel.close()
        with pytest.raises(Unanswered):
            await asked
        with pytest.raises(Unanswered):
            await left.channel.ask("late", 5, number=2)
        left.channel.send("nobody there")


async def test_questions_under_way_are_bounded() -> None:
    async with a_pair() as (left, right):
        right.gate.clear()
        asked = [asyncio.create_task(left.channel.ask("late", 5, number=n)) for n in range(PENDING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(Unanswered):
            await left.channel.ask("late", 5, number=-1)
        right.gate.set()
        assert [(await task)[1] for task in asked] == list(range(PENDING_MAX))


@pytest.mark.parametrize("tail", [b"", b"\x00\x00", b"\x00\x00\x00\x05ab", (FRAME_MAX + 1).to_bytes(4)])
async def test_a_broken_or_endless_frame_ends_the_channel(tail: bytes) -> None:
    ours, theirs = socket.socketpair()
    side = Side()
    side.channel = await IpcChannel.open(ours, side.on_message, side.answer)
    with theirs:
        theirs.sendall(tail)
        theirs.shutdown(socket.SHUT_WR)
        await asyncio.wait_for(side.channel.run(), 30)
    assert side.messages.empty()


async def test_the_first_frame_is_taken_without_a_loop_and_nothing_behind_it() -> None:
    ours, theirs = socket.socketpair()
    side = Side()
    side.channel = await IpcChannel.open(ours, side.on_message, side.answer)
    first = bytes(range(256)) * 1000
    with theirs:
        side.channel.send_first(first)
        side.channel.send("then")
        assert await asyncio.to_thread(receive_first, theirs) == first
        size = int.from_bytes(theirs.recv(4))
        assert b'"then"' in theirs.recv(size)
    await side.channel.close()
    gone, other = socket.socketpair()
    gone.close()
    with other, pytest.raises(EOFError):
        receive_first(other)

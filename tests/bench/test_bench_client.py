"""The load client believes nothing: each way a reply can be wrong has a name; loads of each form count right."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from dragoman_bench.client import result
from dragoman_bench.delays import Delays
from dragoman_bench.load import Load
from dragoman_bench.plan import Plan, PlanError, Slow
from dragoman_bench.probe import EVERY_MS, probe
from dragoman_bench.receiver import Receiver, Tally
from dragoman_bench.replies import Reply, chunk, reply
from dragoman_bench.shapes import SHAPES
from dragoman_bench.upstream import Simulator, serve
from dragoman_bench.wire import DIALECTS, Script
from support.stages import some

EVENTS = 5
SERIAL = 3


class Wire(asyncio.Transport):
    """Records what is written; `abort` calls the protocol's `connection_lost`."""

    def __init__(self, protocol: Receiver) -> None:
        super().__init__()
        self.protocol = protocol
        self.written = b""
        self.gone = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.written += data

    def is_closing(self) -> bool:
        """After abort."""
        return self.gone

    def abort(self) -> None:
        """At once, where a loop would do it later."""
        if not self.gone:
            self.gone = True
            self.protocol.connection_lost(None)


class Reception:
    """A receiver that has asked, what became of its replies, and its tally."""

    def __init__(self, dialect: str, *, streamed: bool = True) -> None:
        self.ends: list[str | None] = []
        self.tally = Tally(measuring=True)
        self.receiver = Receiver(dialect, self.tally, lambda _, error: self.ends.append(error))
        self.wire = Wire(self.receiver)
        self.receiver.connection_made(self.wire)
        self.streamed = streamed
        self.ask()

    def ask(self) -> None:
        """Again."""
        self.receiver.send(b"POST", time.monotonic_ns(), streamed=self.streamed)

    def take(self, *pieces: bytes) -> Reception:
        """Feed data of the gateway."""
        for piece in pieces:
            if piece and not self.wire.gone:
                self.receiver.data_received(piece)
        return self

    def errors(self) -> dict[str, int]:
        """Counted so far."""
        return {kind: found["count"] for kind, found in self.tally.errors.items()}


def deltas(sent: Reply, serial: int = SERIAL) -> list[bytes]:
    """Of a stream, framed."""
    return [sent.delta(serial, n, time.monotonic_ns(), last=n == EVENTS - 1) for n in range(EVENTS)]


def stream(sent: Reply, middle: list[bytes]) -> bytes:
    """With these deltas between a good opening and a good end."""
    return sent.opening + b"".join(middle) + sent.closing([sent.text(SERIAL, n, n, last=False) for n in range(EVENTS)])


@pytest.mark.law
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_good_stream_is_good_however_it_is_cut(dialect: str) -> None:
    sent = reply(dialect, 40)
    data = stream(sent, deltas(sent))
    start = len(sent.opening)
    for at in some(range(start, min(len(data), start + 700), 6), 12):
        got = Reception(dialect).take(data[:at], data[at:])
        assert got.ends == [None], (at, got.tally.errors)
        assert (got.tally.chunks, got.tally.streams, got.errors()) == (EVENTS, 1, {})
    got = Reception(dialect).take(*(data[n : n + 1] for n in range(len(data))))
    assert (got.ends, got.tally.chunks, got.errors()) == ([None], EVENTS, {})
    assert got.tally.delay.summary()["count"] == EVENTS


def test_the_next_reply_comes_over_the_same_connection() -> None:
    sent = reply("chat", 0)
    got = Reception("chat").take(stream(sent, deltas(sent)))
    assert got.receiver.healthy
    got.ask()
    got.take(stream(sent, deltas(sent, SERIAL + 1)))
    assert (got.ends, got.tally.streams, got.wire.gone) == ([None, None], 2, False)


def test_a_chunk_boundary_inside_a_mark_and_other_line_ends_are_understood() -> None:
    head, sent = reply("chat", 0).opening.partition(b"\r\n\r\n")[0], reply("chat", 0)
    frames = b"".join(d.partition(b"\r\n")[2][:-2] for d in deltas(sent)) + b"data: [DONE]\n\n"
    for text in (frames, frames.replace(b"\n\n", b"\r\n\r\n")):
        body = b"".join(chunk(text[n : n + 7]) for n in range(0, len(text), 7)) + b"0\r\n\r\n"
        got = Reception("chat").take(head + b"\r\n\r\n" + body)
        assert (got.ends, got.tally.chunks, got.errors()) == ([None], EVENTS, {})


def swapped(of: list[bytes]) -> list[bytes]:
    """Two in the wrong order."""
    return [of[0], of[2], of[1], *of[3:]]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_deltas_that_are_lost_repeated_or_foreign_are_reported(dialect: str) -> None:
    sent = reply(dialect, 30)
    good = deltas(sent)
    assert "lost-delta" in Reception(dialect).take(stream(sent, [*good[:2], *good[3:]])).errors()
    assert "lost-delta" in Reception(dialect).take(stream(sent, good[1:])).errors()
    assert "repeated-delta" in Reception(dialect).take(stream(sent, [*good[:2], good[1], *good[2:]])).errors()
    assert "repeated-delta" in Reception(dialect).take(stream(sent, swapped(good))).errors()
    other = deltas(sent, SERIAL + 1)
    assert "mixed-streams" in Reception(dialect).take(stream(sent, [*good[:2], other[2], *good[2:]])).errors()
    assert Reception(dialect).take(stream(sent, good[:-1])).ends == ["cut"]


def test_a_truncated_end_is_reported() -> None:
    sent = reply("messages", 0)
    whole = sent.opening + b"".join(deltas(sent))
    assert Reception("messages").take(whole, b"0\r\n\r\n").ends == ["no-terminal"]
    half = Reception("messages").take(stream(sent, deltas(sent))[:-5] + chunk(b"event: mess") + b"0\r\n\r\n")
    assert half.ends == ["half-event"]
    cut = Reception("messages").take(whole)
    cut.receiver.connection_lost(None)
    assert cut.ends == ["cut"]
    silent = Reception("messages")
    silent.receiver.connection_lost(ConnectionResetError())
    assert silent.ends == ["no-reply"]


@pytest.mark.parametrize(
    ("dialect", "frame"),
    [
        ("chat", b'data: {"error":{"message":"overloaded"}}\n\n'),
        ("messages", b'event: error\ndata: {"type":"error","error":{"type":"api_error"}}\n\n'),
        ("responses", b'event: response.failed\ndata: {"type":"response.failed","response":{}}\n\n'),
    ],
)
def test_an_error_inside_the_stream_is_reported_with_its_text(dialect: str, frame: bytes) -> None:
    sent = reply(dialect, 0)
    got = Reception(dialect).take(sent.opening, deltas(sent)[0], chunk(frame))
    assert got.ends == ["in-band"]
    assert frame.decode().strip() in got.tally.errors["in-band"]["example"]
    assert got.wire.gone


def test_an_error_status_and_bad_http_are_reported() -> None:
    refused = Reception("chat").take(b"HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nbusy")
    assert refused.ends == ["status-503"]
    assert refused.tally.errors["status-503"]["example"] == "busy"
    assert Reception("chat").take(b"HTTP/1.1 what\r\n\r\n").ends == ["bad-http"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_whole_reply_must_have_its_text(dialect: str) -> None:
    whole = reply(dialect, 30).whole
    got = Reception(dialect, streamed=False).take(whole[:50], whole[50:])
    assert (got.ends, got.tally.replies, got.tally.streams) == ([None], 1, 0)
    empty = Reception(dialect, streamed=False).take(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    assert empty.ends == ["no-text"]
    until_close = Reception(dialect, streamed=False).take(b"HTTP/1.1 200 OK\r\n\r\n", whole.partition(b"\r\n\r\n")[2])
    until_close.receiver.connection_lost(None)
    assert (until_close.ends, until_close.receiver.healthy) == ([None], False)


def test_delays_are_exact_to_the_microsecond_and_bounded() -> None:
    delays = Delays()
    for us in range(1, 1001):
        delays.add(us * 1000 + 999)
    delays.add(-5)
    expected = delays.summary()
    assert (expected["count"], expected["min"], expected["max"]) == (1001, 0.0, 1.0)
    assert expected["p50"] == pytest.approx(0.5, abs=0.001)
    assert expected["p99"] == pytest.approx(0.99, abs=0.001)
    delays.clear()
    assert delays.summary() == {"count": 0}
    delays.add(10**18)
    assert delays.summary()["max"] == pytest.approx(65_535, rel=0.001)


@pytest.fixture
async def upstream() -> AsyncIterator[tuple[str, Simulator]]:
    """The simulator's address, and itself."""
    server, simulator = await serve()
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", simulator
    server.close()
    simulator.pacer.close()
    async with asyncio.timeout(30):
        while simulator.counts.connections_open:  # noqa: ASYNC110 (other tasks of this loop move it)
            await asyncio.sleep(0)


async def loaded(plan: Plan) -> dict[str, Any]:
    """Return the result of a load."""
    load = Load(plan)
    await load.run(SHAPES[plan.mode])
    return json.loads(json.dumps(result(load)))  # type: ignore[no-any-return]


@pytest.mark.turns
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_held_streams_are_measured_while_all_are_open(upstream: tuple[str, Simulator], dialect: str) -> None:
    url, simulator = upstream
    slow = Slow(2, Script(2000, 0, 2000).model, 2048, 5)
    got = await loaded(
        Plan(url, dialect, "hold", Script(9999, 5).model, 10, 0.2, warm=0.0, upstream=url, slow=slow, memory=True)
    )
    assert got["errors"] == {}
    assert (got["opened"], got["begun"], got["streams"]) == (10, 10, 10)
    edges = got["samples"]
    assert edges["begin"]["chunks"] < edges["end"]["chunks"]
    assert edges["end"]["streams"] == 0
    assert 0 < got["delay_ms"]["count"] <= edges["end"]["chunks"] - edges["begin"]["chunks"]
    assert (simulator.counts.cancelled, simulator.counts.finished) == (2, 10)


@pytest.mark.turns
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_streams_are_held_beside_one_that_comes_as_fast_as_it_is_read(
    upstream: tuple[str, Simulator], dialect: str
) -> None:
    url, simulator = upstream
    plan = Plan(
        url,
        dialect,
        "hold",
        Script(9999, 5).model,
        10,
        0.2,
        warm=0.2,
        upstream=url,
        neighbours=[Script(50, 0, 32, 16).model],
    )
    got = await loaded(plan)
    assert got["errors"] == {}
    assert (got["opened"], got["streams"]) == (10, 10)
    assert simulator.counts.streams > 10 + 2  # one blasting stream after another
    assert got["alone_ms"]["count"] > 0
    assert got["delay_ms"]["count"] > 0
    assert got["lag_ms"]["count"] > 2
    assert got["alone_lag_ms"]["count"] > 2


async def test_replies_follow_each_other(upstream: tuple[str, Simulator]) -> None:
    url, simulator = upstream
    got = await loaded(Plan(url, "chat", "closed", Script(3).model, 4, 0.2, warm=0.05, upstream=url))
    assert got["errors"] == {}
    assert got["streams"] == got["opened"] == simulator.counts.finished
    assert got["chunks"] == 3 * got["streams"]
    assert simulator.counts.connections == 4 + 3  # the samples'
    whole = await loaded(Plan(url, "chat", "closed", "bench-whole", 4, 0.1, warm=0.0, stream=False))
    assert (whole["errors"], whole["replies"]) == ({}, simulator.counts.replies)


@pytest.mark.turns
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_counted_replies_are_all_in_the_window(upstream: tuple[str, Simulator], dialect: str) -> None:
    url, simulator = upstream
    plan = Plan(url, dialect, "counted", Script(20, 2, 32, turn=True).model, 3, total=7, warm=0.0, upstream=url)
    got = await loaded(plan)
    assert got["errors"] == {}
    assert got["opened"] == got["streams"] == simulator.counts.finished == 3 + 7
    begin, end = got["samples"]["begin"], got["samples"]["end"]
    assert (end["streams"] - begin["streams"], end["chunks"] - begin["chunks"]) == (7, 7 * 20)
    assert got["whole_ms"]["count"] == got["first_ms"]["count"] == 7
    assert simulator.counts.connections == 3 + 3  # the samples'


@pytest.mark.whole
async def test_a_mixed_day_has_leavers_retries_and_a_series(upstream: tuple[str, Simulator]) -> None:
    url, simulator = upstream
    mix = [(Script(40, 10).model, 0.8, True), ("bench-whole", 0.2, False)]
    plan = Plan(url, "chat", "day", mix[0][0], 200, 1.6, warm=0.2, rate=120, upstream=url, mix=mix)
    plan.watch["gateway"] = os.getpid()
    got = await loaded(plan)
    assert got["errors"] == {}
    assert got["streams"] > 4 * got["cut"] > 0
    assert got["replies"] == simulator.counts.replies > 0
    assert got["opened"] == got["streams"] + got["replies"] + got["cut"]
    points = got["series"]
    assert len(points) == 3
    times = [point["at_s"] for point in points]
    assert times == sorted(times)
    assert all(at > due - 0.05 for at, due in zip(times, (0.53, 1.06, 1.6), strict=True)), times
    assert all(0 <= point["delay_p50"] <= point["delay_p99"] for point in points)
    assert all(point["memory_mb"] > 5 and point["cpu_share"] > 0 for point in points)
    assert sum(point["open"] for point in points) > 0
    assert got["lag_ms"]["count"] > 0


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait for the client's end, then close."""
    with suppress(ConnectionError):
        await reader.read()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def test_lag_is_the_time_of_a_request_and_of_those_that_it_delayed() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(3):
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.15 if number == 1 else 0)
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        third.set()
        await closing(reader, writer)
        closed.set()

    third, closed = asyncio.Event(), asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    lags: list[int] = []
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    probing = asyncio.create_task(probe(Plan(url, "chat", "closed", "m", 1), lags.append))
    await asyncio.wait_for(third.wait(), 30)
    probing.cancel()
    await asyncio.wait_for(closed.wait(), 30)
    server.close()
    longest = max(lags)
    at = lags.index(longest)
    assert longest >= 150_000_000
    assert [longest - lag for lag in lags[at : at + 8]] == [number * EVERY_MS * 1_000_000 for number in range(8)]


async def test_a_gateway_that_does_not_answer_has_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_bench.probe._FIRST_WITHIN", 0.05)

    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await closing(reader, writer)
        closed.set()

    closed = asyncio.Event()
    server = await asyncio.start_server(ignore, "127.0.0.1", 0)
    lags: list[int] = []
    port = server.sockets[0].getsockname()[1]
    await asyncio.wait_for(probe(Plan(f"http://127.0.0.1:{port}", "chat", "closed", "m", 1), lags.append), 30)
    assert lags == []
    await asyncio.wait_for(closed.wait(), 30)
    server.close()


async def test_arrivals_come_as_the_seed_has_drawn_them(upstream: tuple[str, Simulator]) -> None:
    url, simulator = upstream
    plan = Plan(url, "messages", "open", Script(3, 1).model, 50, 0.3, warm=0.0, rate=100, seed=5)
    first = await loaded(plan)
    assert first["errors"] == {}
    assert first["opened"] == first["streams"] == simulator.counts.streams > 10
    assert (await loaded(plan))["opened"] == first["opened"]


async def test_more_arrivals_than_may_be_open_are_errors(upstream: tuple[str, Simulator]) -> None:
    url, _ = upstream
    plan = Plan(url, "chat", "open", Script(30, 20).model, 1, 0.2, warm=0.0, rate=500)
    assert (await loaded(plan))["errors"]["too-many"]["count"] > 1


async def test_a_storm_leaves_no_stream_open(upstream: tuple[str, Simulator]) -> None:
    url, simulator = upstream
    plan = Plan(url, "responses", "storm", Script(9999, 5).model, 10, total=60, cut_within_ms=30)
    got = await loaded(plan)
    assert (got["errors"], got["cut"]) == ({}, 60)
    async with asyncio.timeout(30):
        while simulator.counts.connections_open:  # noqa: ASYNC110 (other tasks of this loop move it)
            await asyncio.sleep(0)
    assert simulator.counts.open == 0
    assert simulator.counts.cancelled == simulator.counts.streams > 0


async def test_a_refused_connection_is_an_error_and_a_plan_s_limit_an_end(upstream: tuple[str, Simulator]) -> None:
    got = await loaded(Plan("http://127.0.0.1:9", "chat", "closed", "bench-whole", 2, 0.1, warm=0.0, stream=False))
    assert got["errors"]["connect"]["count"] == 2
    url, _ = upstream
    late = await loaded(Plan(url, "chat", "hold", Script(9, 60_000).model, 1, 5, warm=0.0, upstream=url, limit=0.2))
    assert late["errors"]["time-limit"]["count"] == 1


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"dialect": "gemini"}, "dialect is"),
        ({"mode": "run"}, "mode is"),
        ({"streams": 0}, "streams is"),
        ({"seconds": 1e9}, "seconds and limit"),
        ({"rate": 0}, "above 0"),
        ({"mode": "hold"}, "give `upstream`"),
        ({"mode": "storm"}, "storm needs a total"),
        ({"mode": "counted"}, "counted needs a total"),
        ({"mode": "day"}, "needs a mix"),
        ({"colour": "red"}, "unknown: colour"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_reported_with_the_reason(wrong: dict[str, Any], expected: str) -> None:
    plan = {"url": "http://x", "dialect": "chat", "mode": "closed", "model": "m", "streams": 1}
    assert Plan.of_json(json.dumps(plan)).streams == 1
    with pytest.raises(PlanError, match=expected):
        Plan.of_json(json.dumps(plan | wrong))


def test_a_plan_that_is_none_ends_the_command_with_the_reason() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "dragoman_bench.client"], input="{", capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("plan: not a plan")

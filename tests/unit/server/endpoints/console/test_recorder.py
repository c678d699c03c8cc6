"""Recordings of both sides of a stream."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from dragoman_server.config.schema import Config
from dragoman_server.endpoints.console.recorder import FRAMES_MAX, NEXT_MAX, RECORDINGS_MAX, Recorder, Recording
from support.gateways import CHAT, MESSAGES, Gate, config_for, gate
from support.samples import dump, reply, text_stream
from support.sockets import ScriptedServer, answer, stream

CANARY = "canary text of a reply"


def with_ui(url: str) -> Config:
    config = config_for(url, CHAT)
    return replace(config, server=replace(config.server, ui=True))


async def recordings(up: Gate) -> list[Any]:
    """The recordings of the exchanges in the table, the newest first."""
    async with up.session.get(f"{up.url}/ui/api/exchanges") as response:
        rows = (await response.json())["rows"]
    found = []
    for row in rows:
        async with up.session.get(f"{up.url}/ui/api/exchanges/{row['id']}") as response:
            found.append((await response.json())["recording"])
    return found


async def test_only_the_next_streams_are_recorded_and_no_text_is() -> None:
    script = stream(text_stream(CHAT, (CANARY, "b")))
    async with ScriptedServer(*[script] * 4) as server, gate(with_ui(server.url)) as up:
        await up.stream(MESSAGES)
        assert up.gateway.recorder is None
        async with up.session.post(f"{up.url}/ui/api/record?count=2") as response:
            assert await response.json() == {"count": 2, "most": NEXT_MAX}
        await up.stream(MESSAGES)
        await up.stream(CHAT)
        assert up.gateway.recorder is None, "requests pay for it only while it is needed"
        await up.stream(MESSAGES)
        last, chat, messages, first = await recordings(up)
    assert last is None
    assert first is None
    assert CANARY not in json.dumps([chat, messages])
    sides = {side for side, *_ in messages["batches"]}
    assert sides == {"received", "sent"}
    names = [shape[0] for side, _, _, shapes in messages["batches"] if side == "sent" for shape in shapes]
    assert names[0] == "message_start"
    assert names[-1] == "message_stop"
    assert "chat.completion.chunk" in {shape[0] for *_, shapes in chat["batches"] for shape in shapes}
    times = [at for _, at, _, _ in messages["batches"]]
    assert times == sorted(times)


async def test_a_whole_reply_has_sizes_only() -> None:
    body = dump(reply(CHAT))
    async with ScriptedServer(answer(200, body)) as server, gate(with_ui(server.url)) as up:
        async with up.session.post(f"{up.url}/ui/api/record") as response:
            assert response.status == 200
        async with up.post(MESSAGES) as response:
            assert response.status == 200
        (found,) = await recordings(up)
    assert found["batches"] == []
    assert found["sizes"]["reply"] == len(body)
    assert found["sizes"]["request"] > 0


async def test_an_order_can_be_taken_back() -> None:
    async with ScriptedServer(stream(text_stream(CHAT))) as server, gate(with_ui(server.url)) as up:
        for count in (5, 0):
            async with up.session.post(f"{up.url}/ui/api/record?count={count}") as response:
                assert (await response.json())["count"] == count
        assert up.gateway.recorder is None
        await up.stream(MESSAGES)
        assert await recordings(up) == [None]


def test_a_recording_is_bounded() -> None:
    recording = Recording(lambda: 1.0)
    for _ in range(3):
        recording.add("received", b"data: {}\n\n" * (FRAMES_MAX // 2))
    found = recording.json()
    assert sum(len(shapes) for *_, shapes in found["batches"]) == FRAMES_MAX
    assert found["dropped"] == FRAMES_MAX // 2
    assert found["sizes"] == {"received": 30 * (FRAMES_MAX // 2)}


class _Receipt:
    def __init__(self, request_id: str) -> None:
        self.request_id = request_id

    def seconds(self) -> float:
        return 0.0


def test_recordings_and_orders_are_bounded() -> None:
    gateway: Any = type("G", (), {"recorder": None})()
    recorder = Recorder(gateway)
    transport: Any = object()
    request: Any = {}
    receipt: Any
    exchange: Any = type("E", (), {"record": None})()
    for number in range(RECORDINGS_MAX + 1):
        recorder.record_next(1000)
        receipt = _Receipt(f"req_{number}")
        assert recorder.attach(request, receipt, exchange, transport) is not transport
        assert exchange.record is not None
    assert recorder.get("req_0") is None
    assert recorder.get(f"req_{RECORDINGS_MAX}") is not None
    taken = 0
    receipt = _Receipt("req_next")
    while gateway.recorder is not None:
        recorder.attach(request, receipt, exchange, transport)
        taken += 1
    assert taken == NEXT_MAX - 1


def test_other_requests_are_not_recorded_while_the_playground_sends() -> None:
    gateway: Any = type("G", (), {"recorder": None})()
    recorder = Recorder(gateway)
    mine: Any = {}
    other: Any = {}
    transport: Any = object()
    exchange: Any = type("E", (), {"record": None})()
    receipt: Any = _Receipt("req_1")
    with recorder.recording(mine):
        assert gateway.recorder is recorder
        assert recorder.attach(other, receipt, exchange, transport) is transport
        assert recorder.get("req_1") is None
        assert recorder.attach(mine, receipt, exchange, transport) is not transport
    assert gateway.recorder is None
    assert recorder.get("req_1") is not None

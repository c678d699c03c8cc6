"""Recordings of both sides of a stream."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

from dragoman_server.config.schema import Config
from dragoman_server.endpoints.console.recorder import FRAMES_MAX, NEXT_MAX, RECORDINGS_MAX, Recorder, ShownRecording
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
        assert up.gateway.services.instruments.recorder is None
        async with up.session.post(f"{up.url}/ui/api/record?count=2") as response:
            assert await response.json() == {"count": 2, "most": NEXT_MAX}
        await up.stream(MESSAGES)
        await up.stream(CHAT)
        assert up.gateway.services.instruments.recorder is None, "requests pay for it only while it is needed"
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
        assert up.gateway.services.instruments.recorder is None
        await up.stream(MESSAGES)
        assert await recordings(up) == [None]


def test_a_recording_is_bounded() -> None:
    recording = ShownRecording(lambda: 1.0)
    for _ in range(3):
        recording.add("received", b"data: {}\n\n" * (FRAMES_MAX // 2))
    found = recording.json()
    assert sum(len(shapes) for *_, shapes in found["batches"]) == FRAMES_MAX
    assert found["dropped"] == FRAMES_MAX // 2
    assert found["sizes"] == {"received": 30 * (FRAMES_MAX // 2)}


def no_time() -> float:
    return 0.0


def test_recordings_and_orders_are_bounded() -> None:
    instruments: Any = Mock(recorder=None)
    recorder = Recorder(instruments)
    request: Any = {}
    for number in range(RECORDINGS_MAX + 1):
        recorder.record_next(1000)
        assert recorder.begin(request, f"req_{number}", no_time) is not None
    assert recorder.get("req_0") is None
    assert recorder.get(f"req_{RECORDINGS_MAX}") is not None
    taken = 0
    while instruments.recorder is not None:
        assert recorder.begin(request, "req_next", no_time) is not None
        taken += 1
    assert taken == NEXT_MAX - 1


def test_other_requests_are_not_recorded_while_the_playground_sends() -> None:
    instruments: Any = Mock(recorder=None)
    recorder = Recorder(instruments)
    mine: Any = {}
    other: Any = {}
    with recorder.recording(mine):
        assert instruments.recorder is recorder
        assert recorder.begin(other, "req_1", no_time) is None
        assert recorder.get("req_1") is None
        assert recorder.begin(mine, "req_1", no_time) is recorder.get("req_1")
    assert instruments.recorder is None
    assert recorder.get("req_1") is not None

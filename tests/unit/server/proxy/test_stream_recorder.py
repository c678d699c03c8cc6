"""The seam for recordings: a recorder that is set gets each request, and its transport is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.aio import CallObserver, UpstreamRequest
from dragoman_server.proxy.stream_recorder import StreamRecorder, StreamRecording
from support.gateways import CHAT, MESSAGES, config_for, gate
from support.samples import text_stream
from support.sockets import ScriptedServer, stream


class Recorder:
    """Counts requests, and the batches that are sent."""

    def __init__(self) -> None:
        self.requests = 0
        self.batches: list[bytes] = []

    def begin(self, request: Any, request_id: str, clock: Callable[[], float]) -> StreamRecording:
        self.requests += 1
        return self

    def observe(self, call: UpstreamRequest) -> CallObserver:
        return CallObserver()

    def sent(self, data: bytes) -> None:
        self.batches.append(data)


async def test_a_recorder_gets_what_is_sent() -> None:
    recorder = Recorder()
    kept: StreamRecorder = recorder
    script = stream(text_stream(CHAT))
    async with ScriptedServer(script, script) as server, gate(config_for(server.url, CHAT, ui=True)) as up:
        await up.stream(MESSAGES)
        assert recorder.requests == 0
        up.gateway.services.instruments.recorder = kept
        sent = await up.stream(MESSAGES)
    assert recorder.requests == 1
    assert b"".join(recorder.batches) == sent

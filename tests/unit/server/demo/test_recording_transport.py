"""The transport that records for the demo."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType

from dragoman.aio.upstream.interface import UpstreamRequest
from dragoman_server.demo.recording_transport import _RecordedResponse


async def test_the_recording_transport_reports_that_the_gateway_stopped_reading() -> None:
    class Source:
        status = 200
        headers: Mapping[str, str] = MappingProxyType({})

        async def batches(self) -> AsyncGenerator[bytes, None]:
            yield b"one"
            yield b"two"

        async def read(self, limit: int) -> bytes:
            return b""

        async def close(self) -> None:
            return

    class Calls(list[str]):
        def sent(self, call: UpstreamRequest) -> None:
            self.append("sent")

        def received(self, data: bytes) -> None:
            self.append(data.decode())

        def cut(self) -> None:
            self.append("cut")

        def stopped(self) -> None:
            self.append("stopped")

    for reads, expected in ((1, ["one", "stopped"]), (3, ["one", "two"])):
        calls = Calls()
        batches = _RecordedResponse(Source(), calls).batches()
        for _ in range(reads):
            await anext(batches, None)
        await batches.aclose()
        assert calls == expected

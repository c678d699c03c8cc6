"""A handover of a run, and a scripted upstream of background responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from dragoman import Dialect
from dragoman.aio import StreamTimers, Upload, UpstreamRequest, UpstreamResponse
from dragoman.errors import UpstreamError
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.schema import Config, Models
from dragoman_server.proxy.attached.handover import Handover, digest_of
from dragoman_server.proxy.gateway import Gateway

URL = "http://127.0.0.1:1/v1"
HANDOVER = Handover(
    response_id="resp_1",
    provider="up",
    base_url=digest_of(URL),
    key="",
    client="chat",
    created=7,
    model="m",
    upstream_model="sim-text",
    client_profile=None,
    on_loss=None,
    fields=None,
    items=0,
    usage={"id": "req_1", "time": "2026-01-01T00:00:00Z"},
    body=b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}',
)


class Reply:
    """A response with a body in one piece."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self._body = body

    async def read(self, limit: int) -> bytes:
        """The body."""
        return self._body

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """The body, at once."""
        yield self._body

    async def close(self) -> None:
        """Nothing is open."""


class Upstream:
    """A transport whose replies are scripted: a status and a body, or an error."""

    def __init__(self, *replies: tuple[int, bytes] | UpstreamError) -> None:
        self.replies = [*replies]
        self.requests: list[UpstreamRequest] = []

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        """The next reply."""
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, UpstreamError):
            raise reply
        return Reply(*reply)

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        """The next reply."""
        return await self.open(request, timers)

    async def close(self) -> None:
        """Nothing is open."""

    @property
    def urls(self) -> list[str]:
        """The methods and the paths of the requests."""
        return [f"{each.method} {each.url.removeprefix(URL)}" for each in self.requests]


def gateway_of(upstream: Upstream, **more: Any) -> Gateway:
    """A gateway with a provider of background responses."""
    provider = Provider("up", Dialect.RESPONSES, URL, api_key=Secret("sk-up"), background=True, **more)
    config = Config(providers={"up": provider}, models=Models(unknown="pass"))
    return Gateway(config, upstream=upstream)

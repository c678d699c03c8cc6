"""Requests to providers that have a credential or a proxy of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dragoman.aio import Timeouts, UpstreamRequest
from dragoman_server.config.provider import Provider


@dataclass(slots=True)
class ProviderRequest(UpstreamRequest):
    """A request to a provider that `ProviderTransport` completes. `provider` is always set."""

    provider: Provider | None = None


def request_to(
    provider: Provider,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    stream: bool,
    timeouts: Timeouts,
    method: str = "POST",
) -> UpstreamRequest:
    """Return a request to a provider."""
    if provider.has_own_way:
        return ProviderRequest(url, headers, body, stream, timeouts, method, provider)
    return UpstreamRequest(url, headers, body, stream, timeouts, method)

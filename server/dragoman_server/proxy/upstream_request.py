"""The HTTP requests to providers: URL, headers, body and timeouts."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from dragoman import Dialect, Translation
from dragoman.aio import UpstreamRequest
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.credentials.provider_request import request_to
from dragoman_server.proxy.auth import outbound_headers
from dragoman_server.proxy.loaded_config import CurrentConfig, LoadedConfig
from dragoman_server.proxy.request_keys import COMPACT

_CONFIGURED = Auth.CONFIGURED  # CPython 3.11 takes long to find a member in its class
SENDER = "x-dragoman-sender"
"""Header with a random value of the gateway, by which it recognises a request of its own that came back to it."""


class UpstreamRequests:
    """Builds the requests of one gateway.

    Args:
        sender: The value of the header `SENDER`, the same in all workers.
        current: The configuration, whose keys are never sent upstream.
    """

    def __init__(self, sender: str, current: CurrentConfig) -> None:
        self.sender = sender
        self._current = current

    def build(
        self, request: web.Request, translation: Translation, provider: Provider, loaded: LoadedConfig
    ) -> UpstreamRequest:
        """Return the upstream request for a translated one. Raises ClientRequestError."""
        timeouts = loaded.config.server.timeouts
        same = translation.same_body
        if not same and provider.auth is _CONFIGURED and loaded.has(provider):
            # No header of the client is sent, so URL and headers are the same for each request.
            known = loaded.upstreams.get(provider.name)
            if known is None and _is_plain(provider):
                url = provider.endpoint(translation.direction.upstream.dialect.path)
                known = loaded.upstreams[provider.name] = url, self.headers(provider, {})
            if known is not None:
                url, headers = known
                return UpstreamRequest(url, headers, translation.body, translation.stream, timeouts)
        # `?beta=true` belongs to the body's dialect and is kept only where the body is.
        query = "beta=true" if same and request.query.get("beta") == "true" else ""
        if same and request.get(COMPACT, False):
            url = provider.endpoint("responses/compact", query)
        else:
            url = provider.main_endpoint(translation.upstream_model, stream=translation.stream, query=query)
        passthrough = translation.direction.passthrough
        headers = self.headers(provider, request.headers, same_dialect=passthrough, same_body=same)
        return request_to(provider, url, headers, translation.body, translation.stream, timeouts)

    def headers(
        self,
        provider: Provider,
        client_headers: Mapping[str, str],
        *,
        same_dialect: bool = False,
        same_body: bool | None = None,
    ) -> dict[str, str]:
        """Return all headers of a POST to a provider. The parameters are those of `outbound_headers`."""
        own = self._current.loaded.own_keys
        return {
            "content-type": "application/json",
            SENDER: self.sender,
            **outbound_headers(provider, client_headers, same_dialect=same_dialect, same_body=same_body, own=own),
        }

    def headers_about(self, provider: Provider, client_headers: Mapping[str, str]) -> dict[str, str]:
        """Return all headers of a request without a body for a client of the provider's dialect."""
        own = self._current.loaded.own_keys
        headers = outbound_headers(provider, client_headers, same_dialect=True, own=own)
        return {SENDER: self.sender, "accept": "application/json", **headers}

    def get_headers(
        self, provider: Provider, client_headers: Mapping[str, str], client: Dialect | None
    ) -> dict[str, str]:
        """Return all headers of a GET to a provider, for a client of the dialect `client` or for the gateway itself."""
        # Only headers that change the response: they are part of the key by which a model list is cached.
        same_dialect = provider.auth is Auth.PASSTHROUGH and provider.dialect is client
        own = self._current.loaded.own_keys
        headers = outbound_headers(provider, client_headers, same_dialect=same_dialect, own=own)
        return {SENDER: self.sender, "accept": "application/json", **headers}


def _is_plain(provider: Provider) -> bool:
    """True if all translated requests to a provider have the same URL and the same headers."""
    door = provider.door
    return provider.dialect.facts.names_target and not (door.path or door.forward_headers or provider.has_own_way)

"""The HTTP requests to providers: URL, headers, body and timeouts."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from dragoman import Dialect, Translation
from dragoman.aio import UpstreamRequest
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.proxy.auth import outbound_headers
from dragoman_server.proxy.loaded_config import LoadedConfig
from dragoman_server.proxy.request_keys import COMPACT

SENDER = "x-dragoman-sender"
"""Header with a random value of the gateway, by which it recognises a request of its own that came back to it."""


class UpstreamRequests:
    """Builds the requests of one gateway. `sender` is the value of the header `SENDER`, the same in all workers."""

    def __init__(self, sender: str) -> None:
        self.sender = sender

    def build(
        self, request: web.Request, translation: Translation, provider: Provider, loaded: LoadedConfig
    ) -> UpstreamRequest:
        """Return the upstream request for a translated one. Raises ClientRequestError."""
        timeouts = loaded.config.server.timeouts
        same = translation.same_body
        if not same and provider.auth is Auth.CONFIGURED and loaded.has(provider):
            # No header of the client is sent, so URL and headers are the same for each request.
            known = loaded.upstreams.get(provider.name)
            if known is None:
                url = provider.endpoint(translation.direction.upstream.dialect.path)
                known = loaded.upstreams[provider.name] = url, self.headers(provider, {})
            url, headers = known
            return UpstreamRequest(url, headers, translation.body, translation.stream, timeouts)
        # `?beta=true` belongs to the body's dialect and is kept only where the body is.
        query = "beta=true" if same and request.query.get("beta") == "true" else ""
        compact = same and request.get(COMPACT, False)
        path = "responses/compact" if compact else translation.direction.upstream.dialect.path
        url = provider.endpoint(path, query)
        headers = self.headers(provider, request.headers, same_dialect=same)
        return UpstreamRequest(url, headers, translation.body, translation.stream, timeouts)

    def headers(
        self, provider: Provider, client_headers: Mapping[str, str], *, same_dialect: bool = False
    ) -> dict[str, str]:
        """Return all headers of a POST to a provider."""
        return {
            "content-type": "application/json",
            SENDER: self.sender,
            **outbound_headers(provider, client_headers, same_dialect=same_dialect),
        }

    def get_headers(
        self, provider: Provider, client_headers: Mapping[str, str], client: Dialect | None
    ) -> dict[str, str]:
        """Return all headers of a GET to a provider, for a client of the dialect `client` or for the gateway itself."""
        # Only headers that change the response: they are part of the key by which a model list is cached.
        same_dialect = provider.auth is Auth.PASSTHROUGH and provider.dialect is client
        headers = outbound_headers(provider, client_headers, same_dialect=same_dialect)
        return {SENDER: self.sender, "accept": "application/json", **headers}

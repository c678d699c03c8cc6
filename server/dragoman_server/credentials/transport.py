"""The transport to providers that have a credential or a proxy of their own: it completes requests and sends them.

It is the innermost wrapper of a transport, so that captures, traces and retries see requests without a credential, and
a signature is made over the bytes that are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from dragoman.aio import StreamTimers, Transport, Upload, UpstreamRequest, UpstreamResponse
from dragoman.errors import Failure, FailureKind, LimitExceeded, UpstreamError
from dragoman_server.config.credential_options import AWS
from dragoman_server.config.provider import Provider
from dragoman_server.credentials.credentials import Credentials
from dragoman_server.credentials.provider_request import ProviderRequest
from dragoman_server.proxy.read_response import ReadResponse

T = TypeVar("T")
_BODY_MAX = 1 << 20
"""Most bytes of the response that refuses a credential."""


class ProviderTransport:
    """Wraps the transport `inner`.

    Args:
        inner: Sends the requests that need no proxy.
        credentials: The credentials of providers.
        by_proxy: Creates a transport that uses a proxy, by the proxy's URL.
    """

    def __init__(self, inner: Transport, credentials: Credentials, by_proxy: Callable[[str], Transport]) -> None:
        self.inner = inner
        self._credentials = credentials
        self._by_proxy = by_proxy
        self._proxied: dict[str, Transport] = {}

    @property
    def proxied(self) -> Sequence[Transport]:
        """The transports that use a proxy."""
        return tuple(self._proxied.values())

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        """Send the request and return the response. Raises DragomanError.

        A request whose credential is refused is sent once more, with a new one.
        """
        provider = request.provider if isinstance(request, ProviderRequest) else None
        if provider is None:
            return await self.inner.open(request, timers)
        transport = self._transport(provider)
        if provider.credential is None:
            return await transport.open(request, timers)
        credential = self._credentials.of(provider)
        if credential.renewal.is_valid:
            sent, value = await credential.authorized(request)
        else:
            sent, value = await _wait(timers, credential.authorized(request))
        response = await transport.open(sent, timers)
        if not credential.is_refusal(response.status):
            return response
        # The response is read, as the timers do not watch it while the credential is renewed.
        try:
            body = await response.read(_BODY_MAX)
        except (UpstreamError, LimitExceeded):
            body = b""  # the status is what matters
        finally:
            await response.close()
        again = await _wait(timers, credential.again(request, value))
        return ReadResponse(response, body) if again is None else await transport.open(again, timers)

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        """Send a request whose body is an upload. Raises DragomanError.

        It cannot be sent twice: if its credential is refused, the next request gets a new one.
        """
        provider = request.provider if isinstance(request, ProviderRequest) else None
        if provider is None:
            return await self.inner.open_upload(request, upload, timers)
        transport = self._transport(provider)
        if provider.credential is None:
            return await transport.open_upload(request, upload, timers)
        if provider.credential.kind == AWS:
            message = f"a form cannot be signed for the provider {provider.name}: send its request as JSON"
            raise UpstreamError(Failure(FailureKind.API, message, 501, reason="protocol"))
        credential = self._credentials.of(provider)
        sent, value = await _wait(timers, credential.authorized(request))
        response = await transport.open_upload(sent, upload, timers)
        if credential.is_refusal(response.status):
            credential.renewal.end(value)
        return response

    def _transport(self, provider: Provider) -> Transport:
        """Return the transport to a provider."""
        if not (proxy := provider.door.proxy):
            return self.inner
        if (found := self._proxied.get(proxy)) is None:
            found = self._proxied[proxy] = self._by_proxy(proxy)
        return found

    async def close(self) -> None:
        """Close all connections."""
        for transport in (self.inner, *self.proxied):
            await transport.close()


async def _wait(timers: StreamTimers, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that may wait for a credential.

    Raises what it raises, or the error by which the timers end the request. The timers begin again after it.
    """
    task = asyncio.ensure_future(work)
    failures: list[BaseException] = []

    def fail(error: BaseException) -> None:
        failures.append(error)
        task.cancel()

    timers.restart()
    timers.attach(fail)
    try:
        await asyncio.wait((task,))
    finally:
        task.cancel()
        timers.restart()
    if failures:
        raise failures[0]
    return task.result()

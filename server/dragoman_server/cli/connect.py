"""Test of upstreams for `dragoman check --connect`: one empty request each, with the transport and key of real
requests.

An empty request has no model and no prompt: the server checks the key, rejects the body and charges nothing.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from dragoman import DragomanError, UpstreamError
from dragoman.aio import StreamTimers, Transport
from dragoman.gateway import read_error
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.schema import Config
from dragoman_server.config.shown_url import shown_url
from dragoman_server.credentials.provider_request import request_to
from dragoman_server.proxy.auth import outbound_headers
from dragoman_server.proxy.open_requests import OpenRequests
from dragoman_server.proxy.upstream_calls import UpstreamCalls

SECONDS = 15.0
"""Maximum wait for one upstream's response, in seconds."""
BODY_MAX = 1 << 20
_AT_ONCE = 8
_NO_MODEL = "no-model"
"""The model in the URL of a request that names none."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Result of a request to one upstream. `status` is unset without a response; `seconds` is the time it took."""

    provider: str
    ok: bool
    status: int | None
    seconds: float
    message: str


async def try_upstreams(config: Config) -> list[Attempt]:
    """Send a request to every provider that has a base URL. The results have the configuration's order."""
    calls, slots = UpstreamCalls(None, OpenRequests()), asyncio.Semaphore(_AT_ONCE)
    calls.open(config)

    async def attempt(provider: Provider) -> Attempt:
        async with slots:
            return await _attempt(config, provider, calls.transport)

    try:
        return await asyncio.gather(*(attempt(each) for each in config.providers.values() if each.base_url))
    finally:
        await calls.close()


async def _attempt(config: Config, provider: Provider, upstream: Transport) -> Attempt:
    started = time.monotonic()
    status: int | None = None
    try:
        async with asyncio.timeout(SECONDS):
            status, message = await _send_empty_request(config, provider, upstream)
        ok, message = _judge(provider, status, message)
    except TimeoutError:
        ok, message = False, f"{provider.address()} did not answer within {SECONDS:g} s"
    except UpstreamError as error:
        ok, message = False, f"{error} ({provider.address()})"
    except DragomanError as error:
        ok, message = False, str(error)
    return Attempt(provider.name, ok, status, time.monotonic() - started, message)


async def _send_empty_request(config: Config, provider: Provider, upstream: Transport) -> tuple[int, str]:
    """Send the request. Return the status, and the message of an error response."""
    headers = {"content-type": "application/json", **outbound_headers(provider, {})}
    timeouts = config.server.timeouts
    url = provider.main_endpoint(_NO_MODEL, stream=False)
    call = request_to(provider, url, headers, b"{}", False, timeouts)
    watch = StreamTimers(timeouts, lambda: False)
    try:
        answer = await upstream.open(call, watch)
        try:
            body = await answer.read(BODY_MAX)
            if 200 <= answer.status < 300:
                return answer.status, ""
            return answer.status, read_error(provider.dialect, answer.status, body, answer.headers).message
        finally:
            await answer.close()
    finally:
        watch.stop()


def _judge(provider: Provider, status: int, message: str) -> tuple[bool, str]:
    """Return True if real requests may succeed, and a sentence for the user."""
    if status in (401, 403, 407):
        if provider.auth is Auth.PASSTHROUGH:
            return True, "answers; clients send their own keys"
        problem = "rejects the key" if provider.has_key else "requires an api_key"
        return False, f"{problem}: {status} {message}"
    if status == 404 and provider.door.has_model(provider.door.path):
        return True, f"answers ({status} for a model that does not exist)"
    if status in (404, 405):
        url = shown_url(provider.main_endpoint(_NO_MODEL, stream=False))
        return False, f"has no endpoint {url} ({status}): check base_url, and that it serves {provider.dialect}"
    if 300 <= status < 400:
        return False, f"redirects ({status}), which is not followed: check base_url"
    if status in (502, 503, 504):
        return False, f"is unavailable: {status} {message}"
    return True, f"answers ({status} to an empty request)"

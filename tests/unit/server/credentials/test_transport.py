"""Requests with a credential or by a proxy: retries after a refusal, waiting with timers, forms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman import Dialect
from dragoman.aio import STOPPING, Http11Transport, StreamTimers, Timeouts, Transport, Upload, UpstreamRequest
from dragoman.errors import DragomanError, UpstreamError
from dragoman_server.config.credential_options import CredentialOptions
from dragoman_server.config.door import Door
from dragoman_server.config.provider import Provider
from dragoman_server.credentials.credential import CredentialError
from dragoman_server.credentials.credentials import Credentials
from dragoman_server.credentials.provider_request import request_to
from dragoman_server.credentials.transport import ProviderTransport
from support.sockets import ScriptedServer, answer


@asynccontextmanager
async def completing() -> AsyncIterator[tuple[ProviderTransport, list[str]]]:
    proxies: list[str] = []

    def by_proxy(url: str) -> Transport:
        proxies.append(url)
        return Http11Transport()

    credentials = Credentials(lambda *_: None)
    transport = ProviderTransport(Http11Transport(), credentials, by_proxy)
    try:
        yield transport, proxies
    finally:
        await credentials.close()
        await transport.close()


def of_file(url: str, file: Path, token: str) -> Provider:
    file.write_text(token)
    return Provider("p", Dialect.CHAT, url, credential=CredentialOptions(file=str(file)))


def call(provider: Provider, url: str) -> UpstreamRequest:
    return request_to(provider, url, {"x-kept": "1"}, b"{}", False, Timeouts())


async def opened(transport: Transport, request: UpstreamRequest) -> tuple[int, bytes]:
    with StreamTimers(request.timeouts) as timers:
        response = await transport.open(request, timers)
        try:
            return response.status, await response.read(1000)
        finally:
            await response.close()


async def test_other_requests_are_sent_as_they_are() -> None:
    async with completing() as (transport, proxies), ScriptedServer(answer(200, b"{}")) as server:
        plain = UpstreamRequest(f"{server.url}/v1", {"a": "b"}, b"{}", False, Timeouts())
        assert await opened(transport, plain) == (200, b"{}")
        proxied = Provider("p", Dialect.CHAT, server.url, door=Door(proxy="http://h:1"))
        for _ in range(2):
            assert await opened(transport, call(proxied, server.url)) == (200, b"{}")
        assert proxies == ["http://h:1"]
        assert len(transport.proxied) == 1
    assert all(b"authorization" not in request.head for request in server.requests)


async def test_a_refusal_is_followed_by_one_request_with_a_new_credential(tmp_path: Path) -> None:
    file = tmp_path / "token"
    async with completing() as (transport, _), ScriptedServer(answer(401, b"no"), answer(200, b"{}")) as server:
        provider = of_file(server.url, file, "canary-1")
        await transport._credentials.of(provider).authorized(call(provider, server.url))
        file.write_text("canary-2")
        assert await opened(transport, call(provider, server.url)) == (200, b"{}")
    sent = [request.head.decode() for request in server.requests]
    assert ["canary-1" in sent[0], "canary-2" in sent[1]] == [True, True]
    assert all("x-kept: 1" in each for each in sent)


async def test_a_second_refusal_is_the_response(tmp_path: Path) -> None:
    file = tmp_path / "token"
    async with completing() as (transport, _), ScriptedServer(answer(401, b"no"), answer(401, b"still")) as server:
        provider = of_file(server.url, file, "canary-1")
        await transport._credentials.of(provider).authorized(call(provider, server.url))
        file.write_text("canary-2")
        assert await opened(transport, call(provider, server.url)) == (401, b"still")
        # Within the pause no further one is fetched.
        assert await opened(transport, call(provider, server.url)) == (401, b"still")
    assert len(server.requests) == 3


async def test_the_same_credential_is_not_sent_twice(tmp_path: Path) -> None:
    async with completing() as (transport, _), ScriptedServer(answer(401, b"no")) as server:
        provider = of_file(server.url, tmp_path / "token", "canary-1")
        assert await opened(transport, call(provider, server.url)) == (401, b"no")
    assert len(server.requests) == 1


async def test_without_a_credential_nothing_is_sent(tmp_path: Path) -> None:
    async with completing() as (transport, _), ScriptedServer(answer(200, b"{}")) as server:
        provider = Provider("p", Dialect.CHAT, server.url, credential=CredentialOptions(file=str(tmp_path / "absent")))
        with pytest.raises(CredentialError, match=r"providers\.p\.credential"):
            await opened(transport, call(provider, server.url))
    assert server.requests == []


async def test_the_timers_end_a_request_that_waits_for_a_credential(tmp_path: Path) -> None:
    command = CredentialOptions(command=("/bin/sleep", "600"))
    provider = Provider("p", Dialect.CHAT, "http://127.0.0.1:9", credential=command)
    async with completing() as (transport, _):
        request = call(provider, "http://127.0.0.1:9")
        with StreamTimers(request.timeouts) as timers:
            waiting = asyncio.create_task(transport.open(request, timers))
            await asyncio.sleep(0)
            timers.expire(DragomanError(STOPPING))
            with pytest.raises(DragomanError) as caught:
                await waiting
    assert caught.value.failure is STOPPING


async def test_a_form_that_is_refused_is_not_sent_again(tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"form"

    file = tmp_path / "token"
    async with completing() as (transport, _), ScriptedServer(answer(401, b"no"), answer(200, b"{}")) as server:
        provider = of_file(server.url, file, "canary-1")
        for token in ("canary-2", "canary-3"):
            request = call(provider, server.url)
            with StreamTimers(request.timeouts) as timers:
                response = await transport.open_upload(request, Upload(pieces(), 4), timers)
                await response.close()
            file.write_text(token)
    assert [b"canary-1" in server.requests[0].head, b"canary-2" in server.requests[1].head] == [True, True]


async def test_forms(tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"form"

    async with completing() as (transport, _), ScriptedServer(answer(200, b"{}")) as server:
        bedrock = "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"
        signed = Provider("s", Dialect.CHAT, bedrock, credential=CredentialOptions(kind="aws"))
        for provider in (
            of_file(server.url, tmp_path / "token", "canary-1"),
            Provider("q", Dialect.CHAT, server.url, door=Door(proxy="http://h:1")),
            Provider("plain", Dialect.CHAT, server.url),
        ):
            request = call(provider, server.url)
            with StreamTimers(request.timeouts) as timers:
                response = await transport.open_upload(request, Upload(pieces(), 4), timers)
                await response.close()
        request = call(signed, bedrock)
        with StreamTimers(request.timeouts) as timers, pytest.raises(UpstreamError, match="a form cannot be signed"):
            await transport.open_upload(request, Upload(pieces(), 4), timers)
    assert [b"canary-1" in request.head for request in server.requests] == [True, False, False]

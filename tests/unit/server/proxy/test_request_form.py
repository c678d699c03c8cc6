"""The request that goes upstream: the model's name in JSON and in forms, limits, and the choice of the provider."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models, Server
from dragoman_server.proxy.hooks import Hooks, Target
from support.forms import FORM_TYPE, form, part
from support.forwarding import ALIAS, MODEL, forwarding
from support.gateways import Gate, config_for, gate, until, with_limits
from support.sockets import ScriptedServer, Stall, answer

FILE = part("file", b"\0\xff" * 100_000, filename="a.wav")
NAMED = part("model", ALIAS.encode())
OK = answer(200, b"{}")


async def upload(entrance: Gate, data: Any, **headers: str) -> tuple[int, str]:
    """The status and the error's message of a form to a gateway."""
    url = f"{entrance.url}/v1/audio/transcriptions"
    async with entrance.session.post(url, data=data, headers={"content-type": FORM_TYPE, **headers}) as response:
        body = await response.json()
        return response.status, body.get("error", {}).get("message", "")


def renamed(url: str, **server: Any) -> Config:
    config = config_for(url, Dialect.CHAT, **server)
    return replace(config, routes=[Route(ALIAS, "up", MODEL), *config.routes])


@pytest.mark.parametrize("parts", [(NAMED, FILE), (FILE, NAMED), (FILE, NAMED, part("language", b"en"))])
async def test_only_the_models_name_changes_in_a_form(parts: tuple[bytes, ...]) -> None:
    data = form(*parts)
    async with ScriptedServer(OK) as server, gate(renamed(server.url)) as entrance:
        assert (await upload(entrance, data))[0] == 200
        (request,) = server.requests
        wanted = data.replace(NAMED, part("model", MODEL.encode()))
        assert request.body == wanted
        assert request.headers["content-length"] == str(len(wanted))
        assert request.headers["content-type"] == FORM_TYPE


async def test_a_form_in_chunks_or_compressed_is_sent_in_chunks() -> None:
    data = form(FILE, NAMED)

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 10_000):
            yield data[at : at + 10_000]

    async with ScriptedServer(OK) as server, gate(renamed(server.url)) as entrance:
        assert (await upload(entrance, pieces()))[0] == 200
        assert (await upload(entrance, gzip.compress(data), **{"content-encoding": "gzip"}))[0] == 200
        for request in server.requests:
            assert request.headers["transfer-encoding"] == "chunked"
            assert "content-encoding" not in request.headers
            assert request.body == data.replace(NAMED, part("model", MODEL.encode()))


async def test_a_form_goes_upstream_while_it_arrives() -> None:
    arrived = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield NAMED + FILE[:1000]
        await asyncio.wait_for(arrived.wait(), 30)
        yield FILE[1000:] + form()

    async with ScriptedServer(OK) as server, gate(renamed(server.url)) as entrance:
        sending = asyncio.ensure_future(upload(entrance, pieces()))
        await until(lambda: any(MODEL.encode() in inbox for inbox in _inboxes(server)))
        arrived.set()
        assert (await sending)[0] == 200


def _inboxes(server: ScriptedServer) -> list[bytes]:
    return [bytes(connection.inbox.data) for connection in server.open]


async def test_a_second_model_never_reaches_an_upstream_as_a_whole_form() -> None:
    data = form(NAMED, FILE, part("model", b"other"))
    async with ScriptedServer(OK) as server, gate(renamed(server.url)) as entrance:
        status, message = await upload(entrance, data)
        assert (status, message) == (400, "model: is given more than once; send it once")
        assert not server.requests


async def test_a_form_that_ends_early_is_a_400() -> None:
    async with ScriptedServer(OK) as server, gate(renamed(server.url)) as entrance:
        assert (await upload(entrance, form(NAMED, FILE)[:-4]))[0] == 400
        assert (await upload(entrance, FILE))[0] == 400


async def test_the_limits_of_forms() -> None:
    async with ScriptedServer(OK) as server:
        config = with_limits(renamed(server.url), upload=300_000, upload_held=100_000)
        async with gate(config) as entrance:
            assert (await upload(entrance, form(NAMED, FILE)))[0] == 200
            status, message = await upload(entrance, form(FILE, NAMED))
            assert (status, "limits.upload_held" in message) == (400, True)

            async def endless() -> AsyncIterator[bytes]:
                yield NAMED + FILE[:-2]
                for _ in range(20):
                    yield b"x" * 10_000

            for data in (form(NAMED, FILE, FILE), endless()):
                status, message = await upload(entrance, data)
                assert (status, message) == (413, "request exceeds the limit upload = 300000")
            assert len(server.requests) == 1


async def test_a_slow_form_is_a_408() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield NAMED
        await asyncio.sleep(5)
        yield FILE

    async with ScriptedServer([Stall()]) as server:
        config = renamed(server.url, timeouts=Timeouts(body=0.2))
        async with gate(config) as entrance:
            assert (await upload(entrance, pieces()))[0] == 408


async def test_json_keeps_its_bytes_apart_from_the_model() -> None:
    body = b'{ "input" : [1.0, 1e5] ,\n"model":"alias" }'
    async with ScriptedServer(OK) as server, gate(renamed(server.url)) as entrance:
        url, headers = f"{entrance.url}/v1/embeddings", {"content-type": "application/json"}
        async with entrance.session.post(url, data=body, headers=headers) as response:
            assert response.status == 200
        assert server.requests[0].body == body.replace(b"alias", MODEL.encode())
        twice = b'{"model":"alias","input":"x","model":"other"}'
        for bad in (twice, b"[]", b"{", b'{"model":1}'):
            async with entrance.session.post(url, data=bad, headers=headers) as response:
                assert response.status == 400
        assert len(server.requests) == 1


async def test_a_provider_that_does_not_serve_the_endpoint_is_named() -> None:
    async with forwarding(dialect=Dialect.MESSAGES) as there:
        async with there.entrance.session.post(
            f"{there.entrance.url}/v1/images/generations", json={"model": "m"}
        ) as response:
            assert response.status == 404
            error = (await response.json())["error"]
        assert error["code"] == "endpoint_not_served"
        assert 'providers.up.endpoints = ["images"]' in error["message"]
        assert not there.requests


def several(url: str, **models: Any) -> Config:
    providers = {
        "claude": Provider("claude", Dialect.MESSAGES, url),
        "one": Provider("one", Dialect.CHAT, url),
        "two": Provider("two", Dialect.CHAT, url, endpoints=("embeddings",)),
    }
    return Config(providers, [Route("known", "one")], Models(**models), server=Server(allowed_hosts=("x",)))


async def test_a_request_without_a_model_goes_to_the_only_provider() -> None:
    async with ScriptedServer(OK) as server, gate(several(server.url)) as entrance:
        async with entrance.session.post(f"{entrance.url}/v1/moderations", json={"input": "x"}) as response:
            assert response.status == 200
        async with entrance.session.post(f"{entrance.url}/v1/embeddings", json={"input": "x"}) as response:
            assert response.status == 400
            assert "several providers serve /v1/embeddings" in (await response.json())["error"]["message"]


async def test_the_small_model_does_not_stand_in_for_unknown_ones() -> None:
    async with ScriptedServer(OK) as server, gate(several(server.url, small="one/chatter")) as entrance:
        async with entrance.session.post(f"{entrance.url}/v1/embeddings", json={"model": "embed"}) as response:
            assert response.status == 404
            assert (await response.json())["error"]["code"] == "model_not_found"
        assert not server.requests


async def test_the_hook_chooses_the_provider() -> None:
    async def choose(*_: object) -> Target:
        return Target("two", "chosen")

    async with ScriptedServer(OK) as server, gate(several(server.url), hooks=Hooks(choose=choose)) as entrance:
        async with entrance.session.post(f"{entrance.url}/v1/embeddings", json={"model": "x"}) as response:
            assert response.status == 200
        assert server.requests[0].body == b'{"model": "chosen"}'
        async with entrance.session.post(f"{entrance.url}/v1/rerank", json={"model": "x"}) as response:
            assert response.status == 404


async def test_a_client_that_disconnects_in_a_form_cuts_the_upstream_request() -> None:
    async with ScriptedServer(OK) as server, gate(renamed(server.url)) as entrance:
        _, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
        head = f"POST /v1/audio/translations HTTP/1.1\r\nhost: x\r\ncontent-type: {FORM_TYPE}\r\n"
        writer.write(head.encode() + b"content-length: 999999\r\n\r\n" + NAMED + FILE[:1000])
        await until(lambda: any(MODEL.encode() in inbox for inbox in _inboxes(server)))
        (receipt,) = entrance.gateway.receipts._filed.values()
        writer.transport.abort()
        await until(lambda: receipt.ended == "abandoned")
        await until(lambda: server.hangups == 1)
        assert not server.requests
        assert not entrance.gateway.services.open_requests


async def test_a_gateway_that_stops_rejects_forms_that_have_not_arrived() -> None:
    arrived = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield NAMED + FILE[:1000]
        await asyncio.wait_for(arrived.wait(), 30)

    async with ScriptedServer(OK) as server, gate(renamed(server.url)) as entrance:
        sending = asyncio.ensure_future(upload(entrance, pieces()))
        await until(lambda: any(MODEL.encode() in inbox for inbox in _inboxes(server)))
        await entrance.gateway.stop(5)
        status, message = await sending
        arrived.set()
        assert (status, "shutting down" in message) == (503, True), message
        assert not server.requests

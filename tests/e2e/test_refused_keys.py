"""An upstream that refuses the gateway's key: the client gets a 502 in every form, and a 401 for its own login only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import StateOptions
from support.client_forms import COUNTS, MAIN, OTHERS
from support.gateways import config_for, gate, served
from support.recording_host import recording_host
from support.samples import chat_frame, messages_frame, text_stream

CHAT, MESSAGES, RESPONSES, GENERATE = Dialect
REFUSED = "the provider up refused the credential that this gateway has for it"
LOGIN = {"authorization": "Bearer login-of-the-client"}
FORMS = {name: form for name, form in (MAIN | COUNTS | OTHERS).items() if name != "models"}


def config_of(url: str, upstream: Dialect, auth: str = "configured", **server: Any) -> Config:
    key = Secret("key-of-the-gateway") if auth == "configured" else None
    provider = Provider("up", upstream, f"{url}/v1", key, auth=Auth(auth), endpoints=("embeddings", "audio"))
    config = config_for(url, upstream, **server)
    return replace(config, providers={"up": provider}, state=StateOptions(kind="memory"))


@asynccontextmanager
async def answering(status: int, kind: str, body: bytes) -> AsyncIterator[str]:
    """An upstream with one response for all requests: its URL."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=status, body=body, content_type=kind)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with served(app) as (url, _):
        yield url


@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("form", FORMS)
async def test_the_gateways_key_is_refused(form: str, upstream: Dialect) -> None:
    if form in COUNTS and upstream is CHAT:
        pytest.skip("it counts no tokens")
    async with recording_host(upstream) as host:
        host.tokens.add("another")
        async with gate(config_of(host.url, upstream)) as entrance:
            status, text = await FORMS[form](entrance, LOGIN)
    assert status == 502
    assert f"{REFUSED} (401)" in text
    assert "wrong token" not in text
    assert len(host.arrived) == 1


@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("form", FORMS)
async def test_the_clients_own_login_is_refused(form: str, upstream: Dialect) -> None:
    if form in COUNTS and upstream is CHAT:
        pytest.skip("it counts no tokens")
    async with recording_host(upstream) as host:
        host.tokens.add("another")
        async with gate(config_of(host.url, upstream, "passthrough")) as entrance:
            status, text = await FORMS[form](entrance, LOGIN)
    assert status == 401
    assert "wrong token" in text
    assert REFUSED not in text


@pytest.mark.parametrize("auth", list(Auth))
@pytest.mark.parametrize("upstream", Dialect)
async def test_a_key_of_the_gateway_beside_a_login(upstream: Dialect, auth: Auth) -> None:
    """With `server.keys`, the gateway's own 401 is for its own key alone."""
    async with recording_host(upstream) as host:
        host.tokens.add("another")
        config = config_of(host.url, upstream, auth, keys=(Secret("key-for-clients"),))
        async with gate(config) as entrance:
            status, shown, _ = await entrance.refusal(CHAT, headers=LOGIN)
            assert (status, shown.message) == (401, "invalid API key")
            assert host.arrived == []
            headers = {**LOGIN, "x-dragoman-key": "key-for-clients"}
            status, shown, _ = await entrance.refusal(CHAT, headers=headers)
    assert status == (401 if auth is Auth.PASSTHROUGH else 502)
    assert (REFUSED in shown.message) == (auth is Auth.CONFIGURED)


@pytest.mark.parametrize("upstream", Dialect)
async def test_a_list_of_models_is_that_of_the_configuration(upstream: Dialect) -> None:
    async with recording_host(upstream) as host:
        host.tokens.add("another")
        async with gate(config_of(host.url, upstream)) as entrance:
            status, text = await OTHERS["models"](entrance, LOGIN)
    assert status == 200
    assert "wrong token" not in text


CLOUDS: Mapping[str, tuple[int, str, bytes]] = {
    "aws": (403, "application/json", b'{"message":"The security token included in the request is expired"}'),
    "aws-signature": (403, "application/json", b'{"Message":"The request signature we calculated does not match"}'),
    "google": (
        401,
        "application/json",
        b'[{"error":{"code":401,"message":"Request had invalid authentication credentials.",'
        b'"status":"UNAUTHENTICATED"}}]',
    ),
    "azure": (401, "application/json", b'{"statusCode":401,"message":"Unauthorized. Access token is missing."}'),
    "azure-key": (401, "application/json", b'{"error":{"code":"401","message":"Access denied due to invalid key."}}'),
    "copilot": (401, "text/plain", b"unauthorized: token expired\n"),
    "html": (401, "text/html", b"<html>401 Authorization Required</html>"),
    "empty": (401, "application/octet-stream", b""),
}
"""Responses by which clouds refuse a key or a signature: status, content type, body."""


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("cloud", CLOUDS)
async def test_the_forms_in_which_clouds_refuse(cloud: str, stream: bool, client: Dialect) -> None:
    status, kind, body = CLOUDS[cloud]
    async with answering(status, kind, body) as url:
        for upstream in Dialect:
            async with gate(config_of(url, upstream)) as entrance:
                got, shown, _ = await entrance.refusal(client, stream=stream)
            assert got == 502
            assert shown.message.startswith(f"{REFUSED} ({status})")
            assert shown.type not in ("authentication_error", "permission_error")
            assert shown.code in (None, "upstream_credential")


IN_STREAMS = {
    CHAT: chat_frame({}, error={"message": "token expired", "type": "authentication_error", "code": 401}),
    MESSAGES: messages_frame("error", error={"type": "authentication_error", "message": "token expired"}),
    RESPONSES: b'data: {"type":"error","sequence_number":4,"code":"invalid_api_key","message":"token expired",'
    b'"param":null}\n\n',
    GENERATE: b'data: {"error":{"code":401,"message":"token expired","status":"UNAUTHENTICATED"}}\r\n\r\n',
}


@pytest.mark.parametrize("auth", list(Auth))
@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_a_refusal_inside_of_a_stream(client: Dialect, upstream: Dialect, auth: Auth) -> None:
    frames = [*text_stream(upstream)[:3], IN_STREAMS[upstream]]
    async with (
        answering(200, "text/event-stream", b"".join(frames)) as url,
        gate(config_of(url, upstream, auth)) as entrance,
    ):
        stream = await entrance.stream(client, headers=LOGIN)
    assert (REFUSED.encode() in stream) == (auth is Auth.CONFIGURED)
    assert (b"token expired" in stream) == (auth is Auth.PASSTHROUGH)
    if auth is Auth.CONFIGURED:
        assert b"authentication_error" not in stream
        assert b"invalid_api_key" not in stream

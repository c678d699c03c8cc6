"""The client's key, the upstream's key, and that no key appears anywhere else (mapping §12.1)."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.load import parse_config
from dragoman_server.config.schema import Config
from support.gateways import ALL, CHAT, MESSAGES, config_for, gate
from support.samples import PATHS, dump, reply, request, text_stream
from support.sockets import ScriptedServer, answer, stream

OURS, WRONG, THEIRS, EXTRA = "gw-key-0123456789", "wrong-key-987", "vendor-key-abcdef", "extra-secret-555"
SECRETS = (OURS, WRONG, THEIRS, EXTRA)
REQUEST_ID = {CHAT: "x-request-id", MESSAGES: "request-id"}


def _config(url: str, upstream: Dialect) -> Config:
    return parse_config(
        {
            "server": {"keys": ["${GATEWAY_KEY}", "second-key"]},
            "providers": {
                "up": {
                    "dialect": upstream.value,
                    "base_url": url,
                    "api_key": "${VENDOR_KEY}",
                    "headers": {"x-extra": "${EXTRA}"},
                }
            },
            "routes": [{"model": "*", "provider": "up"}],
        },
        {"GATEWAY_KEY": OURS, "VENDOR_KEY": THEIRS, "EXTRA": EXTRA},
    )


@pytest.mark.parametrize(("client", "upstream"), ALL)
async def test_only_configured_keys_go_upstream(client: Dialect, upstream: Dialect) -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(upstream)))) as server,
        gate(_config(server.url, upstream)) as entrance,
    ):
        sent = {
            "authorization": f"Bearer {OURS}",
            "cookie": "session=1",
            "x-stainless-lang": "python",
            "proxy-authorization": "Basic xyz",
            "openai-organization": "org-1",
            "x-forwarded-for": "10.0.0.1",
        }
        async with entrance.post(client, headers=sent) as response:
            assert response.status == 200
    (received,) = server.requests
    assert OURS.encode() not in received.head
    assert received.headers["x-extra"] == EXTRA
    if upstream is CHAT:
        assert received.headers["authorization"] == f"Bearer {THEIRS}"
        assert "x-api-key" not in received.headers
        assert "anthropic-version" not in received.headers
    else:
        assert received.headers["x-api-key"] == THEIRS
        assert "authorization" not in received.headers
        assert received.headers["anthropic-version"]
    allowed = {"host", "accept", "accept-encoding", "content-type", "content-length", "user-agent", "x-dragoman-sender"}
    credentials = {"authorization", "x-api-key", "anthropic-version", "x-extra"}
    assert received.headers.keys() <= allowed | credentials


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-api-key": OURS}, 200),
        ({"authorization": f"Bearer {OURS}"}, 200),
        ({"authorization": f"bearer  {OURS} "}, 200),
        ({"x-api-key": "second-key"}, 200),
        ({"x-api-key": OURS, "authorization": f"Bearer {WRONG}"}, 200),
        ({"x-api-key": WRONG, "authorization": f"Bearer {OURS}"}, 200),
        ({"x-api-key": WRONG, "x-dragoman-key": OURS}, 200),
        ({"authorization": f"Basic {OURS}"}, 401),
        ({"x-api-key": OURS[:-1]}, 401),
        ({"x-api-key": OURS + "x"}, 401),
        ({"x-api-key": WRONG}, 401),
        ({"x-api-key": ""}, 401),
        ({}, 401),
    ],
)
async def test_inbound_keys(client: Dialect, headers: dict[str, str], status: int) -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, gate(_config(server.url, CHAT)) as entrance:
        if status == 200:
            async with entrance.post(client, headers=headers) as response:
                assert response.status == 200
        else:
            code, noted, received = await entrance.refusal(client, headers=headers)
            assert code == 401
            assert noted.type == ("invalid_request_error" if client is CHAT else "authentication_error")
            assert noted.code == ("invalid_api_key" if client is CHAT else None)
            assert received[REQUEST_ID[client]].startswith("req_")
        assert len(server.requests) == (status == 200)


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/"])
async def test_side_endpoints_and_keys(path: str) -> None:
    """The list of models reports the configuration, so it needs the key; the signs of life do not."""
    async with ScriptedServer(answer(200, b"{}")) as server, gate(_config(server.url, CHAT)) as entrance:
        needed = path == "/v1/models"
        async with entrance.session.get(entrance.url + path) as response:
            assert response.status == (401 if needed else 200)
        for version in ({}, {"anthropic-version": "2023-06-01"}):
            async with entrance.session.get(entrance.url + path, headers={"x-api-key": OURS, **version}) as response:
                assert response.status == 200


@pytest.mark.parametrize(("client", "upstream"), ALL)
async def test_passthrough_auth_sends_the_clients_key_in_the_upstreams_form(client: Dialect, upstream: Dialect) -> None:
    async with ScriptedServer(answer(200, dump(reply(upstream)))) as server:
        config = config_for(server.url, upstream)
        provider = replace(config.providers["up"], auth="passthrough")  # type: ignore[arg-type]
        async with (
            gate(replace(config, providers={"up": provider})) as entrance,
            entrance.post(client, headers={"x-api-key": "mine"}) as response,
        ):
            assert response.status == 200
    headers = server.requests[0].headers
    assert headers.get("authorization") == ("Bearer mine" if upstream is CHAT else None)
    assert headers.get("x-api-key") == ("mine" if upstream is MESSAGES else None)


@pytest.mark.parametrize(("client", "upstream"), ALL)
async def test_no_key_is_ever_shown(client: Dialect, upstream: Dialect, caplog: pytest.LogCaptureFixture) -> None:
    """Not in logs at DEBUG, not in errors of any kind, not in what the configuration looks like printed."""
    caplog.set_level(logging.DEBUG)
    scripts = [
        answer(200, dump(reply(upstream))),
        stream(text_stream(upstream)),
        answer(401, dump({"error": {"message": f"Incorrect API key provided: {THEIRS}", "type": "auth"}})),
        answer(500, b"<html>oops</html>", content_type="text/html"),
        stream([b"data: garbage\n\n"]),
    ]
    seen = []
    async with ScriptedServer(*scripts) as server:
        config = _config(server.url, upstream)
        async with gate(config) as entrance:
            good = {"x-api-key": OURS}
            for streamed in (False, True, False, False, True):
                async with entrance.post(client, stream=streamed, headers=good) as response:
                    seen.append(f"{response.headers!r} {await response.text()}")
            for headers in ({"x-api-key": WRONG}, {"authorization": f"Bearer {WRONG}"}, {}):
                _, noted, answered = await entrance.refusal(client, headers=headers)
                seen.append(f"{noted} {answered}")
            _, noted, _ = await entrance.refusal(client, b"{", headers=good)
            seen.append(str(noted))
        for printed in (
            config,
            config.providers,
            config.server,
            entrance.gateway.services.router,
            entrance.gateway.config,
        ):
            seen += [repr(printed), str(printed)]
    assert len(server.requests) == 5
    everything = "\n".join([*seen, caplog.text, *(str(vars(record)) for record in caplog.records)])
    # In passthrough the upstream's own words go to the client as they are: they are not the gateway's to edit.
    shown = everything.replace(f"provided: {THEIRS}", "") if client is upstream else everything
    for secret in SECRETS:
        assert secret not in shown


async def test_an_unreachable_upstream_does_not_show_its_key() -> None:
    async with ScriptedServer(answer(200, b"{}")) as server:
        config = _config(server.url, CHAT)
    async with gate(config) as entrance:
        for client in (CHAT, MESSAGES):
            sent = dump(request(client))
            url = entrance.url + PATHS[client]
            async with entrance.session.post(url, data=sent, headers={"x-api-key": OURS}) as response:
                text = await response.text()
                assert response.status == 502
                json.loads(text)
                assert not any(secret in text for secret in SECRETS)

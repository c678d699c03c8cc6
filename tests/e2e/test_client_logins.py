"""Logins of clients at a vendor, through a gateway that has keys of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.config.door import Door
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import StateOptions
from support.client_forms import COUNTS, MAIN, OTHERS
from support.gateways import config_for, gate
from support.named_keys import made, spent, with_keys
from support.recording_host import recording_host

CHAT, MESSAGES, RESPONSES, *_ = Dialect
OURS, LOGIN = "gateway-key-1234567", "sk-ant-oat01-login-7654321"


def config_of(url: str, upstream: Dialect, *keys: str, **door: Any) -> Config:
    provider = Provider(
        "up", upstream, f"{url}/v1", auth=Auth.PASSTHROUGH, endpoints=("embeddings", "audio"), door=Door(**door)
    )
    config = config_for(url, upstream, keys=tuple(map(Secret, keys)))
    return replace(config, providers={"up": provider}, state=StateOptions(kind="memory"))


@pytest.mark.parametrize("header", ["x-dragoman-key", "x-api-key"])
@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("form", [*MAIN, *COUNTS, *OTHERS])
async def test_the_login_is_passed_on_and_the_gateways_key_is_not(form: str, upstream: Dialect, header: str) -> None:
    if form in COUNTS and upstream is CHAT:
        pytest.skip("it counts no tokens")
    sent = {header: OURS, "authorization": f"Bearer {LOGIN}"}
    async with recording_host(upstream) as host:
        host.tokens.add(LOGIN)  # as a Bearer token, in each dialect
        async with gate(config_of(host.url, upstream, OURS)) as entrance:
            status, text = await (MAIN | COUNTS | OTHERS)[form](entrance, sent)
    assert status == 200, text
    assert host.arrived
    for arrived in host.arrived:
        assert arrived.headers["authorization"] == f"Bearer {LOGIN}"
        assert OURS not in str(arrived.headers)
        assert "x-api-key" not in arrived.headers


@pytest.mark.parametrize("sent", [{"x-api-key": OURS}, {"authorization": f"Bearer {OURS}"}, {"x-dragoman-key": OURS}])
async def test_without_a_login_none_is_sent(sent: dict[str, str]) -> None:
    async with recording_host(CHAT) as host, gate(config_of(host.url, CHAT, OURS)) as entrance:
        async with entrance.post(MESSAGES, headers=sent) as response:
            assert response.status == 200
        async with entrance.session.get(f"{entrance.url}/v1/models", headers=sent) as response:
            assert (await response.json())["data"] == []
    (arrived,) = host.arrived
    assert not {"authorization", "x-api-key", "x-dragoman-key"} & arrived.headers.keys()


async def test_a_login_alone_does_not_open_the_gateway() -> None:
    async with recording_host(CHAT) as host, gate(config_of(host.url, CHAT, OURS)) as entrance:
        for sent in ({"authorization": f"Bearer {LOGIN}"}, {"x-api-key": LOGIN}, {"x-dragoman-key": "wrong"}, {}):
            status, _, _ = await entrance.refusal(CHAT, headers=sent)
            assert status == 401
    assert host.arrived == []


@pytest.mark.parametrize("header", ["x-dragoman-key", "x-api-key"])
async def test_limits_and_usage_are_those_of_the_gateways_key(header: str) -> None:
    key, record = made("alice", requests_per_minute=2, daily_tokens=1000)
    other, unlimited = made("bob")
    async with recording_host(MESSAGES) as host:
        host.tokens.add(LOGIN)
        async with gate(with_keys(config_of(host.url, MESSAGES), record, unlimited)) as entrance:
            sent = {header: key, "authorization": f"Bearer {LOGIN}"}
            for _ in range(2):
                async with entrance.post(CHAT, headers=sent) as response:
                    assert response.status == 200
            status, _, _ = await entrance.refusal(CHAT, headers=sent)
            assert status == 429
            async with entrance.post(CHAT, headers={header: other, "authorization": f"Bearer {LOGIN}"}) as response:
                assert response.status == 200
            counted = await spent(entrance, record)
            names = {receipt.key.name for receipt in entrance.gateway.receipts.newest() if receipt.key}
    assert sum(counted.values()) > 0
    assert names == {"alice", "bob"}
    assert all(key not in str(arrived.headers) for arrived in host.arrived)


async def test_a_named_key_that_is_not_valid_is_never_a_login() -> None:
    key, record = made("alice")
    unknown, _ = made("nobody")
    async with recording_host(CHAT) as host, gate(with_keys(config_of(host.url, CHAT), record)) as entrance:
        async with entrance.post(
            CHAT, headers={"x-dragoman-key": key, "authorization": f"Bearer {unknown}"}
        ) as response:
            assert response.status == 200
        status, shown, _ = await entrance.refusal(CHAT, headers={"authorization": f"Bearer {unknown}"})
    assert (status, shown.message) == (401, "invalid API key")
    assert "authorization" not in host.arrived[0].headers


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_an_upstreams_401_is_the_clients_own(client: Dialect) -> None:
    async with recording_host(CHAT) as host:
        host.tokens.add("another")
        async with gate(config_of(host.url, CHAT, OURS)) as entrance:
            sent = {"x-dragoman-key": OURS, "authorization": f"Bearer {LOGIN}"}
            status, shown, _ = await entrance.refusal(client, headers=sent)
    assert status == 401
    assert "wrong token" in shown.message
    assert LOGIN not in str(shown)


async def test_codex_with_its_own_login() -> None:
    async with recording_host(RESPONSES) as host:
        host.tokens.add(LOGIN)
        config = config_of(host.url, RESPONSES, OURS, forward_headers=("chatgpt-account-id",))
        async with gate(config) as entrance:
            sent = {"x-dragoman-key": OURS, "authorization": f"Bearer {LOGIN}", "ChatGPT-Account-ID": "acc-1"}
            for form in ("responses", "responses stream", "websocket", "background stream"):
                status, text = await MAIN[form](entrance, sent)
                assert status == 200, text
    assert [arrived.headers["chatgpt-account-id"] for arrived in host.arrived] == ["acc-1"] * 4

"""Named keys at the gateway: who gets in, to which models and endpoints, and what the others are reported."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.dialects import Dialect
from dragoman_server.accounts.keys.secret import new_key
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.sqlite import SqliteAccountStore
from dragoman_server.config.provider import Secret
from support.gateways import gate
from support.named_keys import keyed, made
from support.samples import dump, reply, request
from support.sockets import ScriptedServer, answer

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
DIALECTS = (CHAT, MESSAGES, RESPONSES)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize("client", DIALECTS, ids=str)
async def test_a_named_key_is_accepted_in_both_headers(client: Dialect) -> None:
    key, record = made()
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(keyed(server.url, CHAT, record)) as entrance,
    ):
        for headers in (bearer(key), {"x-api-key": key}):
            async with entrance.post(client, headers=headers) as response:
                assert response.status == 200
    assert all(key not in f"{received.head!r} {received.body!r}" for received in server.requests)


@pytest.mark.parametrize("client", DIALECTS, ids=str)
async def test_other_keys_are_rejected(client: Dialect) -> None:
    key, record = made()
    forged = key[:-4] + ("aaaa" if key[-4:] != "aaaa" else "bbbb")
    async with ScriptedServer([]) as server, gate(keyed(server.url, CHAT, record)) as entrance:
        for headers in ({}, bearer(new_key()), bearer(forged), bearer("x"), {"x-api-key": "sk-dragoman-"}):
            status, error, _ = await entrance.refusal(client, headers=headers)
            assert status == 401
            assert error.type == ("authentication_error" if client is MESSAGES else "invalid_request_error")
            assert "key" in error.message
            assert key not in error.message
    assert server.requests == []


async def test_keys_of_the_server_keep_working_next_to_named_ones() -> None:
    key, record = made(requests_per_minute=1)
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(keyed(server.url, CHAT, record, keys=(Secret("plain-key-1"),))) as entrance,
    ):
        for _ in range(3):
            async with entrance.post(CHAT, headers=bearer("plain-key-1")) as response:
                assert response.status == 200
                assert "x-ratelimit-limit-requests" not in response.headers
        async with entrance.post(CHAT, headers=bearer(key)) as response:
            assert response.status == 200
        assert (await entrance.refusal(CHAT, headers=bearer("plain-key-2")))[0] == 401
        assert (await entrance.refusal(CHAT))[0] == 401


async def test_a_key_expires() -> None:
    now = time.time()
    key, record = made(expires=now + 100)
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        async with (
            gate(keyed(server.url, CHAT, record), now=lambda: now + 99) as entrance,
            entrance.post(CHAT, headers=bearer(key)) as response,
        ):
            assert response.status == 200
        async with gate(keyed(server.url, CHAT, record), now=lambda: now + 100) as entrance:
            status, error, _ = await entrance.refusal(CHAT, headers=bearer(key))
            assert (status, error.message) == (401, "the API key has expired")


@pytest.mark.parametrize("client", DIALECTS, ids=str)
async def test_a_key_may_use_its_models_only(client: Dialect) -> None:
    key, record = made(models=("gpt-*", "m"))
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(keyed(server.url, CHAT, record)) as entrance,
    ):
        async with entrance.post(client, headers=bearer(key), model="gpt-5") as response:
            assert response.status == 200
        status, error, _ = await entrance.refusal(client, headers=bearer(key), model="claude-opus-5")
        assert status == 403
        assert error.type == "permission_error"
        assert "'claude-opus-5'" in error.message
        for path in ("/v1/messages/count_tokens", "/v1/dragoman/explain?from=messages"):
            body = dump(request(MESSAGES, model="claude-opus-5"))
            headers = {"x-api-key": key, "content-type": "application/json", "anthropic-version": "2023-06-01"}
            async with entrance.session.post(entrance.url + path, data=body, headers=headers) as refused:
                assert refused.status == 403, path
    assert len(server.requests) == 1


async def test_a_key_sees_its_models_only() -> None:
    key, record = made(models=("gpt-*",))
    everything, all_models = made("all")
    async with ScriptedServer([]) as server:
        config = keyed(server.url, CHAT, record, all_models)
        config = replace(
            config,
            models=replace(config.models, discover=False),
            models_listed=("gpt-5", "gpt-6", "claude-5"),
        )
        async with gate(config) as entrance:
            for client_key, expected in ((key, ["gpt-5", "gpt-6"]), (everything, ["gpt-5", "gpt-6", "claude-5"])):
                async with entrance.session.get(f"{entrance.url}/v1/models", headers=bearer(client_key)) as response:
                    assert [model["id"] for model in (await response.json())["data"]] == expected
            async with entrance.session.get(f"{entrance.url}/v1/models/claude-5", headers=bearer(key)) as response:
                assert response.status == 403


async def test_metrics_are_for_admins() -> None:
    key, record = made()
    admin, of_admin = made("root", admin=True)
    async with (
        ScriptedServer([]) as server,
        gate(keyed(server.url, CHAT, record, of_admin, keys=(Secret("plain-key-1"),))) as entrance,
    ):
        for client_key, status in ((key, 403), (admin, 200), ("plain-key-1", 200)):
            async with entrance.session.get(f"{entrance.url}/metrics", headers=bearer(client_key)) as response:
                assert response.status == status


async def test_only_the_key_that_made_a_request_reads_its_receipt() -> None:
    key, record = made()
    other, of_other = made("bob", admin=True)
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(keyed(server.url, CHAT, record, of_other)) as entrance,
    ):
        async with entrance.post(CHAT, headers=bearer(key)) as response:
            url = f"{entrance.url}/v1/dragoman/receipts/{response.headers['x-dragoman-request-id']}"
        for client_key, status in ((key, 200), (other, 404)):
            async with entrance.session.get(url, headers=bearer(client_key)) as response:
                assert response.status == status


async def test_a_new_configuration_adds_and_removes_keys() -> None:
    key, record = made()
    other, of_other = made("bob")
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = keyed(server.url, CHAT, record)
        async with gate(config) as entrance:
            entrance.gateway.reconfigure(keyed(server.url, CHAT, of_other))
            assert (await entrance.refusal(CHAT, headers=bearer(key)))[0] == 401
            async with entrance.post(CHAT, headers=bearer(other)) as response:
                assert response.status == 200


async def test_a_gateway_without_keys_gets_some_by_a_new_configuration() -> None:
    key, record = made(requests_per_minute=1)
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = keyed(server.url, CHAT, record)
        async with gate(replace(config, keys={})) as entrance:
            async with entrance.post(CHAT) as response:
                assert response.status == 200
            entrance.gateway.reconfigure(config)
            assert (await entrance.refusal(CHAT))[0] == 401
            async with entrance.post(CHAT, headers=bearer(key)) as response:
                assert response.status == 200
            assert (await entrance.refusal(CHAT, headers=bearer(key)))[0] == 429
            entrance.gateway.reconfigure(replace(config, keys={}))
            async with entrance.post(CHAT) as response:
                assert response.status == 200


async def test_keys_of_the_store_are_read_while_it_runs(tmp_path: Path) -> None:
    options = StoreOptions("sqlite", path=str(tmp_path / "keys.db"), refresh=0.1, timeout=5)
    key, record = made()
    store = SqliteAccountStore(options)
    await store.open()
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(keyed(server.url, CHAT, store=options)) as entrance,
    ):
        # Although the store has no key, one is required.
        assert (await entrance.refusal(CHAT))[0] == 401
        assert (await entrance.refusal(CHAT, headers=bearer(key)))[0] == 401

        async def becomes(expected: int) -> None:
            status = 0
            async with asyncio.timeout(30):
                while status != expected:
                    async with entrance.post(CHAT, headers=bearer(key)) as response:
                        status = response.status

        await store.put_key(record)
        await becomes(200)
        await store.remove_key(record.id)
        await becomes(401)
    await store.close()


async def test_a_web_page_needs_no_rules_where_keys_are_required() -> None:
    key, record = made()
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(keyed(server.url, CHAT, record)) as entrance,
        entrance.post(CHAT, headers={**bearer(key), "host": "gateway.example.com"}) as response,
    ):
        assert response.status == 200


_SIGNS = [(method, path) for method in ("GET", "HEAD") for path in ("/", "/health", "/ready")]
PUBLIC = frozenset((("*", "/{path}"), *_SIGNS))
"""Endpoints without a key: signs of life, and the 404 for unknown paths."""


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
async def test_every_endpoint_requires_a_key(named: bool) -> None:
    """A new endpoint that forgets its key fails here; one that needs none must be added to `PUBLIC`."""
    _, record = made(admin=True)
    seen = set()
    async with ScriptedServer([]) as server:
        config = keyed(server.url, CHAT, record) if named else keyed(server.url, CHAT, keys=(Secret("plain-key-1"),))
        async with gate(config) as entrance:
            app = entrance.runner.app
            assert app is not None
            for route in app.router.routes():
                assert route.resource is not None
                path = route.resource.canonical
                if (route.method, path) in PUBLIC:
                    continue
                path = re.sub(r"\{[^}]*\}", "x", path)
                method = "POST" if route.method == "*" else route.method
                for headers in ({}, bearer("sk-wrong-key"), bearer(new_key())):
                    sent = {"content-type": "application/json", **headers}
                    data = b"{}" if method == "POST" else None
                    async with entrance.session.request(
                        method, entrance.url + path, data=data, headers=sent, allow_redirects=False
                    ) as response:
                        assert response.status == 401, (method, path, await response.text())
                seen.add(path)
    assert {"/v1/chat/completions", "/v1/messages", "/v1/responses", "/metrics", "/v1/models"} <= seen
    assert server.requests == []


async def test_a_canary_key_is_nowhere(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    key, record = made(requests_per_minute=2, daily_tokens=10**6, admin=True)
    secret, wrong = key.rpartition("-")[2], new_key()
    path = tmp_path / "limits.db"
    options = StoreOptions("sqlite", path=str(path), timeout=5)
    echo = json.dumps({"error": {"message": f"bad key {key} {wrong}", "type": "x", "param": key, "code": key}})
    texts: list[str] = []
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT))), answer(400, echo.encode())) as server,
        gate(keyed(server.url, CHAT, record, store=options)) as entrance,
    ):
        statuses = []
        for client_key in (key, key, key, wrong):
            async with entrance.post(MESSAGES, headers={"x-api-key": client_key}) as response:
                texts.append(f"{await response.text()} {dict(response.headers)}")
                statuses.append(response.status)
                request_id = response.headers["x-dragoman-request-id"]
            url = f"{entrance.url}/v1/dragoman/receipts/{request_id}"
            async with entrance.session.get(url, headers={"x-api-key": key}) as receipt:
                texts.append(await receipt.text())
        assert statuses == [200, 400, 429, 401]
        async with entrance.session.get(f"{entrance.url}/metrics", headers={"x-api-key": key}) as metrics:
            assert metrics.status == 200
            texts.append(await metrics.text())
        texts.append(repr(entrance.gateway.config))
    texts += [received.head.decode() + received.body.decode() for received in server.requests]
    texts.append(caplog.text)
    texts += await asyncio.to_thread(lambda: [file.read_bytes().decode("latin-1") for file in tmp_path.iterdir()])
    for text in texts:
        assert secret not in text
        assert wrong.rpartition("-")[2] not in text
    assert str(record.hash) not in repr(entrance.gateway.config)

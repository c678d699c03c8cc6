"""`GET /v1/dragoman/receipts/{request_id}`, the id that every reply carries, and `x-dragoman-on-loss`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.config.provider import Secret
from support.gateways import ALL, CHAT, CROSS, MESSAGES, Gate, config_for, gate, until
from support.samples import dump, read_error, reply, text_stream
from support.sockets import ScriptedServer, Send, Stall, Step, answer, chunk, sse_head, stream

OWN = "x-dragoman-request-id"
LOSSY: dict[Dialect, dict[str, Any]] = {CHAT: {"seed": 7}, MESSAGES: {"top_k": 3}}
PATH = {CHAT: "seed", MESSAGES: "top_k"}
SECRET_TEXT = "the secret plan"
USED = {"input_total": 5, "cache_read": None, "cache_write": None, "output_total": 9, "reasoning": None}


async def receipt(entrance: Gate, request_id: str, **headers: str) -> dict[str, Any]:
    async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}", headers=headers) as response:
        assert response.status == 200, await response.text()
        facts: dict[str, Any] = await response.json()
        assert facts["request_id"] == request_id
        return facts


@pytest.mark.parametrize(("client", "upstream"), CROSS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_receipt_reports_the_losses_that_the_header_counts(
    client: Dialect, upstream: Dialect, streamed: bool
) -> None:
    script = stream(text_stream(upstream)) if streamed else answer(200, dump(reply(upstream)))
    messages = [{"role": "user", "content": SECRET_TEXT}]
    async with ScriptedServer(script) as server, gate(config_for(server.url, upstream)) as entrance:
        async with entrance.post(client, stream=streamed, messages=messages, **LOSSY[client]) as response:
            header = response.headers["x-dragoman-loss"]
            request_id = response.headers[OWN]
            await response.read()
        facts = await receipt(entrance, request_id)
    assert header == f"{facts['losses'][0]['code']}=1"
    assert facts["losses"][0]["path"] == PATH[client]
    assert facts["losses"][0]["meaning"]
    assert (facts["client"], facts["upstream"], facts["provider"]) == (client, upstream, "up")
    assert (facts["model"], facts["upstream_model"], facts["stream"]) == ("m", "m", streamed)
    assert (facts["ended"], facts["status"], facts["error"]) == ("completed", 200, None)
    assert {name: facts["usage"][name] for name in ("input_total", "output_total")} == {
        "input_total": 5,
        "output_total": 9,
    }
    assert facts["created"] > 1_700_000_000
    stated = json.dumps(facts, ensure_ascii=False)
    assert SECRET_TEXT not in stated
    assert "Grüße" not in stated


@pytest.mark.parametrize(("client", "upstream"), ALL)
async def test_a_refused_request_has_its_receipt_and_losses_too(client: Dialect, upstream: Dialect) -> None:
    error = {"error": {"type": "x", "message": f"no: {SECRET_TEXT}"}}
    async with (
        ScriptedServer(answer(429, dump(error))) as server,
        gate(config_for(server.url, upstream)) as entrance,
        entrance.post(client, **LOSSY[client]) as response,
    ):
        assert response.status == 429
        assert ("x-dragoman-loss" in response.headers) == (client is not upstream)
        facts = await receipt(entrance, response.headers[OWN])
    assert (facts["ended"], facts["status"]) == ("refused", 429)
    assert facts["error"]["kind"] == "rate_limit"
    assert SECRET_TEXT not in json.dumps(facts)


async def test_a_rejected_request_reports_why() -> None:
    async with ScriptedServer(answer(200, b"{}")) as server, gate(config_for(server.url, CHAT)) as entrance:
        for client, body, param in (
            (MESSAGES, b"{", None),
            (MESSAGES, dump({"model": "m", "max_tokens": 5, "messages": 7}), "messages"),
            (CHAT, dump({"messages": []}), "model"),
        ):
            status, noted, headers = await entrance.refusal(client, body)
            facts = await receipt(entrance, headers[OWN])
            assert (facts["ended"], facts["status"]) == ("rejected", status)
            assert facts["error"]["message"] == noted.message
            assert facts["error"]["param"] == param
        assert not server.requests


async def test_an_upstream_that_cannot_be_asked_is_reported_in_the_gateways_words() -> None:
    async with ScriptedServer([Stall()]) as server:
        for url, kind in ((server.url, "timeout"), ("http://127.0.0.1:9/v1", "api")):
            async with gate(config_for(url, CHAT, timeouts=Timeouts(first_byte=0.2))) as entrance:
                status, noted, headers = await entrance.refusal(MESSAGES)
                facts = await receipt(entrance, headers[OWN])
            assert (facts["ended"], facts["status"], facts["error"]["kind"]) == ("failed", status, kind)
            assert facts["error"]["message"] == noted.message


@pytest.mark.parametrize(("client", "upstream"), ALL)
async def test_a_stream_that_fails_or_is_left_is_reported(client: Dialect, upstream: Dialect) -> None:
    cut = stream(text_stream(upstream)[:4])
    begun: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in text_stream(upstream)[:4]), Stall()]
    async with ScriptedServer(cut, begun) as server, gate(config_for(server.url, upstream)) as entrance:
        async with entrance.post(client, stream=True) as response:
            await response.read()
        facts = await receipt(entrance, response.headers[OWN])
        assert (facts["ended"], facts["status"], facts["error"]["code"]) == ("failed", 200, "stream_truncated")

        response = await entrance.post(client, stream=True)
        await response.content.readany()
        assert (await receipt(entrance, response.headers[OWN]))["ended"] == "open"
        response.close()
        kept = entrance.gateway.receipts.find(response.headers[OWN], b"")
        assert kept is not None
        await until(lambda: kept.ended != "open")
        assert (await receipt(entrance, response.headers[OWN]))["ended"] == "abandoned"


async def test_an_upstream_that_is_silent_is_a_failure_with_its_status() -> None:
    async with ScriptedServer([Stall()]) as server:
        config = config_for(server.url, CHAT, timeouts=Timeouts(first_byte=0.1))
        async with gate(config) as entrance, entrance.post(MESSAGES, **LOSSY[MESSAGES]) as response:
            assert response.status == 504
            assert response.headers["x-dragoman-loss"] == "top_k=1"
            facts = await receipt(entrance, response.headers[OWN])
    assert (facts["ended"], facts["status"], facts["error"]["code"]) == ("failed", 504, "timeout")


# --- whose receipt ---------------------------------------------------------------------------------------------------


async def test_a_key_sees_its_own_receipts_only() -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = config_for(server.url, CHAT, keys=(Secret("key-one"), Secret("key-two")))
        async with gate(config) as entrance:
            ids = {}
            for key in ("key-one", "key-two"):
                async with entrance.post(CHAT, headers={"x-api-key": key}) as response:
                    ids[key] = response.headers[OWN]
            url = f"{entrance.url}/v1/dragoman/receipts"
            for key, headers in (
                ("key-one", {"authorization": "Bearer key-one"}),
                ("key-two", {"x-api-key": "key-two"}),
            ):
                for owner, request_id in ids.items():
                    async with entrance.session.get(f"{url}/{request_id}", headers=headers) as response:
                        assert response.status == (200 if owner == key else 404)
                        text = await response.text()
                    assert "key-one" not in text
                    assert "key-two" not in text
            for headers in ({}, {"x-api-key": "wrong"}):
                async with entrance.session.get(f"{url}/{ids['key-one']}", headers=headers) as response:
                    assert response.status == 401
                async with entrance.post(CHAT, headers=headers) as response:
                    refused = response.headers[OWN]
                async with entrance.session.get(f"{url}/{refused}", headers={"x-api-key": "key-one"}) as response:
                    assert response.status == 404, "strangers could fill the store"


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
async def test_what_is_not_kept_is_not_found_in_the_askers_envelope(client: Dialect) -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = config_for(server.url, CHAT, receipts=1)
        async with gate(config) as entrance:
            ids = []
            for _ in range(2):
                async with entrance.post(CHAT) as response:
                    ids.append(response.headers[OWN])
            assert (await receipt(entrance, ids[1]))["ended"] == "completed"
            headers = {"anthropic-version": "2023-06-01"} if client is MESSAGES else {}
            for unknown in (ids[0], "req_nothing", "%00%0a"):
                url = f"{entrance.url}/v1/dragoman/receipts/{unknown}"
                async with entrance.session.get(url, headers=headers) as response:
                    assert response.status == 404
                    assert "the last 1 requests" in read_error(client, await response.read()).message
                    assert response.headers[OWN].startswith("req_")


async def test_every_reply_has_our_own_id() -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = config_for(server.url, CHAT, keys=(Secret("k"),))
        async with gate(config) as entrance:
            asked = [
                ("POST", "/v1/chat/completions"),
                ("GET", "/v1/models"),
                ("GET", "/nothing"),
                ("PUT", "/v1/messages"),
            ]
            for method, path in asked:
                async with entrance.session.request(method, entrance.url + path) as response:
                    assert response.status in (401, 404, 405)
                    assert response.headers[OWN].startswith("req_"), path


# --- x-dragoman-on-loss ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "upstream"), CROSS)
async def test_a_request_may_be_strict_or_lenient_of_its_own(client: Dialect, upstream: Dialect) -> None:
    async with ScriptedServer(answer(200, dump(reply(upstream)))) as server:
        for configured in ("record", "reject"):
            async with gate(config_for(server.url, upstream, knobs={"on_loss": configured})) as entrance:
                for wish in ("record", "Reject ", None):
                    before = len(server.requests)
                    headers = {} if wish is None else {"x-dragoman-on-loss": wish}
                    async with entrance.post(client, headers=headers, **LOSSY[client]) as response:
                        strict = (wish or configured).strip().lower() == "reject"
                        assert response.status == (400 if strict else 200)
                        if strict:
                            assert PATH[client] in read_error(client, await response.read()).message
                    assert len(server.requests) == before + (not strict)


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
async def test_another_wish_is_a_400_that_names_the_header(client: Dialect) -> None:
    async with ScriptedServer(answer(200, b"{}")) as server, gate(config_for(server.url, CHAT)) as entrance:
        for wish in ("", "strict", "x" * 5000):
            status, noted, _ = await entrance.refusal(client, headers={"x-dragoman-on-loss": wish})
            assert status == 400
            assert noted.message.startswith("x-dragoman-on-loss: expected one of record, reject; got ")
            assert len(noted.message) < 200
        assert not server.requests


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
async def test_passthrough_takes_the_wish_and_loses_nothing_anyway(client: Dialect) -> None:
    headers = {"x-dragoman-on-loss": "reject"}
    async with (
        ScriptedServer(answer(200, dump(reply(client)))) as server,
        gate(config_for(server.url, client)) as entrance,
        entrance.post(client, headers=headers, **LOSSY[client]) as response,
    ):
        assert response.status == 200
    assert "x-dragoman-on-loss" not in server.requests[0].headers


async def test_no_receipts_are_kept_where_none_are_wanted() -> None:
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = config_for(server.url, CHAT)
        config = replace(config, server=replace(config.server, receipts=0))
        async with gate(config) as entrance:
            async with entrance.post(CHAT) as response:
                url = f"{entrance.url}/v1/dragoman/receipts/{response.headers[OWN]}"
            async with entrance.session.get(url) as response:
                assert response.status == 404
                assert "server.receipts = 0" in await response.text()


async def test_the_last_receipts_are_listed_for_their_own_key() -> None:
    keys = ("key-of-alice", "key-of-bob")
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = config_for(server.url, CHAT)
        config = replace(config, server=replace(config.server, keys=tuple(map(Secret, keys)), receipts=5))
        async with gate(config) as entrance:

            async def last(key: str, query: str = "") -> list[dict[str, Any]]:
                headers = {"x-api-key": key}
                async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts{query}", headers=headers) as got:
                    assert got.status == 200, await got.text()
                    found: dict[str, Any] = await got.json()
                    assert found["object"] == "list"
                    return list(found["data"])

            assert await last(keys[0]) == []
            for number in range(6):
                headers = {"x-api-key": keys[number % 2]}
                async with entrance.post(MESSAGES, model=f"m{number}", top_k=3, headers=headers) as response:
                    assert response.status == 200
            assert [row["model"] for row in await last(keys[0])] == ["m4", "m2"]
            assert [row["model"] for row in await last(keys[1])] == ["m5", "m3", "m1"]
            (row,) = await last(keys[1], "?limit=1")
            assert (row["model"], row["losses_total"], "losses" in row) == ("m5", 1, False)
            for limit in ("0", "101", "x"):
                url = f"{entrance.url}/v1/dragoman/receipts?limit={limit}"
                async with entrance.session.get(url, headers={"x-api-key": keys[0]}) as got:
                    assert (got.status, "limit: expected a number" in await got.text()) == (400, True)

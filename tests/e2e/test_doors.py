"""The settings by which a provider is addressed hold for every form of request."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli.connect import try_upstreams
from dragoman_server.config.credential_options import CredentialOptions
from dragoman_server.config.door import AUTH_HEADERS, Door
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import StateOptions
from support.client_forms import COUNTS, MAIN, OTHERS
from support.gateways import config_for, gate
from support.recording_host import recording_host
from support.samples import request

CHAT, MESSAGES, RESPONSES, GENERATE = Dialect
DOOR = Door(
    path="models/{model}:raw",
    stream_path="models/{model}:streamRaw",
    body={"anthropic_version": "v-1", "deep": {"n": [1, None]}},
    omit=("model", "temperature"),
    forward_headers=("X-Account",),
)
DIALECT_OF = {"chat": CHAT, "messages": MESSAGES, "count": MESSAGES}


def config_of(url: str, upstream: Dialect, door: Door, **more: Any) -> Config:
    provider = Provider(
        "up",
        upstream,
        f"{url}/pub/v1",
        Secret("ours-1234567"),
        endpoints=("embeddings", "audio"),
        headers={"x-static": "s"},
        door=door,
        **more,
    )
    config = config_for(url, upstream)
    return replace(config, providers={"up": provider}, state=StateOptions(kind="memory"))


@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("form", [*MAIN, *COUNTS, "embeddings"])
async def test_every_form_of_request_goes_through_the_door(form: str, upstream: Dialect) -> None:
    if form in COUNTS and upstream is CHAT:
        pytest.skip("it counts no tokens")
    door = replace(DOOR, count_path="models/count-tokens:raw") if upstream is not CHAT else DOOR
    if upstream is GENERATE:  # which has the temperature in there
        door = replace(door, omit=("model", "temperature", "generationConfig"))
    client = DIALECT_OF.get(form.split()[0], CHAT if form == "embeddings" else RESPONSES)
    async with recording_host(upstream) as host, gate(config_of(host.url, upstream, door)) as entrance:
        status, text = await (MAIN | COUNTS | OTHERS)[form](entrance, {"x-account": "acc", "x-other": "o"})
    assert status == 200, text
    (arrived,) = [each for each in host.arrived if each.method == "POST"]
    sent = arrived.json
    streamed = "stream" in form or form == "websocket"
    if form in COUNTS:
        assert arrived.path == "/pub/v1/models/count-tokens:raw"
        if upstream is GENERATE:
            assert sent["generateContentRequest"]["model"] == "models/m"
        else:
            assert sent["model"] == "m"  # this URL does not have it
    elif form == "embeddings":
        assert arrived.path == "/pub/v1/embeddings"
        assert "model" not in sent
    else:
        assert arrived.path == f"/pub/v1/models/m:{'streamRaw' if streamed else 'raw'}"
        assert "model" not in sent
    if upstream is GENERATE and form != "embeddings":
        assert "generationConfig" not in sent
    assert "temperature" not in sent
    assert (sent["anthropic_version"], sent["deep"]) == ("v-1", {"n": [1, None]})
    assert arrived.headers["x-static"] == "s"
    same = client is upstream or (form == "embeddings" and upstream in (CHAT, RESPONSES))
    assert arrived.headers.get("x-account") == ("acc" if same else None)
    assert "x-other" not in arrived.headers
    if form in ("chat", "chat stream", "messages", "messages stream", "responses") and same:
        assert b'"top_p" : 0.90' in arrived.body
    if form not in ("websocket", "background stream", *COUNTS):
        assert "field_configured=1" in text or form == "embeddings"


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
async def test_a_field_that_is_left_out_is_a_loss_with_a_row(client: Dialect) -> None:
    async with recording_host(CHAT) as host:
        config = config_of(host.url, CHAT, Door(omit=("temperature",), body={"user": "fixed"}))
        async with gate(config) as entrance:
            async with entrance.post(client, temperature=0.5, metadata={"user_id": "x"}) as response:
                assert response.status == 200
            (receipt,) = entrance.gateway.receipts.newest()
            losses = json.loads(receipt.json())["losses"]
            rows = {row["path"]: row["done"] for row in losses if row["code"] == "field_configured"}
            strict = {"x-dragoman-on-loss": "reject"}
            async with entrance.post(client, temperature=0.5, headers=strict) as response:
                assert response.status == 400
                assert "temperature: cannot be sent to this upstream (field_configured" in await response.text()
            async with entrance.post(client, headers=strict) as response:
                assert response.status == 200
    assert rows["temperature"] == "not sent to up (omit)"
    assert [arrived.json["user"] for arrived in host.arrived] == ["fixed", "fixed"]
    assert all("temperature" not in arrived.json for arrived in host.arrived)


async def test_without_a_path_for_counts_they_are_estimates() -> None:
    async with recording_host(MESSAGES) as host, gate(config_of(host.url, MESSAGES, DOOR)) as entrance:
        status, text = await COUNTS["count"](entrance, {})
    assert status == 200
    assert "x-dragoman-estimate" in text.lower()
    assert host.arrived == []


@pytest.mark.parametrize("word", AUTH_HEADERS)
@pytest.mark.parametrize("form", ["messages", "chat", "embeddings", "form", "models"])
async def test_the_header_of_the_key(form: str, word: str) -> None:
    async with recording_host(CHAT) as host, gate(config_of(host.url, CHAT, Door(auth_header=word))) as entrance:
        status, text = await (MAIN | OTHERS)[form](entrance, {})
    assert status == 200, text
    (arrived,) = host.arrived
    names = {"authorization", "x-api-key", "api-key", "x-goog-api-key"} & arrived.headers.keys()
    assert names == {"authorization" if word == "bearer" else word}
    assert "ours-1234567" in arrived.headers[names.pop()]


async def test_a_model_name_cannot_leave_its_place_in_the_url() -> None:
    async with recording_host(CHAT) as host, gate(config_of(host.url, CHAT, DOOR)) as entrance:
        async with entrance.post(CHAT, model="../../admin?x=") as response:
            assert response.status == 200
        async with entrance.post(CHAT, model="..") as response:
            assert response.status == 400
    assert [arrived.path for arrived in host.arrived] == ["/pub/v1/models/..%2F..%2Fadmin%3Fx%3D:raw"]


async def test_a_model_name_leads_to_no_other_method_of_gemini_and_no_url_has_a_key() -> None:
    names = ("../../admin?key=x", "a/b:countTokens", "m#x")
    async with recording_host(GENERATE) as host, gate(config_of(host.url, GENERATE, Door())) as entrance:
        for name in names:
            async with entrance.post(CHAT, model=name) as response:
                await response.read()
    parts = [arrived.path.partition("/models/")[2] for arrived in host.arrived]
    assert parts == [f"{quote(name, safe='')}:generateContent" for name in names]
    assert all(arrived.headers["x-goog-api-key"] == "ours-1234567" for arrived in host.arrived)
    assert not any("ours-1234567" in arrived.path for arrived in host.arrived)


@pytest.mark.parametrize("form", [*MAIN, *OTHERS])
async def test_a_proxy_of_the_provider(form: str) -> None:
    """Every form of request goes through the tunnel."""
    heads: list[bytes] = []
    async with recording_host(CHAT) as host:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", int(host.url.rpartition(":")[2]))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

            async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                while data := await source.read(65536):
                    target.write(data)
                target.close()

            await asyncio.gather(copy(reader, up_writer), copy(up_reader, writer), return_exceptions=True)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            proxy = f"http://u:canary-pw@127.0.0.1:{server.sockets[0].getsockname()[1]}"
            config = config_of("http://upstream.invalid:82", CHAT, Door(proxy=proxy))
            async with gate(config) as entrance:
                status, text = await (MAIN | OTHERS)[form](entrance, {})
            assert status == 200, text
    assert heads
    assert all(head.startswith(b"CONNECT upstream.invalid:82 HTTP/1.1\r\n") for head in heads)
    assert "canary" not in text


async def test_the_connection_check_goes_through_the_door(tmp_path: Path) -> None:
    """Its empty request has no model, so one that does not exist is in the URL."""
    file = tmp_path / "token"
    file.write_text("token-1")
    async with recording_host(CHAT) as host:
        config = config_of(host.url, CHAT, DOOR)
        by_file = replace(config.providers["up"], api_key=None, credential=CredentialOptions(file=str(file)))
        config = replace(config, providers={"up": by_file})
        host.tokens.add("token-1")
        (attempt,) = await try_upstreams(config)
        assert (attempt.ok, attempt.status) == (True, 200)
        host.tokens = {"another"}
        (refused,) = await try_upstreams(config)
        assert (refused.ok, refused.status) == (False, 401)
        assert "rejects the key" in refused.message
        file.unlink()
        (away,) = await try_upstreams(config)
    assert "providers.up.credential: " in away.message
    assert "the file cannot be read" in away.message
    assert [arrived.path for arrived in host.arrived] == ["/pub/v1/models/no-model:raw"] * 2


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
async def test_an_explanation_shows_url_and_body(client: Dialect) -> None:
    async with recording_host(CHAT) as host, gate(config_of(host.url, CHAT, DOOR)) as entrance:
        url = f"{entrance.url}/v1/dragoman/explain?from={client}"
        async with entrance.session.post(url, json=request(client, stream=True, temperature=0.5)) as response:
            explained = await response.json()
    assert explained["url"].endswith("/pub/v1/models/m:streamRaw")
    assert explained["body"]["anthropic_version"] == "v-1"
    assert not {"model", "temperature"} & explained["body"].keys()
    assert [row["path"] for row in explained["losses"] if row["code"] == "field_configured"] == ["temperature"]
    assert host.arrived == []


async def test_responses_that_the_upstream_stores() -> None:
    """Requests about them have the key's header and the forwarded headers, at the usual path."""
    async with recording_host(RESPONSES) as host:
        config = config_of(host.url, RESPONSES, replace(DOOR, auth_header="api-key"))
        async with gate(replace(config, state=StateOptions(kind="off"))) as entrance:
            sent = {"x-account": "acc"}
            async with entrance.post(RESPONSES, headers=sent) as response:
                stored = (await response.json())["id"]
            async with entrance.session.get(f"{entrance.url}/v1/responses/{stored}", headers=sent) as response:
                assert response.status == 200
    assert [arrived.path for arrived in host.arrived] == ["/pub/v1/models/m:raw", f"/pub/v1/responses/{stored}"]
    assert all(arrived.headers["api-key"] == "ours-1234567" for arrived in host.arrived)
    assert all(arrived.headers["x-account"] == "acc" for arrived in host.arrived)

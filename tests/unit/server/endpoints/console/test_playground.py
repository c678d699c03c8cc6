"""The playground: explanations with a difference, and requests that are sent and recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman import Dialect
from dragoman.gateway import CLIENT_DIALECTS
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.console import playground
from support.gateways import CHAT, MESSAGES, config_for, gate
from support.named_keys import keyed, made
from support.samples import dump, request, text_stream
from support.sockets import ScriptedServer, stream

JSON = {"content-type": "application/json"}


def with_ui(config: Config) -> Config:
    return replace(config, server=replace(config.server, ui=True))


async def explained(config: Config, body: Any, query: str = "", **headers: str) -> tuple[int, Any]:
    async with (
        gate(with_ui(config)) as up,
        up.session.post(f"{up.url}/ui/api/explain{query}", data=dump(body), headers={**JSON, **headers}) as response,
    ):
        return response.status, await response.json()


async def test_an_explanation_has_a_difference() -> None:
    async with ScriptedServer(stream(text_stream(CHAT))) as server:
        body = request(MESSAGES, top_k=4)
        status, found = await explained(config_for(server.url, CHAT), body, "?from=messages")
        assert not server.requests
    assert status == 200
    assert found["direction"] == "messages→chat"
    assert found["body"]["messages"]
    (dropped,) = [row for row in found["diff"] if row["path"] == "top_k"]
    assert dropped["change"] == "dropped"
    assert dropped["losses"][0]["code"] == "top_k"


async def test_a_request_that_is_rejected_is_an_error() -> None:
    config = config_for("http://127.0.0.1:9/v1", CHAT)
    status, found = await explained(config, {"model": "m", "messages": 7, "max_tokens": 1}, "?from=messages")
    assert status == 400
    assert "messages" in found["error"]["message"]


async def test_long_bodies_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playground, "BODY_MAX", 10)
    config = config_for("http://127.0.0.1:9/v1", CHAT)
    status, found = await explained(config, request(MESSAGES), "?from=messages")
    assert (status, found["diff"]) == (200, None)


async def test_the_models_of_a_key_apply() -> None:
    key, record = made("root", admin=True, models=("allowed",))
    config = keyed("http://127.0.0.1:9/v1", CHAT, record)
    headers = {"x-api-key": key}
    assert (await explained(config, request(MESSAGES), "?from=messages", **headers))[0] == 403
    allowed = request(MESSAGES, model="allowed")
    assert (await explained(config, allowed, "?from=messages", **headers))[0] == 200


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_a_request_is_sent_and_recorded(client: Dialect) -> None:
    async with (
        ScriptedServer(stream(text_stream(MESSAGES))) as server,
        gate(with_ui(config_for(server.url, MESSAGES))) as up,
    ):
        data = dump(request(client, stream=True))
        async with up.session.post(f"{up.url}/ui/api/send/{client.path}", data=data, headers=JSON) as response:
            assert response.status == 200
            assert response.content_type == "text/event-stream"
            await response.read()
            request_id = response.headers["x-dragoman-request-id"]
        async with up.session.get(f"{up.url}/ui/api/exchanges/{request_id}") as response:
            view = await response.json()
        assert up.gateway.services.instruments.recorder is None
    assert view["row"]["state"] == "completed"
    assert view["row"]["client"] == client
    assert {batch[0] for batch in view["recording"]["batches"]} == {"received", "sent"}

"""The tag of an exchange: that of its request, else of its key, in the row, the receipt, the log and the hook."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman import Dialect
from dragoman.dialects import CLIENT_DIALECTS
from dragoman_server import Hooks
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.report import read_rows
from dragoman_server.observability.logs import JsonFormatter
from dragoman_server.simulator import REQUESTS, make_simulator
from support.gateways import Gate, gate, served
from support.named_keys import keyed, made
from support.websockets import speaking

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
HEADER = "x-dragoman-tag"


@asynccontextmanager
async def tagging(
    upstream: Dialect, folder: Path, on_end: Callable[[Any], None] | None = None
) -> AsyncIterator[tuple[Gate, dict[str, str], Any]]:
    """A gateway with a key that has a tag, the headers of a client, and the requests that came upstream."""
    simulator, (key, record) = make_simulator(), made(tag="team-7")
    async with served(simulator) as (url, _):
        config = keyed(url if upstream is MESSAGES else f"{url}/v1", upstream, record)
        config = replace(config, usage=UsageOptions("jsonl", str(folder / "usage")))
        async with gate(config, hooks=Hooks(on_end=on_end)) as entrance:
            yield entrance, {"x-dragoman-key": key}, simulator[REQUESTS]


def tags(folder: Path) -> list[str | None]:
    """Return the tags that were booked."""
    return [row["tag"] for row in read_rows(UsageOptions("jsonl", str(folder / "usage")))]


@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_a_tag_is_booked_and_never_forwarded(
    client: Dialect, upstream: Dialect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    ended: list[Any] = []
    async with tagging(upstream, tmp_path, ended.append) as (entrance, headers, requests):
        for own, tag in (({HEADER: "Web/2:a"}, "Web/2:a"), ({}, "team-7")):
            async with entrance.post(client, headers=headers | own) as response:
                assert response.status == 200, await response.text()
                request_id = response.headers["x-dragoman-request-id"]
            where = f"{entrance.url}/v1/dragoman/receipts/{request_id}"
            async with entrance.session.get(where, headers=headers) as response:
                assert (await response.json())["tag"] == tag
    assert tags(tmp_path) == [each.tag for each in ended] == ["Web/2:a", "team-7"]
    lines = [record for record in caplog.records if " status=200 " in record.getMessage()]
    for line, booked in zip(lines, tags(tmp_path), strict=True):
        assert f" tag={booked}" in line.getMessage()
        assert json.loads(JsonFormatter().format(line))["tag"] == booked
    assert len(requests) == 2
    for sent in requests:
        text = json.dumps([dict(sent.headers), sent.body]).lower()
        assert "web/2" not in text
        assert "team-7" not in text
        assert HEADER not in text


@pytest.mark.parametrize("tag", ["", "a b", "x" * 65, "Grüße"])
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_a_tag_that_is_none_is_rejected_by_the_name_of_its_header(
    client: Dialect, tag: str, tmp_path: Path
) -> None:
    async with tagging(client, tmp_path) as (entrance, headers, requests):
        status, error, _ = await entrance.refusal(client, headers=headers | {HEADER: tag})
    assert (status, HEADER in error.message) == (400, True)
    assert not requests
    assert tags(tmp_path) == [None]


async def test_a_forwarded_endpoint_and_a_websocket_have_tags(tmp_path: Path) -> None:
    async with tagging(CHAT, tmp_path) as (entrance, headers, requests):
        headers[HEADER] = "red"
        body = {"model": "m", "input": "Hi"}
        async with entrance.session.post(f"{entrance.url}/v1/embeddings", json=body, headers=headers) as response:
            assert response.status == 200
        async with speaking(entrance.url, headers=headers) as client:
            for _ in range(2):
                await client.turn()
    assert tags(tmp_path) == ["red"] * 3
    assert not any(HEADER in sent.headers for sent in requests)


async def test_a_client_without_a_key_has_no_tag_but_its_own(tmp_path: Path) -> None:
    async with tagging(CHAT, tmp_path) as (entrance, _key, _):
        entrance.gateway.reconfigure(replace(entrance.gateway.config, keys={}))
        for own in ({}, {HEADER: "blue"}):
            async with entrance.post(CHAT, headers=own) as response:
                assert response.status == 200
    assert tags(tmp_path) == [None, "blue"]

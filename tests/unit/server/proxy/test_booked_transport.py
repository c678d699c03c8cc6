"""Exchanges are in the journal before their requests are sent, and until their rows are written."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dragoman_server.accounts.usage.journal import SLOT, FileJournal
from dragoman_server.accounts.usage.options import JSONL, SQLITE, STDOUT, UsageOptions
from dragoman_server.accounts.usage.report import read_rows
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.proxy.gateway import Gateway
from support.exposed import read_exposition, total
from support.gateways import CHAT, MESSAGES, Gate, config_for, gate, served
from support.samples import reply


@dataclass
class Upstream:
    """Keeps what the journal has when each request arrives. It answers with these statuses, then with 200."""

    folder: Path
    statuses: list[int] = field(default_factory=list)
    found: list[list[Any]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a request."""
        await request.read()
        self.found.append(entries(self.folder))
        status = self.statuses.pop(0) if self.statuses else 200
        if request.path.endswith("embeddings"):
            return web.json_response({"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 3}})
        return web.json_response(reply(CHAT), status=status)


def entries(folder: Path) -> list[Any]:
    """The entries of the journal, as the file has them now."""
    found = []
    for path in folder.glob("usage.begun.*"):
        data = path.read_bytes()
        slots = [data[position : position + SLOT] for position in range(SLOT, len(data), SLOT)]
        found += [json.loads(slot.partition(b"\n")[0]) for slot in slots if slot[0]]
    return found


@asynccontextmanager
async def booking(
    folder: Path, kind: str = JSONL, *statuses: int, **fields: Any
) -> AsyncIterator[tuple[Gate, Upstream]]:
    """A gateway that books, and its upstream."""
    upstream, app = Upstream(folder, [*statuses]), web.Application()
    app.router.add_post("/{path:.*}", upstream.answer)
    async with served(app) as (url, _):
        config = replace(config_for(f"{url}/v1", CHAT), usage=UsageOptions(kind, str(folder / "usage")))
        if statuses:
            fields["providers"] = {name: Provider(name, CHAT, f"{url}/v1") for name in ("one", "two")}
            fields["routes"] = [Route("*", targets=(RouteTarget("one"), RouteTarget("two")))]
            fields["retries"] = RetryOptions(backoff=0.01, backoff_max=0.02, failures=0)
        async with gate(replace(config, **fields)) as entrance:
            yield entrance, upstream


def rows(folder: Path, kind: str = JSONL) -> list[Any]:
    return [*read_rows(UsageOptions(kind, str(folder / "usage")))]


@pytest.mark.parametrize("kind", [JSONL, SQLITE])
async def test_the_entry_is_written_before_the_request_is_sent(tmp_path: Path, kind: str) -> None:
    async with booking(tmp_path, kind) as (entrance, upstream):
        async with entrance.post(MESSAGES, headers={"x-dragoman-tag": "team-7"}) as response:
            assert response.status == 200
        [[entry]] = upstream.found
    [row] = rows(tmp_path, kind)
    assert row["ended"] == "completed"
    names = ("id", "time", "client", "model", "upstream_model", "provider", "route", "tag", "attempts")
    assert {name: entry[name] for name in names} == {name: row[name] for name in names}
    assert entry["tag"] == "team-7"
    assert entry["input"] > 0
    assert os.listdir(tmp_path) == ["usage"]


async def test_the_entry_of_a_further_attempt_replaces_the_first(tmp_path: Path) -> None:
    async with booking(tmp_path, JSONL, 503) as (entrance, upstream), entrance.post(CHAT) as response:
        assert response.status == 200
    found = [[(each["provider"], each["attempts"]) for each in arrived] for arrived in upstream.found]
    assert found == [[("one", 1)], [("two", 2)]]
    assert len(rows(tmp_path)) == 1


async def test_forwarded_endpoints_are_entered_too(tmp_path: Path) -> None:
    async with booking(tmp_path) as (entrance, upstream):
        body = {"model": "m", "input": "Hi"}
        async with entrance.session.post(f"{entrance.url}/v1/embeddings", json=body) as response:
            assert response.status == 200
    [[entry]] = upstream.found
    assert entry["client"] == "embeddings"
    assert [row["id"] for row in rows(tmp_path)] == [entry["id"]]


async def test_requests_are_served_although_the_journal_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: FileJournal) -> None:
        raise OSError(30, "Read-only file system")

    async with booking(tmp_path) as (entrance, upstream):

        async def warnings() -> list[str]:
            async with entrance.session.get(f"{entrance.url}/ready") as response:
                assert response.status == 200
                return list((await response.json())["warnings"])

        async def send() -> None:
            async with entrance.post(CHAT) as response:
                assert response.status == 200

        assert await warnings() == []
        with monkeypatch.context() as broken:
            broken.setattr(FileJournal, "_create", fail)
            for _ in range(3):
                await send()
            assert await warnings() == ["usage_unavailable"]
        async with entrance.session.get(f"{entrance.url}/metrics") as response:
            assert total(read_exposition(await response.read()), "dragoman_usage_unguarded_total") == 3
        assert caplog.text.count("Read-only file system") == 1
        await send()
        assert await warnings() == []
        assert [len(arrived) for arrived in upstream.found] == [0, 0, 0, 1]
    assert [row["ended"] for row in rows(tmp_path)] == ["completed"] * 4


def test_standard_output_has_no_journal(tmp_path: Path) -> None:
    config = config_for("http://127.0.0.1:9/v1", CHAT)
    usage = Gateway(replace(config, usage=UsageOptions(JSONL, STDOUT))).services.instruments.usage
    assert (usage.writes, usage.keeps_begun, usage.failing) == (True, False, False)

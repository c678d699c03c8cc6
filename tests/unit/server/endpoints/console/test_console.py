"""The endpoints of the console together: errors, questions of other workers, and a page below a prefix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dragoman_server.app import setup
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.console import console
from dragoman_server.endpoints.console.console import Console
from dragoman_server.observability.installed_version import installed_version, revision
from dragoman_server.proxy.gateway import Gateway
from support.gateways import CHAT, config_for, gate, served


def with_ui() -> Config:
    config = config_for("http://127.0.0.1:9/v1", CHAT)
    return replace(config, server=replace(config.server, ui=True))


async def test_below_a_prefix() -> None:
    app = web.Application()
    setup(app, with_ui(), prefix="/llm")
    async with served(app) as (url, _), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/llm/ui") as response:
            assert str(response.url) == f"{url}/llm/ui/"
        async with session.get(f"{url}/llm/ui/api/exchanges") as response:
            assert (await response.json()) == {"open": 0, "recording": 0, "rows": []}
        async with session.get(f"{url}/ui/") as response:
            assert response.status == 404


async def test_a_defect_is_an_error_without_details(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: object) -> Any:
        raise RuntimeError("a detail")

    monkeypatch.setattr(console, "health", fail)
    async with gate(with_ui()) as up, up.session.get(f"{up.url}/ui/api/health") as response:
        assert response.status == 500
        assert "detail" not in await response.text()


def test_questions_of_other_workers() -> None:
    gateway = Gateway(with_ui())
    assert gateway.console_answer({"kind": "rows"}) == {}, "a gateway without a console has no answer"
    Console(gateway).mount(web.Application(), "")
    assert gateway.console_answer({"kind": "rows", "rows": 5}) == {"open": 0, "recording": 0, "rows": []}
    assert gateway.console_answer({"kind": "exchange", "id": "req_1"}) == {"view": None}
    assert gateway.console_answer({"kind": "keys"}) == {"keys": []}
    assert gateway.console_answer({"kind": "history"})["bins"]
    assert gateway.console_answer({"kind": "of a later version"}) == {}
    gateway.console_answer({"kind": "record", "count": 2})
    assert gateway.services.instruments.recorder is not None


async def test_what_runs() -> None:
    async with gate(with_ui()) as up, up.session.get(f"{up.url}/ui/api/about") as response:
        assert await response.json() == {"version": installed_version(), "revision": revision()}


@pytest.mark.parametrize("count", ["x", "", "-1", "99999999"])
async def test_a_count_that_is_no_number_is_one(count: str) -> None:
    async with gate(with_ui()) as up, up.session.post(f"{up.url}/ui/api/record?count={count}") as response:
        assert (await response.json())["count"] == 1

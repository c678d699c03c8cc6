"""The endpoints of captures, and who may use them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from dragoman.dialects import Dialect
from dragoman_server.app import make_app
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.schema import Config
from dragoman_server.observability.exchange_record import Principal
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.hooks import Hooks
from support.gateways import Gate, config_for, gate, served, until
from support.named_keys import made, with_keys
from support.samples import reply
from support.sockets import ScriptedServer, answer

ANSWER = answer(200, json.dumps(reply(Dialect.CHAT)).encode())
ASKS = {"x-dragoman-capture": "1"}
LIST = "/v1/dragoman/captures"


def config_of(url: str, folder: Path, **server: Any) -> Config:
    return replace(config_for(url, Dialect.CHAT, **server), capture=CaptureOptions(str(folder / "captures")))


async def get(entrance: Gate, path: str, **headers: str) -> tuple[int, Any]:
    async with entrance.session.get(entrance.url + path, headers=headers) as response:
        return response.status, await response.json()


async def post(entrance: Gate, **headers: str) -> str:
    """Send a request that asks for a capture. Returns its id."""
    async with entrance.post(Dialect.CHAT, headers={**ASKS, **headers}) as response:
        assert response.status == 200
        return str(response.headers["x-dragoman-request-id"])


async def ids(entrance: Gate, count: int, **headers: str) -> list[str]:
    """The ids in the list, which has as many."""
    found: list[str] = []
    async with asyncio.timeout(30):
        while len(found) != count:
            await asyncio.sleep(0.01)
            status, body = await get(entrance, LIST, **headers)
            assert status == 200
            found = [each["id"] for each in body["data"]]
    return found


async def test_a_program_of_this_machine_captures_without_keys(tmp_path: Path) -> None:
    async with ScriptedServer(ANSWER) as upstream, gate(config_of(upstream.url, tmp_path)) as entrance:
        capture_id = await post(entrance)
        assert await ids(entrance, 1) == [capture_id]
        status, found = await get(entrance, f"{LIST}/{capture_id}")
        assert (status, found["id"], found["reason"]) == (200, capture_id, "header")
        assert found["client"]["reply"]["status"] == 200
        assert (await get(entrance, f"{LIST}/req_none"))[0] == 404
        assert (await get(entrance, f"{LIST}?limit=1"))[0] == 200
        for wrong in ("0", "1001", "x", "-1", "9" * 50, "²"):
            assert (await get(entrance, f"{LIST}?limit={wrong}"))[0] == 400, wrong


async def test_a_web_page_of_another_site_reads_no_captures(tmp_path: Path) -> None:
    async with ScriptedServer(ANSWER) as upstream:
        config = config_of(upstream.url, tmp_path, cors_origins=("https://page.example",))
        async with gate(config) as entrance:
            own = {"origin": entrance.url}
            assert (await get(entrance, LIST, **own))[0] == 200
            for origin in ("https://page.example", "https://other.example", "null"):
                assert (await get(entrance, LIST, origin=origin))[0] == 403
            assert (await get(entrance, LIST, host="attacker.example"))[0] == 403
            await post(entrance, origin="https://page.example")
            assert await ids(entrance, 0) == []


async def test_only_admins_ask_for_captures_and_read_them(tmp_path: Path) -> None:
    admin, admins = made("root", admin=True)
    user, users = made("user")
    async with ScriptedServer(ANSWER) as upstream:
        config = with_keys(config_of(upstream.url, tmp_path, keys=("plain-server-key",)), admins, users)
        async with gate(config) as entrance:
            await post(entrance, **{"x-api-key": user})
            for key in (admin, "plain-server-key"):
                await post(entrance, **{"x-api-key": key})
            assert len(await ids(entrance, 2, **{"x-api-key": admin})) == 2
            for path in (LIST, f"{LIST}/req_1"):
                assert (await get(entrance, path, **{"x-api-key": user}))[0] == 403
                assert (await get(entrance, path))[0] == 401


async def test_a_key_can_be_captured_always(tmp_path: Path) -> None:
    admin, admins = made("root", admin=True)
    user, users = made("user")
    async with ScriptedServer(ANSWER) as upstream:
        config = with_keys(config_of(upstream.url, tmp_path), admins, replace(users, capture=True))
        async with gate(config) as entrance:
            await post(entrance, **{"x-api-key": user})
            (capture_id,) = await ids(entrance, 1, **{"x-api-key": admin})
            _, found = await get(entrance, f"{LIST}/{capture_id}", **{"x-api-key": admin})
            assert (found["key"], found["reason"]) == ("user", "key")


async def test_users_of_an_application_are_no_admins(tmp_path: Path) -> None:
    async def authorize(_: web.Request) -> Principal[Any]:
        return Principal("u1")

    async with ScriptedServer(ANSWER) as upstream:
        config = config_of(upstream.url, tmp_path)
        async with gate(config, hooks=Hooks(authorize=authorize)) as entrance:
            await post(entrance)
            assert (await get(entrance, LIST))[0] == 403
            assert entrance.gateway.services.instruments.captures is not None
            assert entrance.gateway.services.instruments.captures.store.list() == []


async def test_the_endpoints_report_that_captures_are_off() -> None:
    async with ScriptedServer(ANSWER) as upstream, gate(config_for(upstream.url, Dialect.CHAT)) as entrance:
        await post(entrance)
        status, body = await get(entrance, LIST)
        assert status == 404
        assert "capture.directory" in body["error"]["message"]


async def test_another_machine_reads_no_captures_without_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_server.proxy.web_origins.is_loopback", lambda _: False)
    async with ScriptedServer(ANSWER) as upstream:
        app = make_app(config_of(upstream.url, tmp_path), gateway=(own := Gateway(config_of(upstream.url, tmp_path))))
        async with served(app) as (url, _), ClientSession() as session:
            async with session.get(url + LIST) as response:
                assert response.status == 403
            body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
            async with session.post(f"{url}/v1/chat/completions", json=body, headers=ASKS) as response:
                assert response.status == 200
        assert own.services.instruments.captures is not None
        assert own.services.instruments.captures.store.list() == []


async def test_captures_of_one_worker_are_listed_by_another(tmp_path: Path) -> None:
    async with ScriptedServer(ANSWER) as upstream:
        config = config_of(upstream.url, tmp_path)
        async with gate(config) as one, gate(config) as other:
            capture_id = await post(one)
            assert one.gateway.services.instruments.captures is not None
            store = one.gateway.services.instruments.captures.store
            await until(lambda: store.get(capture_id) is not None, 60)
            assert await ids(other, 1) == [capture_id]

"""Requests of commands to a running gateway."""

from __future__ import annotations

import asyncio

import pytest

from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.running_gateway import KEY_VARIABLE, fetch
from support.samples import dump
from support.sockets import ScriptedServer, answer


async def test_the_key_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "k")
    async with ScriptedServer(answer(200, b"{}")) as server:
        for url in (server.url, f"{server.url}/", f"{server.url}/v1/"):
            assert await asyncio.to_thread(fetch, url, "receipts", {"limit": "3"}) == b"{}"
        assert {asked.target for asked in server.requests} == {"/v1/dragoman/receipts?limit=3"}
        assert {asked.headers["x-api-key"] for asked in server.requests} == {"k"}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, {"error": {"message": "no API key"}}, "no API key; the key is read from DRAGOMAN_KEY"),
        (404, {"error": {"message": "there is no\x1b[31m receipt"}}, r"there is no \[31m receipt"),
        (502, {"error": "no"}, "the gateway returned 502"),
        (502, [], "the gateway returned 502"),
    ],
)
async def test_an_error_response_is_an_error(status: int, body: object, expected: str) -> None:
    async with ScriptedServer(answer(status, dump(body))) as server:
        with pytest.raises(ConnectionError, match=expected):
            await asyncio.to_thread(fetch, server.url, "receipts", {})


async def test_where_no_gateway_listens() -> None:
    async with ScriptedServer([]) as server:
        url = server.url
    with pytest.raises(ConnectionError, match=f"{url} cannot be reached: nothing listens there; start a gateway with"):
        fetch(url, "receipts", {})
    with pytest.raises(ConnectionError, match=r"nowhere\.invalid cannot be reached: "):
        fetch("http://nowhere.invalid", "receipts", {})
    with pytest.raises(CommandError, match="expected http"):
        fetch("file:///etc/passwd", "receipts", {})

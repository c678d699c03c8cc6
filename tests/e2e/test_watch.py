"""`dragoman serve --watch`: a changed configuration or secret is used without a signal, a wrong one is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from support.commands import command
from support.gateways import CHAT
from support.samples import PATHS, dump, reply, request
from support.sockets import ScriptedServer, answer

pytestmark = pytest.mark.turns  # a row starts a process or more

CHANGED = "the configuration, or a file that it names, has changed"


def write(path: Path, url: str, key: str, more: str = "") -> str:
    path.write_text(
        f'[server]\nkeys = ["{key}"]\n{more}\n[models]\ndiscover = false\n'
        f'[providers.up]\ndialect = "chat"\nbase_url = "{url}/v1"\napi_key = "file:{path.parent}/upstream.key"\n'
        '[[routes]]\nmodel = "*"\nprovider = "up"\n'
    )
    return str(path)


async def status(session: aiohttp.ClientSession, url: str, key: str) -> int:
    """The status of a request, on a connection of its own."""
    headers = {"x-api-key": key, "connection": "close"}
    async with session.post(url + PATHS[CHAT], data=dump(request(CHAT, model="m")), headers=headers) as got:
        await got.read()
        return got.status


async def becomes(session: aiohttp.ClientSession, url: str, key: str, expected: int) -> None:
    """Ask until the status is as expected: for a moment after a reload, old workers may still accept a connection."""
    async with asyncio.timeout(60):
        while await status(session, url, key) != expected:
            pass


@pytest.mark.whole
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_changes_of_the_file_and_of_secrets_are_used(tmp_path: Path, workers: str) -> None:
    path, secret = tmp_path / "config.toml", tmp_path / "upstream.key"
    secret.write_text("canary-first\n")
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        command(*("serve", write(path, server.url, "old"), "--watch", "--port", "0", "--workers", workers)) as running,
        aiohttp.ClientSession() as session,
    ):
        url = (await running.writes(r"dragoman listens on (http://\S+)"))[1]
        await running.writes("provider ")
        assert await status(session, url, "old") == 200
        assert server.requests[-1].headers["authorization"] == "Bearer canary-first"

        write(path, server.url, "new")
        await running.writes(CHANGED)
        await running.writes("dragoman has reloaded")
        await becomes(session, url, "new", 200)
        await becomes(session, url, "old", 401)

        secret.write_text("canary-second\n")
        await running.writes(CHANGED)
        await running.writes("dragoman has reloaded")
        async with asyncio.timeout(60):
            while server.requests[-1].headers["authorization"] != "Bearer canary-second":
                assert await status(session, url, "new") == 200

        path.write_text("[server]\nport = 'eighty'\n")
        await running.writes(r"config\.toml: the new configuration is refused, the old one stays:")
        await running.writes("server.port: expected an integer")
        assert await status(session, url, "new") == 200

        write(path, server.url, "newest")
        await running.writes("dragoman has reloaded")
        await becomes(session, url, "newest", 200)

        secret.unlink()
        await running.writes("providers.up.api_key: the file cannot be read: No such file or directory")
        assert await status(session, url, "newest") == 200
        running.process.terminate()
        assert await running.ends() == 0
    assert "Traceback" not in running.stated
    assert "canary" not in running.stated


async def test_without_a_file_there_is_nothing_to_watch() -> None:
    async with command("serve", "--simulate", "--watch") as running:
        assert await running.ends() == 2
    assert "--watch: needs a configuration file" in running.stated


async def test_the_address_may_come_from_the_environment() -> None:
    async with command("serve", "--simulate", DRAGOMAN_HOST="localhost", DRAGOMAN_PORT="0") as running:
        url = (await running.writes(r"dragoman listens on (http://localhost:[1-9]\d+)"))[1]
        # It answers when it also handles signals.
        async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as got:
            assert got.status == 200
        running.process.terminate()
        assert await running.ends() == 0
    async with command("serve", "--simulate", DRAGOMAN_HOST="0.0.0.0") as running:
        assert await running.ends() == 2
    assert "others can reach 0.0.0.0" in running.stated

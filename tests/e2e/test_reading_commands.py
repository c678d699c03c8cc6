"""Commands that only read create nothing, and the keys that `keys add` prints work wherever it was run."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import aiohttp
import pytest

from dragoman_server.config.load import load_config
from support import commands
from support.commands import command
from support.gateways import CHAT
from support.samples import PATHS, dump, reply, request
from support.sockets import ScriptedServer, answer

pytestmark = pytest.mark.turns  # a row starts a process or more

FILE = """
[server]
port = 0
[models]
discover = false
[store]
kind = "sqlite"
[usage]
kind = "{usage}"
[state]
kind = "sqlite"
[capture]
directory = "captures"
[providers.up]
dialect = "chat"
base_url = "{upstream}/v1"
[[routes]]
model = "*"
provider = "up"
"""
READING = (
    ["check"],
    ["check", "--json"],
    ["keys", "list", "-c"],
    ["keys", "list", "--json", "-c"],
    ["keys", "revoke", "nobody", "-c"],
    ["keys", "change", "nobody", "--admin", "-c"],
    ["usage", "-c"],
    ["usage", "--json", "-c"],
    ["capture", "list", "-c"],
    ["capture", "show", "req_1", "-c"],
    ["replay", "req_1", "-c"],
)


async def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command in another directory than its configuration's."""
    return await commands.run(*words, cwd=folder / "elsewhere", HOME=str(folder / "home"))


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def written(folder: Path, upstream: str = "http://127.0.0.1:9", usage: str = "sqlite") -> str:
    for name in ("home", "elsewhere", "etc"):
        (folder / name).mkdir()
    path = folder / "etc/dragoman.toml"
    path.write_text(FILE.format(upstream=upstream, usage=usage))
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("usage", ["sqlite", "jsonl"])
async def test_commands_that_read_create_nothing(usage: str, tmp_path: Path) -> None:
    path = written(tmp_path, usage=usage)
    before = tree(tmp_path)
    for words in READING:
        _, _, err = await run(tmp_path, *words, path)
        assert "Traceback" not in err
        assert tree(tmp_path) == before, words
    assert await run(tmp_path, "keys", "list", "-c", path) == (
        *(0, ""),
        f"there are no named keys: {tmp_path}/etc/dragoman.db does not exist yet\n",
    )


@pytest.mark.slow
async def test_a_key_that_was_added_elsewhere_works(tmp_path: Path) -> None:
    """Added before the start and while the gateway serves; listed by its side, which leaves no files."""
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server, aiohttp.ClientSession() as session:
        path = written(tmp_path, server.url)
        status, first, err = await run(tmp_path, "keys", "add", "ada", "-c", path)
        assert status == 0
        assert f"{tmp_path}/etc/dragoman.db" in err
        assert os.listdir(tmp_path / "elsewhere") == []
        before = tree(tmp_path)
        status, listed, _ = await run(tmp_path, "keys", "list", "-c", path)
        assert status == 0
        assert listed.startswith("ada (")
        assert tree(tmp_path) == before
        async with command("serve", path, cwd=tmp_path / "elsewhere", HOME=str(tmp_path / "home")) as up:
            url = (await up.writes(r"dragoman listens on (http://\S+)"))[1]
            _, second, _ = await run(tmp_path, "keys", "add", "bob", "-c", path)
            _, listed, _ = await run(tmp_path, "keys", "list", "-c", path)
            assert [line.partition(" ")[0] for line in listed.splitlines()] == ["ada", "bob"]
            for key in (first, second):
                async with asyncio.timeout(60):
                    while True:  # the gateway reads the keys again within store.refresh seconds
                        headers = {"authorization": f"Bearer {key.strip()}"}
                        async with session.post(url + PATHS[CHAT], data=dump(request(CHAT)), headers=headers) as got:
                            if got.status == 200:
                                break
                        await asyncio.sleep(0.2)
            up.process.terminate()
            assert await up.ends() == 0
            for name in ("dragoman.db", "usage.db", "captures"):
                assert f"{tmp_path}/etc/{name}" in up.stated
        status, used, _ = await run(tmp_path, "usage", "-c", path)
        assert status == 0
        assert "ada" in used
        assert "bob" in used
        assert os.listdir(tmp_path / "elsewhere") == []
    assert load_config(path).store.path == f"{tmp_path}/etc/dragoman.db"

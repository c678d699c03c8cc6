"""`dragoman serve` with keys that `dragoman keys` adds and revokes, and on an address that others can reach."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from dragoman_server.cli.main import main
from support.commands import command

pytestmark = pytest.mark.turns  # a row starts a process or more

FILE = """
[store]
kind = "sqlite"
path = "{folder}/accounts.db"
{more}
[providers.up]
dialect = "chat"
base_url = "http://127.0.0.1:9/v1"
api_key = "${{NOT_SET_HERE}}"
[[routes]]
model = "*"
provider = "up"
"""


def written(folder: Path, more: str = "") -> str:
    path = folder / "dragoman.toml"
    path.write_text(FILE.format(folder=folder, more=more))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    status = main(["keys", *words])
    out, err = capsys.readouterr()
    return status, out, err


async def test_a_running_gateway_follows_the_keys_of_its_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await asyncio.to_thread(written, tmp_path, "refresh = 0.1")

    async def becomes(expected: int, headers: dict[str, str], endpoint: str = "/v1/models") -> None:
        status = 0
        async with asyncio.timeout(30):
            while status != expected:
                async with session.get(f"{url}{endpoint}", headers=headers) as response:
                    status = response.status
                await asyncio.sleep(0.02)

    async with (
        command("serve", "--host", "0.0.0.0", "--port", "0", path, NOT_SET_HERE="sk-upstream-1234") as process,
        aiohttp.ClientSession() as session,
    ):
        found = await process.writes(r"dragoman listens on http://0\.0\.0\.0:(\d+)")
        url = f"http://127.0.0.1:{found[1]}"
        await becomes(401, {})
        _, key, _ = await asyncio.to_thread(run, capsys, "add", "alice", "-c", path)
        await becomes(200, {"x-api-key": key.strip()})
        await becomes(403, {"x-api-key": key.strip()}, "/metrics")
        await asyncio.to_thread(run, capsys, "change", "alice", "-c", path, "--admin")
        await becomes(200, {"x-api-key": key.strip()}, "/metrics")
        await asyncio.to_thread(run, capsys, "revoke", "alice", "-c", path)
        await becomes(401, {"x-api-key": key.strip()})
    assert key.strip() not in process.stated


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
async def test_an_address_that_others_reach_needs_a_key(host: str) -> None:
    async with command("serve", "--simulate", "--host", host, "--port", "0") as process:
        assert await process.ends() == 2
    assert f"server.host: others can reach {host}, and no key is required" in process.stated
    assert "--insecure" in process.stated


async def test_insecure_serves_without_a_key() -> None:
    async with command("serve", "--simulate", "--host", "0.0.0.0", "--port", "0", "--insecure") as process:
        await process.writes("dragoman listens on")
    async with command("serve", "--simulate", "--host", "localhost", "--port", "0") as process:
        await process.writes("dragoman listens on")


async def test_a_store_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    path = await asyncio.to_thread(written, tmp_path)
    await asyncio.to_thread((tmp_path / "accounts.db").write_bytes, b"this is no database" * 100)
    async with command("serve", "--port", "0", path, NOT_SET_HERE="sk-upstream-1234") as process:
        assert await process.ends() != 0
    assert "accounts.db cannot be used: file is not a database" in process.stated
    assert "Traceback" not in process.stated

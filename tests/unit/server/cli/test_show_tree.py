"""`dragoman tree`."""

from __future__ import annotations

import asyncio
import json

import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli.main import main
from support.named_keys import made
from support.stateful import MEMORY, stateful

CHAT = Dialect.CHAT


async def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    key, alice = made("alice")

    async def run(*words: str) -> tuple[int, str, str]:
        status = await asyncio.to_thread(main, ["tree", *words])
        return status, *capsys.readouterr()

    async with stateful(CHAT, MEMORY, keys=[alice]) as state:
        first = await state.client(key).responses.create(model="sim-text", input="One?")
        status, _, err = await run(first.id, "--url", state.gate.url)
        assert (status, "API key" in err) == (1, True)
        monkeypatch.setenv("DRAGOMAN_KEY", key)
        status, out, _ = await run(first.id, "--url", f"{state.gate.url}/v1/")
        assert (status, out.splitlines()[0]) == (0, "flowchart TD")
        status, out, _ = await run(first.id, "--url", state.gate.url, "--json")
        assert (status, json.loads(out)["id"]) == (0, first.id)
        status, out, err = await run("resp_0", "--url", state.gate.url)
        assert (status, out, err) == (1, "", "dragoman: Response with id 'resp_0' not found.\n")
        assert (await run(first.id, "--url", state.gate.url, "--key", "alice"))[0] == 1
        assert (await run(first.id, "--url", "file:///etc/passwd"))[0] == 2
        url = state.gate.url
    status, _, err = await run("resp_0", "--url", url)
    assert (status, "cannot be reached" in err) == (1, True)

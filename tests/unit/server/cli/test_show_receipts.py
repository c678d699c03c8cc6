"""`dragoman receipts`."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from dragoman_server.cli.main import main
from support.gateways import CHAT, MESSAGES, config_for, gate, served
from support.model_server import model_server
from support.named_keys import made, with_keys


async def test_the_last_receipts_of_a_key(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    key, alice = made("alice")
    other, bob = made("bob")

    async def run(*words: str) -> tuple[int, str, str]:
        status = await asyncio.to_thread(main, ["receipts", *words, "--url", entrance.url])
        return status, *capsys.readouterr()

    async with (
        served(model_server("m")) as (upstream, _),
        gate(with_keys(config_for(upstream, CHAT), alice, bob)) as entrance,
    ):
        assert await run() == (
            1,
            "",
            "dragoman: no API key: send it as x-api-key or as Authorization: Bearer"
            "; the key is read from DRAGOMAN_KEY\n",
        )
        monkeypatch.setenv("DRAGOMAN_KEY", key)
        assert await run() == (0, "", "there are no receipts\n")
        for model, owner in (("m", key), ("absent", key), ("m", other)):
            async with entrance.post(MESSAGES, model=model, top_k=3, headers={"x-api-key": owner}) as response:
                await response.read()
        status, out, _ = await run()
        refused, completed = out.splitlines()
        assert re.search(r"req_\w+  messages→chat  absent  404 refused \(losses 1, model_not_found\)$", refused)
        assert re.search(r"req_\w+  messages→chat  m  200 completed \(tokens \d+\+\d+, losses 1\)$", completed)
        assert (status, (await run("--last", "1"))[1]) == (0, f"{refused}\n")
        rows = json.loads((await run("--json"))[1])["data"]
        assert [row["model"] for row in rows] == ["absent", "m"]
        status, out, _ = await run(rows[1]["request_id"])
        assert (status, "\nstatus: 200\n" in out, "losses: code top_k, path top_k" in out) == (0, True, True)
        assert json.loads((await run(rows[1]["request_id"], "--json"))[1])["losses_total"] == 1
        monkeypatch.setenv("DRAGOMAN_KEY", other)
        assert len((await run())[1].splitlines()) == 1
        assert (await run(rows[0]["request_id"]))[0] == 1, "of another key"
        status, _, err = await run("--last", "101")
        assert (status, err) == (2, "dragoman receipts: --last: expected a number from 1 to 100; got 101\n")

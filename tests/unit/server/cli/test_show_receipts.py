"""`dragoman receipts`."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from dragoman.wire import json_dumps
from dragoman_server.cli import show_receipts
from dragoman_server.cli.main import main
from dragoman_server.cli.text_table import text_width
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
        gate(with_keys(config_for(upstream, CHAT, name="gw-1"), alice, bob)) as entrance,
    ):
        assert await run() == (
            1,
            "",
            "dragoman: no API key: send it as x-api-key or as Authorization: Bearer"
            "; set DRAGOMAN_KEY to a key of the gateway\n",
        )
        monkeypatch.setenv("DRAGOMAN_KEY", key)
        assert await run() == (0, "", "there are no receipts\n")
        for model, owner in (("m", key), ("absent", key), ("m", other)):
            async with entrance.post(MESSAGES, model=model, top_k=3, headers={"x-api-key": owner}) as response:
                await response.read()
        status, out, _ = await run()
        first, refused, second, completed = out.splitlines()
        assert re.search(r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d  req_\w+  404 refused$", first)
        assert refused == "  messages→chat  absent  (model_not_found, losses 1, host gw-1)"
        assert second.endswith("  200 completed")
        assert re.search(r"^  messages→chat  m  \(tokens \d+\+\d+, losses 1, host gw-1\)$", completed)
        assert (status, (await run("--last", "1"))[1]) == (0, f"{first}\n{refused}\n")
        rows = json.loads((await run("--json"))[1])["data"]
        assert [row["model"] for row in rows] == ["absent", "m"]
        status, out, _ = await run(rows[1]["request_id"])
        assert (status, "\nstatus: 200\n" in out, "losses: code top_k, path top_k" in out) == (0, True, True)
        assert json.loads((await run(rows[1]["request_id"], "--json"))[1])["losses_total"] == 1
        monkeypatch.setenv("DRAGOMAN_KEY", other)
        assert len((await run())[1].splitlines()) == 2
        assert (await run(rows[0]["request_id"]))[0] == 1, "of another key"
        status, _, err = await run("--last", "101")
        assert (status, err) == (2, "dragoman receipts: --last: expected a number from 1 to 100; got 101\n")


def test_long_names_fit_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    long = "日本-" + "n" * 300
    loss = {"code": "top_k", "path": long, "done": "dropped", "meaning": long}
    row = {
        **{"created": 1_795_255_200, "request_id": "req_" + "0" * 32, "host": "h" * 63, "client": "messages"},
        **{"upstream": "responses", "endpoint": None, "model": long, "upstream_model": long + "x", "status": 404},
        **{"ended": "completed", "error": {"kind": "x", "code": "c" * 90}, "losses_total": 1},
        "usage": {"input_total": 10**9, "output_total": 10**9},
    }
    monkeypatch.setattr(show_receipts, "fetch", lambda *_: json_dumps({"data": [row], **row, "losses": [loss]}))
    assert main(["receipts"]) == main(["receipts", "req_1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(text_width, lines)) <= 80
    assert "n" * 300 in "".join(line.strip() for line in lines), "one receipt is printed whole"

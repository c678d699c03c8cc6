"""`dragoman status`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.cli.main import main
from dragoman_server.cli.show_status import status_lines
from dragoman_server.cli.text_table import text_width
from support.gateways import CHAT, config_for, gate
from support.named_keys import made, with_keys


def host(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "host": name,
        "state": "up",
        "seen": 0.5,
        "version": "1.0.0",
        "revision": "abc",
        "configuration": "433e9ebe8272",
        "differs": [],
        "started": 100,
        "workers": 2,
        "lost_workers": 0,
        "open_requests": 13,
        "open_streams": 4,
        "requests": 1204,
        "errors": 0,
        "tokens": 9,
        "reasons": [],
        "warnings": [],
        "stores": {"limits": {"kind": "redis", "state": "ok"}},
        **changes,
    }


def status(*hosts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    providers = [{"name": "up", "state": "working", "requests": 1204, "errors": 2, "queued": 0.0}]
    return {"problem": None, "console": True, "hosts": list(hosts), "providers": providers, **changes}


def test_a_status() -> None:
    broken = {"limits": {"kind": "redis", "state": "unavailable"}}
    shown = status(
        host("gw-1"),
        host("gw-2", differs=["configuration"], configuration="0123456789ab", warnings=["store_lost"]),
        host("gw-3", state="lost", seen=34.4, lost_workers=2, stores=broken),
    )
    assert status_lines(shown, 80) == [
        "host    state  version  configuration  workers  open  streams  requests",
        "gw-1    up     1.0.0    433e9ebe8272         2    13        4      1.2k",
        "gw-2 *  up     1.0.0    0123456789ab         2    13        4      1.2k",
        "gw-3 *  lost   1.0.0    433e9ebe8272         2    13        4      1.2k",
        "* gw-2 differs from the other hosts: configuration 0123456789ab",
        "* gw-2 reports store_lost",
        "* gw-3 is lost: it was seen 34 s ago",
        "",
        "provider  state    requests  errors  queued",
        "up        working      1.2k       2       0",
        "",
        "stores: limits redis unavailable",
    ]


def test_long_names_fit() -> None:
    long = "n" * 63
    shown = status(
        host(long, version="1.0.0.dev1+" + long, differs=["version", "configuration"], requests=10**12),
        host(long, state="leaving", lost_workers=3, reasons=["draining"], warnings=[f"warning_{n}" for n in range(9)]),
        problem="the other hosts are not known: " + "x" * 200,
    )
    shown["providers"][0]["name"] = "日本語" * 40
    lines = status_lines(shown, 80)
    assert max(map(text_width, lines)) <= 80
    assert any(line.startswith("* the other hosts are not known") for line in lines)


def test_control_characters_are_not_printed() -> None:
    shown = status(host("gw-1", version="\x1b[2J"))
    shown["providers"][0]["name"] = "up\x1b[2J"
    assert "\x1b" not in "".join(status_lines(shown, 80))


async def test_the_status_of_a_running_gateway(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, root = made("root", admin=True)
    other, alice = made("alice")

    async def run(*words: str) -> tuple[int, str, str]:
        status = await asyncio.to_thread(main, ["status", *words, "--url", up.url])
        return status, *capsys.readouterr()

    async with gate(with_keys(config_for("http://127.0.0.1:9/v1", CHAT, name="gw-1"), root, alice)) as up:
        code, out, err = await run()
        assert (code, out) == (1, "")
        assert "DRAGOMAN_KEY" in err
        monkeypatch.setenv("DRAGOMAN_KEY", other)
        assert "admin = true" in (await run())[2]
        monkeypatch.setenv("DRAGOMAN_KEY", key)
        code, out, err = await run()
        assert (code, err) == (0, "")
        assert out.splitlines()[1].startswith("gw-1  up ")
        found = json.loads((await run("--json"))[1])
        assert [each["host"] for each in found["hosts"]] == ["gw-1"]
        assert key not in out


async def test_the_gateway_of_the_directory_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DRAGOMAN_KEY", "DRAGOMAN_HOST", "DRAGOMAN_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    config = config_for("http://127.0.0.1:9/v1", CHAT, name="gw-1", keys=("secret-of-the-gateway",))
    async with gate(config) as up:
        port = up.url.rpartition(":")[2]
        (tmp_path / "dragoman.toml").write_text(f'[server]\nport = {port}\nkeys = ["secret-of-the-gateway"]\n')
        for command in (["status"], ["receipts"], ["top", "--once"]):
            assert await asyncio.to_thread(main, command) == 0
            out, err = capsys.readouterr()
            assert "secret" not in out + err
            assert ("gw-1" in out) == (command != ["receipts"])

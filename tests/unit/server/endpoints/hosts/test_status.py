"""`GET /v1/dragoman/status`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.threads import StoreError
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.proxy.hosts.shared_hosts import SharedHosts
from support.gateways import CHAT, Gate, config_for, gate
from support.named_keys import made, with_keys
from support.waiting import until_true


async def status(up: Gate, **headers: str) -> tuple[int, Any]:
    async with up.session.get(f"{up.url}/v1/dragoman/status", headers=headers) as response:
        return response.status, await response.json()


async def test_a_gateway_without_a_store_is_one_host() -> None:
    async with gate(config_for("http://127.0.0.1:9/v1", CHAT, name="gw-1")) as up:
        found = (await status(up))[1]
        assert (found["object"], found["host"], found["problem"]) == ("dragoman.status", "gw-1", None)
        (row,) = found["hosts"]
        assert (row["host"], row["state"], row["workers"], row["differs"]) == ("gw-1", "up", 1, [])
        assert [each["name"] for each in found["providers"]] == ["up"]


async def test_only_admins_read_it() -> None:
    key, alice = made("alice")
    admin, root = made("root", admin=True)
    async with gate(with_keys(config_for("http://127.0.0.1:9/v1", CHAT), alice, root)) as up:
        assert (await status(up))[0] == 401
        assert (await status(up, **{"x-api-key": key}))[0] == 403
        assert (await status(up, **{"x-api-key": admin}))[0] == 200


async def test_hosts_of_one_store_that_differ(tmp_path: Path) -> None:
    options = StoreOptions("sqlite", path=str(tmp_path / "x.db"), keys=False, timeout=10.0)
    config = replace(config_for("http://127.0.0.1:9/v1", CHAT, name="gw-1"), store=options)
    other = replace(config, server=replace(config.server, name="gw-2"), models=replace(config.models, small="m"))
    async with gate(config) as up, gate(other):

        async def both() -> bool:
            rows = (await status(up))[1]["hosts"]
            return [(row["host"], row["differs"]) for row in rows] == [
                ("gw-1", ["configuration"]),
                ("gw-2", ["configuration"]),
            ]

        await until_true(both)


async def test_a_store_that_fails_leaves_the_own_host(tmp_path: Path, monkeypatch: Any) -> None:
    async def fail(_: SharedHosts) -> Any:
        raise StoreError("it is away")

    monkeypatch.setattr(SharedHosts, "processes", fail)
    options = StoreOptions("sqlite", path=str(tmp_path / "x.db"), keys=False, timeout=10.0)
    async with gate(replace(config_for("http://127.0.0.1:9/v1", CHAT), store=options)) as up:
        code, found = await status(up)
        assert (code, len(found["hosts"])) == (200, 1)
        assert found["problem"] == "the other hosts are not known: it is away"

"""A Redis that cannot be used: one line in the log names the setting and the cure, and the gateway goes on serving."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.config.state_options import StateOptions
from support.gateways import config_for, gate
from support.named_keys import made
from support.redis_nodes import command, redis_cluster
from support.redis_server import redis_server
from support.samples import dump, reply
from support.sockets import ScriptedServer, answer
from support.waiting import until_true

CHAT = Dialect.CHAT
PASSWORD = "right-7q3z"
KEPT = ("keys", "routing", "responses", "runs")
"""The parts of Redis that have versions of their own."""
CURES = {
    "replica": "it is a replica, which cannot be written: name the primary in {url}, or use redis+sentinel://",
    "wrong password": "check the user and the password in {url}",
    "cluster without slots": "serve",
    "later schema": "Redis has data of schema version 7, of a later Dragoman: run that, or change {prefix}",
}


@contextmanager
def bad(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a Redis that cannot be used."""
    if kind == "cluster without slots":
        with redis_cluster(folder, slots=False) as nodes:
            yield f"redis+cluster://127.0.0.1:{nodes[0].port}"
        return
    with redis_server(options=("--requirepass", PASSWORD) if kind == "wrong password" else ()) as server:
        if kind == "replica":
            command(server, "REPLICAOF", "127.0.0.1", "9")
        elif kind == "later schema":
            for name in KEPT:
                command(server, "SET", f"{{dragoman:{name}}}:schema", "7")
        yield server.url.replace("//", "//:wrong-7q3z@") if kind == "wrong password" else server.url


@pytest.mark.parametrize("kind", CURES)
async def test_it_is_named_and_the_gateway_serves_without_it(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key, record = made("alice", requests_per_minute=1000)
    headers = {"authorization": f"Bearer {key}"}
    with bad(kind, tmp_path) as url:
        async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
            config = config_for(server.url, CHAT)
            providers = {name: replace(each, concurrent=2) for name, each in config.providers.items()}
            config = replace(
                config,
                providers=providers,
                keys={record.name: record},
                store=StoreOptions("redis", url=url, timeout=5.0, keys=False),
                state=StateOptions("redis", url=url, timeout=5.0),
            )
            async with gate(config) as entrance:

                async def reported() -> bool:
                    async with entrance.session.get(f"{entrance.url}/ready") as response:
                        assert response.status == 200, "the others would fail, too"
                        found = (await response.json())["warnings"]
                        return bool({"store_unavailable", "bounds_not_shared", "state_unavailable"} <= {*found})

                for _ in range(3):
                    for dialect in CLIENT_DIALECTS:
                        async with entrance.post(dialect, headers=headers) as response:
                            assert response.status == 200, await response.text()
                            body = await response.json()
                            if dialect is Dialect.RESPONSES:
                                assert body["store"] is False
                await until_true(reported)
        lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
        assert lines
        for line in lines:
            assert "\n" not in line
            assert "7q3z" not in line
            assert any(
                CURES[kind].format(url=f"{table}.url", prefix=f"{table}.prefix") in line for table in ("store", "state")
            ), line
        for store in ("the store of limits", "bounds of providers", "the store of responses"):
            assert sum(store in line for line in lines) == 1

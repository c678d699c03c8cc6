"""The shared runs of a configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.threads import StoreError
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.state_options import StateOptions
from dragoman_server.proxy.runs.create import open_runs
from dragoman_server.proxy.runs.interface import RunId
from support.stateful import state_options


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_two_processes_share_them(kind: str, tmp_path: Path) -> None:
    with state_options(kind, tmp_path) as options:
        one, two = await open_runs(options), await open_runs(options)
        assert one.host != two.host
        assert await one.begin(RunId("", "resp_1"), {"kind": "x"}, lambda _: None) is not None
        found = await two.get(RunId("", "resp_1"))
        assert found is not None
        assert found.head == b'{"kind":"x"}'
        await one.close()
        await two.close()


async def test_those_of_postgresql_are_in_redis(tmp_path: Path) -> None:
    with state_options("redis", tmp_path) as redis:
        options = replace(redis, kind="postgresql", url="postgresql://127.0.0.1:1/d", runs_url=redis.url)
        runs = await open_runs(options)
        assert await runs.begin(RunId("", "resp_1"), {"kind": "x"}, lambda _: None) is not None
        await runs.close()
    runs = await open_runs(replace(options, runs_url="redis://127.0.0.1:1/0"))
    with pytest.raises(StoreError, match=r"the address in state\.runs_url"):
        await runs.get(RunId("", "resp_1"))
    await runs.close()


async def test_a_file_that_cannot_be_opened_is_a_problem_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        await open_runs(StateOptions(kind="sqlite", path=str(tmp_path / "none" / "responses.db")))

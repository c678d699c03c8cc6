"""The shared runs of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman_server.config.state_options import StateOptions
from dragoman_server.config.toml_reader import ConfigError
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


async def test_a_file_that_cannot_be_opened_is_a_problem_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        await open_runs(StateOptions(kind="sqlite", path=str(tmp_path / "none" / "responses.db")))

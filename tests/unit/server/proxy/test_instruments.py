"""The counters, monitors and exporters of a gateway."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.dialects import Dialect
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.price import Price
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.telemetry import Telemetry
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.instruments import Instruments
from support.gateways import config_for

CONFIG = config_for("http://127.0.0.1:9/v1", Dialect.CHAT)


def add_pools(totals: Totals) -> None:
    """Add no pools."""


async def test_a_new_configuration_names_what_needs_a_restart(tmp_path: Path) -> None:
    instruments = Instruments(CONFIG, add_pools, time.time)
    assert instruments.configure(replace(CONFIG, prices={"m": Price(output=1.0)})) == []
    assert instruments.usage.prices
    changed = replace(CONFIG, usage=UsageOptions("jsonl", str(tmp_path / "u")), telemetry=Telemetry(traces=True))
    assert instruments.configure(changed) == ["usage", "telemetry"]


async def test_traces_are_made_only_if_they_are_configured() -> None:
    assert Instruments(CONFIG, add_pools, time.time).tracer is None
    instruments = Instruments(replace(CONFIG, telemetry=Telemetry(traces=True)), add_pools, time.time)
    assert instruments.tracer is not None
    instruments.open()
    await instruments.close()


async def test_a_file_that_cannot_be_used_is_a_problem(tmp_path: Path) -> None:
    config = replace(CONFIG, usage=UsageOptions("jsonl", str(tmp_path / "missing" / "u")))
    with pytest.raises(ConfigError, match=r"usage\.path"):
        Instruments(config, add_pools, time.time).open()

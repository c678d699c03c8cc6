"""The shared hosts of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.config.config_error import ConfigError
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.hosts.create import create_hosts
from support.redis_server import redis_server


async def test_a_file_beside_that_of_the_store(tmp_path: Path) -> None:
    options = StoreOptions("sqlite", path=str(tmp_path / "dragoman.db"), timeout=10.0)
    one, two = (create_hosts(options, "a", "gw", Totals()) for _ in range(2))
    assert one.process != two.process
    await one.open()
    await two.open()
    assert (tmp_path / "dragoman.db-hosts").is_file()
    assert await one.receipts("alice", 9) == []
    await one.close()
    await two.close()


async def test_redis() -> None:
    with redis_server() as server:
        hosts = create_hosts(StoreOptions("redis", url=server.url, timeout=10.0), "a", "gw", Totals())
        await hosts.open()
        assert await hosts.receipt("req_1") is None
        await hosts.close()


@pytest.mark.parametrize(
    ("seconds", "wanted", "shares"), [(600.0, True, True), (0.0, True, False), (600.0, False, False)]
)
def test_receipts_can_be_switched_off(tmp_path: Path, seconds: float, wanted: bool, shares: bool) -> None:
    options = StoreOptions("sqlite", path=str(tmp_path / "x.db"), receipts=seconds)
    hosts = create_hosts(options, "a", "gw", Totals(), shares_receipts=wanted)
    assert hosts._shares_receipts == shares


async def test_a_file_that_cannot_be_opened_is_a_problem_of_the_configuration(tmp_path: Path) -> None:
    hosts = create_hosts(StoreOptions("sqlite", path=str(tmp_path / "none" / "x.db")), "a", "gw", Totals())
    with pytest.raises(ConfigError, match="does not exist"):
        await hosts.open()

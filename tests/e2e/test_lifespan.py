"""A gateway is closed however its application ends, also if it has not quite begun."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from dragoman_server.app import make_app
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.state_options import SQLITE, StateOptions
from dragoman_server.proxy.gateway import Gateway
from support.gateways import CHAT, config_for
from support.stateful import with_state


def gateway(path: Path) -> tuple[Gateway, list[str]]:
    """A gateway, and what was closed of it."""
    made = Gateway(with_state(config_for("http://127.0.0.1:9", CHAT), StateOptions(kind=SQLITE, path=str(path))))
    closed: list[str] = []
    for name, part in (("stored", made.services.responses), ("upstream", made.services.upstream)):

        async def close(name: str = name, inner: object = part.close) -> None:
            await inner()  # type: ignore[operator]
            closed.append(name)

        part.close = close  # type: ignore[method-assign]
    return made, closed


def test_a_loop_that_ends_without_a_cleanup_closes_the_gateway(tmp_path: Path) -> None:
    made, closed = gateway(tmp_path / "responses.db")
    runner = web.AppRunner(make_app(made.config, gateway=made))
    asyncio.run(runner.setup())
    assert closed == ["stored", "upstream"]


async def test_a_gateway_whose_store_cannot_be_opened_is_closed(tmp_path: Path) -> None:
    made, closed = gateway(tmp_path)  # a directory
    runner = web.AppRunner(make_app(made.config, gateway=made))
    with pytest.raises(ConfigError, match="state"):
        await runner.setup()
    assert closed == ["stored", "upstream"]


async def test_a_cleanup_closes_it_once(tmp_path: Path) -> None:
    made, closed = gateway(tmp_path / "responses.db")
    runner = web.AppRunner(make_app(made.config, gateway=made))
    await runner.setup()
    await runner.cleanup()
    assert closed == ["stored", "upstream"]

"""Stored responses and compaction are made when they are needed, and closed if they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.state_options import StateOptions
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.response_state import ResponseState


def state(options: StateOptions, workers: int = 1, created: Any = None) -> ResponseState:
    return ResponseState(options, workers, Totals(), lambda: 0.0, Mock(), created or Mock())


async def test_the_store_in_memory_is_made_at_its_first_use() -> None:
    created = Mock()
    responses = state(StateOptions(kind="memory"), created=created)
    await responses.open()
    created.assert_not_called()
    assert responses.stored is not None
    assert responses.stored is responses.stored
    created.assert_called_once_with(responses.stored)
    assert not responses.unavailable
    await responses.close()


@pytest.mark.parametrize(("kind", "workers"), [("off", 1), ("memory", 2)])
async def test_a_gateway_that_stores_nothing(kind: str, workers: int) -> None:
    responses = state(StateOptions(kind=kind), workers)
    await responses.open()
    assert (responses.stores, responses.stored, responses.unavailable) == (kind != "off" and workers == 1, None, False)
    await responses.close()


async def test_a_store_in_a_file_is_opened_before_the_first_request(tmp_path: Path) -> None:
    created = Mock()
    responses = state(StateOptions(kind="sqlite", path=str(tmp_path / "responses.db")), created=created)
    await responses.open()
    created.assert_called_once()
    assert (tmp_path / "responses.db").exists()
    assert responses.compactions is responses.compactions
    await responses.close()


async def test_a_store_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="state"):
        await state(StateOptions(kind="sqlite", path=str(tmp_path))).open()

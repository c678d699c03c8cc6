"""Runs in the background belong to their key at every gateway that shares the store, not only where they began."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.state_options import StateOptions
from support.named_keys import made
from support.stateful import stateful


async def test_another_key_reads_follows_and_ends_no_run_at_another_gateway(tmp_path: Path) -> None:
    mine, first = made("first")
    others, second = made("second")
    options = StateOptions(kind="sqlite", path=str(tmp_path / "responses.db"))
    async with (
        stateful(Dialect.CHAT, options, keys=(first, second)) as here,
        stateful(Dialect.CHAT, options, keys=(first, second)) as there,
    ):
        me, other = there.client(mine).responses, there.client(others).responses
        run = await here.client(mine).responses.create(model="sim-stall", input="Hi", background=True)
        assert (await me.retrieve(run.id)).status in ("queued", "in_progress")
        for call in (
            other.retrieve(run.id),
            other.retrieve(run.id, stream=True, starting_after=0),
            other.cancel(run.id),
            other.delete(run.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await call
        assert (await me.retrieve(run.id)).status in ("queued", "in_progress")
        assert (await me.cancel(run.id)).status == "cancelled"

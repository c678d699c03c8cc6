"""Attack: short requests that compact a long stored conversation, whose items are all read for it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.threads import compaction
from dragoman_server.config.compaction_options import CompactionOptions
from support.stateful import MEMORY, stateful

LONG = "A line of a file that the agent has read. " * 40_000


@pytest.mark.parametrize("form", ["compact", "managed", "gate"])
async def test_a_long_history_is_compacted_in_a_thread(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def recorded(function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            threads.append(threading.get_ident())
            return function(*args, **options)

        return call

    for name in ("checked_items", "plan", "evict", "input_tokens"):
        monkeypatch.setattr(f"dragoman.threads.{name}", recorded(getattr(compaction, name)))
    share = 0.8 if form == "gate" else 0.0
    options = CompactionOptions(share=share, context_windows=(("sim-t*", 5_000),))
    async with stateful(Dialect.CHAT, replace(MEMORY, compaction=options)) as state:
        call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "c", "output": LONG}
        first = await state.sdk.responses.create(model="sim-text", input=[call, output])
        threads.clear()
        fields: dict[str, Any] = {"model": "sim-text", "previous_response_id": first.id, "input": "?"}
        if form == "managed":
            fields["context_management"] = [{"type": "compaction", "compact_threshold": 1000}]
        if form == "compact":
            await state.sdk.responses.compact(model="sim-text", previous_response_id=first.id)
        else:
            await state.sdk.responses.create(**fields)
        print(f"{form}: {len(threads)} calls for {len(LONG)} bytes, none in the loop")
        assert threads
        assert threading.get_ident() not in threads

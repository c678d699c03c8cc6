"""The streams that the engine is timed with: independent judges take them for the vendors' own. And the timing runs."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman_bench.vendor_streams import KINDS, STREAMS, texts_of
from oracles.grammar import chat, messages, responses

JUDGES: dict[str, Any] = {"chat": chat, "messages": messages, "responses": responses}
SCRIPT = Path(__file__).parents[2] / "bench" / "micro" / "streams.py"


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_what_its_vendor_sends(dialect: str, kind: str) -> None:
    output = texts_of(kind, 40)
    stream = STREAMS[dialect](kind, output)
    received = JUDGES[dialect].check(b"".join(stream.batches(7)), include_usage=True)
    whole = received.calls[0].arguments if kind == "tool" else received.text if kind == "text" else received.reasoning
    assert whole == "".join(output)
    assert len(stream.frames) == 40
    assert stream.batches(16)[1:-1] == [b"".join(stream.frames[at : at + 16]) for at in (0, 16, 32)]


def test_the_timing_runs_and_checks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["streams.py", "--events", "20", "--rounds", "1"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert sum(" ← " in line for line in lines) == 9 * len(KINDS)
    assert sum(line.startswith(("parse", "read", "write")) for line in lines) == 9 * len(KINDS)

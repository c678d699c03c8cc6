"""The output of a program is judged: its tool must have run, and nothing may be missing of what it should show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from real_clients.contract import Finished, Outcome, Session
from real_clients.scripted import SCRIPTS, Program

REASONING = "The user needs a look-up – naïvely, one call. 🤔"
SEEN: dict[str, dict[str, Any]] = {
    "streamed": {
        "words": ["a1"],
        "arguments": ["Oslo"],
        "text": "The tool says: the word is a1.",
        "reasoning": REASONING,
        "input": 9,
        "output": 3,
    },
    "parallel": {
        "words": ["b1", "b2"],
        "arguments": ["Oslo", "Oslo"],
        "text": "b1 and b2",
        "reasoning": "",
        "input": 9,
        "output": 3,
    },
    "limited": {"raised": "RateLimitError", "message": "429: Rate limit reached"},
}
PROGRAM = Program("openai_sdk.py", "chat", ("streamed", "parallel"), {"limited": "RateLimitError"})


@dataclass
class Played(Session):
    """A session whose program printed this."""

    steps: Mapping[str, Any] = field(default_factory=dict)
    returncode: int | None = 0
    argv: list[str] = field(default_factory=list)

    def run(
        self, argv: Sequence[str | Path], env: Mapping[str, str] | None = None, timeout: float = 60, stdin: str = ""
    ) -> Finished:
        self.argv = [str(word) for word in argv]
        lines = ["a warning", *(json.dumps({"step": step, **seen}) for step, seen in self.steps.items())]
        return Finished(self.returncode, "\n".join(lines), "Traceback: of no interest")


def played(folder: Path, steps: Mapping[str, Any], returncode: int | None = 0) -> Played:
    return Played("http://gateway", "m", folder / "prefix", folder, folder, steps, returncode)


def judged(folder: Path, step: str, **changed: Any) -> Outcome:
    return PROGRAM(played(folder, SEEN | {step: SEEN[step] | changed}))


def test_a_session_that_saw_everything_is_ok(tmp_path: Path) -> None:
    session = played(tmp_path, SEEN)
    assert PROGRAM(session) == Outcome(True, True, "The tool says: the word is a1.", "")
    assert session.argv[-2:] == ["http://gateway", "chat"]
    assert session.argv[-3] == str(SCRIPTS / "openai_sdk.py")


@pytest.mark.parametrize(
    ("step", "changed", "why"),
    [
        ("streamed", {"text": "The tool says nothing."}, "streamed: ['a1'] is not in the answer"),
        ("streamed", {"words": [], "text": ""}, "streamed: the tool did not run"),
        ("streamed", {"arguments": [None]}, "streamed: the tool was called with [None]"),
        ("streamed", {"reasoning": "The user"}, "streamed: the thinking shown is 'The user'"),
        ("streamed", {"input": 0}, "streamed: no input tokens reported"),
        ("streamed", {"output": None}, "streamed: no output tokens reported"),
        ("streamed", {"raised": "APIError", "message": "no"}, "streamed: APIError: no"),
        ("parallel", {"words": ["b1"], "arguments": ["Oslo"]}, "parallel: one call instead of two"),
        ("limited", {"raised": ""}, "limited: RateLimitError expected, but no error came"),
        ("limited", {"raised": "APIError"}, "limited: RateLimitError expected, but APIError came"),
        ("limited", {"message": "429"}, "limited: '429' does not say what happened"),
    ],
)
def test_what_is_missing_is_reported(tmp_path: Path, step: str, changed: dict[str, Any], why: str) -> None:
    outcome = judged(tmp_path, step, **changed)
    assert not outcome.ok
    assert why in outcome.note


def test_a_step_that_never_came_is_reported(tmp_path: Path) -> None:
    outcome = PROGRAM(played(tmp_path, {}, returncode=1))
    assert not outcome.ok
    assert not outcome.tool_ran
    assert "streamed: nothing was printed" in outcome.note
    assert "exit status 1: Traceback" in outcome.note


def test_a_program_that_was_killed_is_reported(tmp_path: Path) -> None:
    assert "exit status None" in PROGRAM(played(tmp_path, SEEN, returncode=None)).note


def test_a_node_program_lies_beside_its_packages(tmp_path: Path) -> None:
    session = played(tmp_path, SEEN)
    outcome = Program("ai_sdk.mjs", "chat", ("streamed", "parallel"))(session)
    assert outcome.ok
    assert session.argv == ["node", str(tmp_path / "ai_sdk.mjs"), "http://gateway", "chat"]
    assert (tmp_path / "node_modules").readlink() == tmp_path / "prefix" / "node_modules"
    assert (tmp_path / "report.mjs").is_file()

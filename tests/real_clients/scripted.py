"""A session that a program next to `scripts/` plays: it prints what it saw, step by step, and that is judged here.

The program gets the gateway's URL and a variant, and prints one JSON object a line. A *loop* is a conversation whose
tool really ran: `words` is what the tool made up at run time, and the model's last answer must quote all of them. A
*failure* is a request that must end in the client's own exception.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from real_clients.contract import Outcome, Session

SCRIPTS = Path(__file__).parent / "scripts"
IN_TURN = ("streamed", "parallel", "whole")
LOOPS = (*IN_TURN, "interleaved")
"""One call after reasoning, two calls in one reply, the reply in one piece, and two calls side by side: this last not
every client can read, as no vendor streams so."""
_CALLS_TWICE = ("parallel", "interleaved")
"""The beginnings of names of loops that have two calls in one reply, and no thinking."""
_PATIENCE = 120
"""Seconds for one program."""
_SHOWN = 600
"""Characters of an error output in a note."""
_ANSWER = {"limited": "rate limit", "overloaded": "overloaded", "broken": "overloaded", "cut": ""}
"""The reason in the exception of a failing step, in lower case."""
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Program:
    """A program and what it must have printed when it ends. Called with a session, it runs and is judged."""

    script: str
    """File name under `scripts/`; its ending states which interpreter runs it."""
    variant: str = ""
    loops: tuple[str, ...] = LOOPS
    failures: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """The exception class of each step that must fail."""
    reasoning: tuple[str, ...] | None = None
    """The loops in which the model's thinking must have been shown; None: in all where there is any."""
    noted: bool = True
    """True if its exceptions carry the upstream's message."""

    def __call__(self, session: Session) -> Outcome:
        if self.script.endswith(".mjs"):
            # Node looks for packages next to the program.
            for name in (self.script, "report.mjs"):
                shutil.copy(SCRIPTS / name, session.work / name)
            (session.work / "node_modules").symlink_to(session.prefix / "node_modules")
            argv = ["node", str(session.work / self.script)]
        else:
            argv = [str(session.prefix / "bin/python"), "-B", str(SCRIPTS / self.script)]
        finished = session.run([*argv, session.base_url, self.variant], timeout=_PATIENCE)
        steps = _read(finished.stdout)
        problems = [*self._problems(steps)]
        if finished.returncode != 0:
            problems.append(f"exit status {finished.returncode}: {finished.stderr[-_SHOWN:]}")
        ran = all(steps.get(loop, {}).get("words") for loop in self.loops)
        text = str(steps.get(self.loops[0], {}).get("text", ""))
        return Outcome(not problems, ran, text, "; ".join(problems))

    def _problems(self, steps: dict[str, dict[str, Any]]) -> list[str]:
        thinking = self.reasoning
        if thinking is None:
            thinking = tuple(loop for loop in self.loops if not loop.startswith(_CALLS_TWICE))
        problems: list[str] = []
        for loop in self.loops:
            problems += [f"{loop}: {why}" for why in _loop_problems(steps.get(loop), loop in thinking)]
            if loop.startswith(_CALLS_TWICE) and len(steps.get(loop, {}).get("words", ())) == 1:
                problems.append(f"{loop}: one call instead of two")
        for step, expected in self.failures.items():
            seen = steps.get(step, {})
            if (raised := seen.get("raised")) not in expected.split(" or "):
                problems.append(f"{step}: {expected} expected, but {raised or 'no error'} came ({seen})")
            elif self.noted and _ANSWER[step] not in str(seen["message"]).lower():
                problems.append(f"{step}: {seen['message']!r} does not say what happened")
        return problems


def _read(stdout: str) -> dict[str, dict[str, Any]]:
    steps: dict[str, dict[str, Any]] = {}
    for line in stdout.splitlines():
        if line.startswith('{"step"'):
            seen = json.loads(line)
            steps[seen["step"]] = seen
    return steps


def _loop_problems(seen: dict[str, Any] | None, thinks: bool) -> list[str]:
    if seen is None:
        return ["nothing was printed"]
    if raised := seen.get("raised"):
        return [f"{raised}: {seen.get('message')}"]
    problems: list[str] = []
    if not seen["words"]:
        problems.append("the tool did not run")
    if not seen["arguments"] or not all(isinstance(topic, str) and topic for topic in seen["arguments"]):
        problems.append(f"the tool was called with {seen['arguments']}")
    if missing := [word for word in seen["words"] if word not in seen["text"]]:
        problems.append(f"{missing} is not in the answer {seen['text']!r}")
    if thinks and _REASONING not in seen["reasoning"]:
        problems.append(f"the thinking shown is {seen['reasoning']!r}")
    return problems + [f"no {side} tokens reported" for side in ("input", "output") if not seen[side]]


_REASONING = "The user needs a look-up – naïvely, one call. 🤔"
"""The whole reasoning of the simulated model."""

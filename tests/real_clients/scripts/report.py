"""The parts that the programs of this folder share: the tool, the scripted models' names, and the lines they print."""

from __future__ import annotations

import json
import secrets
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

THINKS = "sim-thinking"
"""Reasons, states something, calls the first tool, then quotes its result."""
PARALLEL = "sim-parallel-in-turn"
"""Calls two tools in one reply, one after the other, as the vendors themselves stream them."""
INTERLEAVED = "sim-parallel"
"""Two calls whose arguments arrive in turn."""
LIMITED = "sim-error-429"
OVERLOADED = "sim-error-529"
BROKEN = "sim-error-mid"
"""An error of the upstream's own after some text."""
CUT = "sim-cut"
"""A connection that ends in the middle of the text."""
SYSTEM = "You are the test assistant."
PROMPT = "Which word belongs to the topic?"
ABOUT = "The secret word of a topic."
SCHEMA = {
    "type": "object",
    "properties": {"topic": {"type": "string", "description": "The topic"}},
    "required": ["topic"],
    "additionalProperties": False,
}
LIMIT = 4000
"""Output tokens that every request allows."""


@dataclass
class Words:
    """The tool: each call makes up a word that no one could guess."""

    made: list[str] = field(default_factory=list)
    arguments: list[object] = field(default_factory=list)

    def find(self, topic: object) -> str:
        self.arguments.append(topic)
        self.made.append(secrets.token_hex(6))
        return f"the word is {self.made[-1]}"


@dataclass
class Answer:
    """The client's view of a whole conversation."""

    text: str
    reasoning: str
    input: int
    output: int


def loop(step: str, act: Callable[[Words], Answer]) -> None:
    """Print what came of a conversation with a tool."""
    words = Words()
    try:
        answer = act(words)
    except Exception as error:
        traceback.print_exc()
        _write_text(step, raised=type(error).__name__, message=str(error)[:500])
        return
    seen = {"text": answer.text, "reasoning": answer.reasoning, "input": answer.input, "output": answer.output}
    _write_text(step, words=words.made, arguments=words.arguments, **seen)


def failure(step: str, act: Callable[[], object]) -> None:
    """Print the exception that a request ends in."""
    try:
        answer = act()
    except Exception as error:
        _write_text(step, raised=type(error).__name__, message=str(error)[:500])
    else:
        _write_text(step, raised="", message=str(answer)[:500])


def _write_text(step: str, **seen: object) -> None:
    print(json.dumps({"step": step, **seen}), flush=True)

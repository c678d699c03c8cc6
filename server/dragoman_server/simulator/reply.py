"""What the renderers share: one reply's ids, time and usage, and the spelling of event frames."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson

from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.scenarios import Reasoning, Refusal, Scenario, Text, ToolArgs

PROMPT_TOKENS = 12
CACHED_TOKENS = 4
"""Every prompt has 12 tokens, 4 of them read from a cache: constants, so that tests can add up."""

SEAL = "sim1:"
"""What the simulator's signatures and encrypted reasoning begin with, once decoded."""


@dataclass(slots=True)
class Reply:
    """Everything a renderer needs besides the scenario. Same serial and time, same bytes."""

    model: str
    body: Json
    serial: int = 1
    created: int = 0
    _minted: int = field(default=0, repr=False)

    def mint(self, prefix: str, length: int = 24) -> str:
        """A fresh id that looks like a real one and is the same in every run."""
        self._minted += 1
        digest = blake2b(f"{self.serial}.{self._minted}".encode(), digest_size=32).hexdigest()
        return prefix + digest[:length]

    def padding(self, length: int) -> str:
        """The `obfuscation` of a delta: fills it up so that its size does not tell the text's."""
        return _PADDING[: 16 - length % 16]


_PADDING = "aZ3kQ9xT7mB1vR5c"


@dataclass(frozen=True, slots=True)
class Spent:
    """Output tokens of a scenario: one per fragment."""

    output: int
    reasoning: int


def spent(scenario: Scenario) -> Spent:
    """Counts the fragments of a scenario."""
    kinds = [type(step) for step in scenario.steps]
    reasoning = kinds.count(Reasoning)
    return Spent(reasoning + kinds.count(Text) + kinds.count(Refusal) + kinds.count(ToolArgs), reasoning)


def sealed(text: str) -> str:
    """An opaque signature over `text` that `opens` can verify."""
    return b64encode(SEAL.encode() + blake2b(text.encode(), digest_size=24).digest()).decode()


def named_frame(event: Json) -> bytes:
    """A frame whose `event:` line repeats the data's type (Messages and Responses)."""
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps(event))


def bare_frame(chunk: Any) -> bytes:
    """A frame of data only (Chat Completions)."""
    return b"data: %b\n\n" % orjson.dumps(chunk)

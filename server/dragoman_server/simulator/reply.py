"""Common parts of the renderers: ids, time and tier of one reply, and the format of SSE frames."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson

from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.steps import Scenario
from dragoman_server.simulator.tokens import TokenCounts, by_fragment

SIGNATURE_PREFIX = "sim1:"
"""First bytes of the simulator's signatures and encrypted reasoning, after base64 decoding."""


@dataclass(slots=True)
class SimulatedReply:
    """Parameters of a renderer besides the scenario. Equal `serial` and `created` produce equal bytes."""

    model: str
    body: Json
    serial: int = 1
    created: int = 0
    count: Callable[[Scenario], TokenCounts] = by_fragment
    """A function that counts the tokens of the request and of a reply to it."""
    _minted: int = field(default=0, repr=False)

    def mint(self, prefix: str, length: int = 24) -> str:
        """Return a new id that resembles a real one. The sequence of ids is deterministic."""
        self._minted += 1
        digest = blake2b(f"{self.serial}.{self._minted}".encode(), digest_size=32).hexdigest()
        return prefix + digest[:length]

    def tier_of(self, scenario: Scenario, field: str = "service_tier") -> str:
        """Return the service tier that served, in OpenAI's words. `field` of the request names one."""
        asked = self.body.get(field)
        return scenario.tier or ("default" if asked in (None, "auto") else str(asked))

    def padding(self, length: int) -> str:
        """Return the `obfuscation` of a delta, which pads it to hide the length of its text."""
        return _PADDING[: 16 - length % 16]


_PADDING = "aZ3kQ9xT7mB1vR5c"


def signature_of(text: str) -> str:
    """Return an opaque signature of `text`, also used as encrypted reasoning."""
    return b64encode(SIGNATURE_PREFIX.encode() + blake2b(text.encode(), digest_size=24).digest()).decode()


def named_frame(event: Json) -> bytes:
    """Return a frame whose `event:` line repeats the type of the data (Messages and Responses)."""
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps(event))


def bare_frame(chunk: Any) -> bytes:
    """Return a frame with data only (Chat Completions)."""
    return b"data: %b\n\n" % orjson.dumps(chunk)

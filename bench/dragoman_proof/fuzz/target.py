"""The targets of fuzzing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from random import Random

CHECKOUT = Path(__file__).parents[3]
"""The root of the checkout."""
MODULES = {
    "sse": "sse",
    "http-replies": "http_replies",
    "requests-chat": "requests",
    "requests-messages": "requests",
    "requests-responses": "requests",
    "streams-chat": "streams",
    "streams-messages": "streams",
    "streams-responses": "streams",
    "streams-generate": "streams",
    "replies-chat": "replies",
    "replies-messages": "replies",
    "replies-responses": "replies",
    "replies-generate": "replies",
    "stores": "stores",
    "configuration": "configuration",
    "forms": "forms",
}
"""Name of a target → its module in `targets`."""


class PromiseBroken(Exception):
    """An input for which a promise does not hold."""


@dataclass(frozen=True, slots=True)
class Target:
    """A function of bytes, its first inputs and its mutations.

    `check` raises for an input that breaks a promise: PromiseBroken, or whatever the product raises. `seeds` are the
    first inputs, `words` the dictionary. `mutate` returns another input made of one, or of two; None where bytes are
    changed at random instead.
    """

    check: Callable[[bytes], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()
    mutate: Callable[[bytes, bytes, Random], bytes | None] | None = None
    longest: int = 16_384
    """Most bytes of an input."""


@cache  # some have event loops, which stay open
def load(name: str) -> Target:
    """Return the target of a name in `MODULES`. The first import of what it fuzzes is here."""
    judges = str(CHECKOUT / "tests")  # the oracles, which share no code with the product
    if judges not in sys.path:
        sys.path.append(judges)
    found: Target = import_module(f"dragoman_proof.fuzz.targets.{MODULES[name]}").target(name)
    return found


def require(holds: bool, promise: str) -> None:
    """Raise PromiseBroken unless a promise holds."""
    if not holds:
        raise PromiseBroken(promise)


def pieces(data: bytes) -> list[list[bytes]]:
    """Return splits of an input that must not make a difference: single bytes, and some pieces that depend on it."""
    random = Random(data)
    places = sorted(random.randrange(len(data) + 1) for _ in range(4))
    edges = [0, *places, len(data)]
    cut = [data[begin:end] for begin, end in pairwise(edges)]
    return [[data[at : at + 1] for at in range(len(data))], cut]

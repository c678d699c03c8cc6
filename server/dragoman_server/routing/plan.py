"""The candidates of a route: providers with their models and keys, and the order in which a request tries them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import log
from typing import NamedTuple

from dragoman_server.config.provider import Provider
from dragoman_server.config.routing_options import BALANCES

STICKY, LEAST_BUSY, WEIGHTED = BALANCES
_DIGEST = 8
_SPAN = 2.0 ** (8 * _DIGEST)


class Candidate(NamedTuple):
    """A provider with one of its keys.

    `key` identifies that key without revealing it, and `number` is its place in the list, from 1; empty and 0 if there
    is only one.
    """

    provider: Provider
    upstream_model: str
    weight: float = 1.0
    priority: int = 1
    key: str = ""
    number: int = 0


class Plan(NamedTuple):
    """The candidates of a route. `attempts` is the most upstream requests for one client request.

    `larger` are those that get only requests that are too long for the others.
    """

    candidates: tuple[Candidate, ...]
    attempts: int
    balance: str = STICKY
    larger: tuple[Candidate, ...] = ()

    def ranked(
        self, conversation: bytes | None, busy: Callable[[Candidate], int], random: Callable[[], float]
    ) -> list[Candidate]:
        """Return the candidates in the order in which a request prefers them: by priority, then by balance.

        Args:
            conversation: A digest that is the same for all requests of a conversation; None if it is not known.
            busy: A function that returns the requests at a candidate.
            random: A function that returns numbers from 0 up to 1.
        """
        if len(self.candidates) == 1:
            return list(self.candidates)
        if self.balance == LEAST_BUSY:
            order = [
                (candidate.priority, (busy(candidate) + 1) / candidate.weight, random(), index)
                for index, candidate in enumerate(self.candidates)
            ]
        else:
            known = conversation if self.balance == STICKY else None
            order = [
                (candidate.priority, _distance(candidate, known, random), 0.0, index)
                for index, candidate in enumerate(self.candidates)
            ]
        return [self.candidates[index] for *_, index in sorted(order)]


def _distance(candidate: Candidate, conversation: bytes | None, random: Callable[[], float]) -> float:
    """Return a number that is the smallest for each candidate in proportion to its weight.

    With a conversation it is a hash: weighted rendezvous hashing. A conversation then has the same order of candidates
    in every process without any table, and a candidate that leaves changes the place of its own conversations only.
    """
    if conversation is None:
        share = random()
    else:
        name = f"{candidate.provider.name}\0{candidate.key}\0{candidate.upstream_model}"
        digest = blake2b(name.encode(errors="replace"), digest_size=_DIGEST, key=conversation[:64])
        share = int.from_bytes(digest.digest(), "big") / _SPAN
    return -log(max(share, 1e-300)) / candidate.weight


def candidates_of(
    provider: Provider, variants: Sequence[tuple[str, Provider]], upstream_model: str, weight: float, priority: int
) -> list[Candidate]:
    """Return the candidates of a provider: one, or one for each of its keys, which share its weight.

    `variants` are the provider's keys by their names, each with the provider that has this key only.
    """
    if not variants:
        return [Candidate(provider, upstream_model, weight, priority)]
    share = weight / len(variants)
    return [
        Candidate(variant, upstream_model, share, priority, key, number)
        for number, (key, variant) in enumerate(variants, 1)
    ]

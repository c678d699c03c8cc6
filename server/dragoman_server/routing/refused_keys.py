"""The keys of providers with which the last request was refused: the account is empty, or the key is not valid.

Nothing is sent to find out whether that is still so: a key counts as refused until a request with it is accepted, or
the configuration of its provider changes.
"""

from __future__ import annotations

from collections.abc import Container

NO_CREDIT, UNAUTHORIZED = "no_credit", "unauthorized"
_WORDS = frozenset((NO_CREDIT, UNAUTHORIZED))


class RefusedKeys:
    """The refused keys of one process. `found` has the words of their failures by provider and key."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], str] = {}

    def refuse(self, provider: str, key: str, word: str) -> None:
        """Record a failure that the key is to blame for, by its word in metrics. Other words are no refusals."""
        if word in _WORDS:
            self.found[provider, key] = word

    def accept(self, provider: str, key: str) -> None:
        """Record that a request with the key was accepted."""
        self.found.pop((provider, key), None)

    def forget(self, provider: str) -> None:
        """Forget the keys of a provider."""
        self.found = {place: word for place, word in self.found.items() if place[0] != provider}

    def words(self, providers: Container[str]) -> frozenset[str]:
        """Return the words of the keys of these providers that are refused."""
        return frozenset(word for (provider, _), word in self.found.items() if provider in providers)

"""Exact counts by OpenAI's o200k_base, where the extra `tokens` is installed. Its ranks are inside that package, so
nothing is ever downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

VOCABULARY = "o200k_base"
"""That of GPT-4o and later. No other vendor publishes the one it uses."""

_loaded: list[Any] = []


def vocabulary_installed() -> bool:
    """True if the `tokens` extra is installed. Imports nothing."""
    return find_spec("toktok") is not None


def by_vocabulary(texts: Sequence[str]) -> list[int]:
    """The tokens of each text. Words of a prompt format, as `<|endoftext|>`, count as the text that they look like.

    The first call loads the vocabulary: half a second of one core, and 70 MB that stay. Raises ModuleNotFoundError
    without the extra.
    """
    if not _loaded:
        _loaded.append(import_module("toktok").batch_count)
    batch_count: Callable[..., list[int]] = _loaded[0]
    try:
        return batch_count(texts, VOCABULARY, threads=1)
    except UnicodeEncodeError:  # lone surrogates, which JSON can hold and UTF-8 cannot
        whole = [text.encode("utf-8", "replace").decode() for text in texts]
        return batch_count(whole, VOCABULARY, threads=1)

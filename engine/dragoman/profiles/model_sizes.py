"""The context windows and output limits of models that their vendors document, for hosts whose lists state none."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, NamedTuple

from dragoman.profiles.third_parties_messages import OUTPUT_LIMITS

_NAME_MAX = 100
"""Longest name that is looked up, in characters: names come from clients and upstreams."""


class ModelSizes(NamedTuple):
    """The context window of a model and its largest output limit, in tokens; 0 if unknown."""

    context_window: int = 0
    max_output: int = 0


CONTEXT_WINDOWS: Final = (
    ("*claude-haiku-4[-.]5*", 200_000),
    ("*claude-opus-4[-.][678]*", 1_000_000),
    ("*claude-sonnet-4[-.]6*", 1_000_000),
    ("*claude-opus-5*", 1_000_000),
    ("*claude-sonnet-5*", 1_000_000),
    ("*claude-fable-5*", 1_000_000),
    ("*claude-opus-4*", 200_000),
    ("*claude-sonnet-4*", 200_000),
    ("*claude-3*", 200_000),
    ("*gpt-6.2-sol", 1_050_000),
    ("*gemini-3.5-flash", 1_048_576),
    ("*gemini-2.0-flash", 1_048_576),
)
"""Context windows in tokens, by patterns of names, also of other hosts; the first that fits counts.

Read on 2026-11-27 from https://platform.claude.com/docs/en/models/overview and the pages of single models there
(without a beta, Claude 4 and Sonnet 4.5 take 200,000), https://developers.openai.com/api/docs/models/gpt-6.2-sol,
https://ai.google.dev/gemini-api/docs/models/gemini-3.5-flash and …/gemini-2.0-flash.
"""

_OUTPUTS: Final = (
    *OUTPUT_LIMITS,
    ("*gpt-6.2-sol", 128_000),
    ("*gemini-3.5-flash", 65_536),
    ("*gemini-2.0-flash", 8192),
)
"""The largest output limits in tokens, from the same pages."""


@lru_cache(maxsize=2048)
def _sizes(model: str) -> ModelSizes:
    return ModelSizes(
        next((window for pattern, window in CONTEXT_WINDOWS if fnmatchcase(model, pattern)), 0),
        next((limit for pattern, limit in _OUTPUTS if fnmatchcase(model, pattern)), 0),
    )


def documented_sizes(model: str) -> ModelSizes:
    """Return the sizes that the vendor of a model documents, by any host's name of the model."""
    return _sizes(model) if len(model) <= _NAME_MAX else ModelSizes()

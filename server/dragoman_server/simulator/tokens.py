"""Token counts of the simulated models: constants, so that tests can compute sums, or counts of the words.

By words, a token is up to four letters with the space before them, other white space, or other characters in a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from dragoman_server.simulator.api import APIS
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.steps import Reasoning, Refusal, Scenario, Text, ToolArgs, ToolStart

PROMPT_TOKENS = 12
CACHED_TOKENS = 4
"""Every prompt has 12 tokens, 4 of them cached, if tokens are not counted by words."""
_TOKEN = re.compile(r" ?[^\W_]{1,4}|\s+|_|[^\w\s]+")
PROMPT = (
    *dict.fromkeys(name for api in APIS.values() for name in (api.instructions, api.conversation) if name),
    "tools",
)
"""The fields of a request whose texts are the prompt."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts. `input` includes `cached` and `cache_write`, `output` includes `reasoning`."""

    input: int = 0
    cached: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    """The part of `cache_write` that is kept for an hour."""
    output: int = 0
    reasoning: int = 0

    def __sub__(self, other: TokenCounts) -> TokenCounts:
        """Return the differences of all counts."""
        return TokenCounts(*(getattr(self, each.name) - getattr(other, each.name) for each in fields(TokenCounts)))

    def __add__(self, other: TokenCounts) -> TokenCounts:
        """Return the sums of all counts."""
        return TokenCounts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(TokenCounts)))


ITERATIONS = {
    "compaction": TokenCounts(input=3000, cached=1000, cache_write=500, output=210),
    "advisor_message": TokenCounts(input=700, output=90, reasoning=40),
}
"""The tokens of an iteration that the counts of the reply leave out (Messages)."""


def by_fragment(scenario: Scenario) -> TokenCounts:
    """Return constant counts of the prompt, and a token for each fragment of the reply."""
    kinds = [type(step) for step in scenario.steps]
    reasoning = kinds.count(Reasoning)
    output = reasoning + kinds.count(Text) + kinds.count(Refusal) + kinds.count(ToolArgs)
    return TokenCounts(PROMPT_TOKENS, CACHED_TOKENS, scenario.cache_write, 0, output, reasoning)


def by_words(body: Json, scenario: Scenario) -> TokenCounts:
    """Return the counts of a request's texts and of the reply. A third of the prompt is cached.

    With `cache_write`, a fourth is written to the cache, half of that for an hour.
    """
    prompt = sum(count_text(text) for field in PROMPT for text in _texts(body.get(field)))
    written = prompt // 4 if scenario.cache_write else 0
    reasoning = count_text("".join([step.text for step in scenario.steps if type(step) is Reasoning]))
    shown = count_text("".join([step.text for step in scenario.steps if type(step) is Text or type(step) is Refusal]))
    calls: dict[int, str] = {}
    for step in scenario.steps:
        if type(step) is ToolStart:
            calls[step.call] = step.tool.name
        elif type(step) is ToolArgs:
            calls[step.call] += step.text
    output = reasoning + shown + sum(map(count_text, calls.values()))
    return TokenCounts(prompt, prompt // 3, written, written // 2, output, reasoning)


@lru_cache(1024)
def count_text(text: str) -> int:
    """Return the tokens of a text by its words."""
    return len(_TOKEN.findall(text))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a field of a request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)

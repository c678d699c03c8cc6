"""The price of a model: of its tokens, in long requests and other tiers too, and of calls of the upstream's tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from math import isfinite

from dragoman_server.config.config_error import Problem, join
from dragoman_server.config.setting import Range, section, setting, setting_problems

TOKEN_PRICES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
"""The fields of a price that are for tokens, in the order in which a cost adds them up."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Prices from 0 on. `unit` is for the message."""

    unit: str

    def problems(self, at: str, value: float) -> Iterator[Problem]:
        """Yield a problem for a negative price, and for one that is no number."""
        if not (isfinite(value) and value >= 0):
            cure = ": write it without the minus sign" if value < 0 else ""
            yield at, f"expected 0 or more {self.unit}; got {value:g}{cure}"


PER_MILLION = Amount("per million tokens")
_PER_CALL = Amount("per call")


@dataclass(frozen=True, slots=True)
class StepPrice:
    """The prices per million tokens of a whole request with more than `above` tokens of input, cached ones included.

    What it does not name costs as much as in shorter requests.
    """

    above: int = setting(0, Range(1, unit="tokens"))
    """Tokens of input, with those of the cache, above which these prices are those of the whole request."""
    input: float | None = setting(None, PER_MILLION)
    """Fresh input."""
    output: float | None = setting(None, PER_MILLION)
    """Output, with reasoning."""
    cache_read: float | None = setting(None, PER_MILLION)
    """Input that was read from a cache."""
    cache_write: float | None = setting(None, PER_MILLION)
    """Input that was written to a cache."""
    cache_write_1h: float | None = setting(None, PER_MILLION)
    """Input that was written to a cache for an hour."""


@dataclass(frozen=True, slots=True)
class TierPrice:
    """The prices per million tokens of a service tier, or of a speed, as the upstream states it.

    What it does not name costs `factor` times the model's price. With prices of its own it has only its own steps.
    """

    factor: float = setting(1.0, Amount("times the model's price"))
    """The multiple of the model's prices that the tier costs: 0.5 for half of them."""
    input: float | None = setting(None, PER_MILLION)
    """Fresh input."""
    output: float | None = setting(None, PER_MILLION)
    """Output, with reasoning."""
    cache_read: float | None = setting(None, PER_MILLION)
    """Input that was read from a cache."""
    cache_write: float | None = setting(None, PER_MILLION)
    """Input that was written to a cache."""
    cache_write_1h: float | None = setting(None, PER_MILLION)
    """Input that was written to a cache for an hour."""
    steps: tuple[StepPrice, ...] = setting((), getter="section_list", kind=StepPrice)
    """Prices of long requests at this tier."""

    @property
    def has_own_prices(self) -> bool:
        """True if any price of tokens is named."""
        return any(getattr(self, name) is not None for name in TOKEN_PRICES)

    def problems(self, at: str) -> Iterator[Problem]:
        """Yield the problems of these prices."""
        yield from setting_problems(at, self)
        yield from step_problems(f"{at}.steps", self.steps)


@dataclass(frozen=True, slots=True)
class CallPrices:
    """The prices of one call of each of the upstream's own tools, as the upstream counts them."""

    web_search: float = setting(0.0, _PER_CALL)
    """A web search: `server_tool_use.web_search_requests`, `tool_usage.web_search`, `web_search_call`."""
    web_fetch: float = setting(0.0, _PER_CALL)
    """A page that was fetched: `server_tool_use.web_fetch_requests`."""
    x_search: float = setting(0.0, _PER_CALL)
    """A search of posts at xAI: `x_search_calls`."""
    file_search: float = setting(0.0, _PER_CALL)
    """A search of files: `file_search_call`, `file_search_calls`."""
    document_search: float = setting(0.0, _PER_CALL)
    """A search of documents at xAI: `document_search_calls`."""
    code_interpreter: float = setting(0.0, _PER_CALL)
    """A container of OpenAI's code interpreter, or a call of xAI's: `code_interpreter_call`."""
    image_generation: float = setting(0.0, _PER_CALL)
    """A picture: `image_generation_call`, `image_generation_calls`."""
    mcp: float = setting(0.0, _PER_CALL)
    """A call of a tool of an MCP server: `mcp_call`, `mcp_calls`."""

    def priced(self) -> Iterator[tuple[str, float]]:
        """Yield the tools that have a price, with the price of a call."""
        for spec in fields(self):
            if price := getattr(self, spec.name):
                yield spec.name, price


def step_problems(at: str, steps: tuple[StepPrice, ...]) -> Iterator[Problem]:
    """Yield the problems of the steps of a price; `at` is their path."""
    for index, step in enumerate(steps):
        yield from setting_problems(f"{at}[{index}]", step)
        if any(step.above == earlier.above for earlier in steps[:index]):
            yield f"{at}[{index}].above", f"there is another step above {step.above} tokens: remove one of them"


@dataclass(frozen=True, slots=True)
class Price:
    """Prices per million tokens, in the currency of all budgets. Reasoning is part of the output."""

    input: float = setting(0.0, PER_MILLION)
    """Fresh input."""
    output: float = setting(0.0, PER_MILLION)
    """Output, with reasoning."""
    cache_read: float | None = setting(None, PER_MILLION)
    """Input that was read from a cache (default: that of input)."""
    cache_write: float | None = setting(None, PER_MILLION)
    """Input that was written to a cache (default: that of input)."""
    cache_write_1h: float | None = setting(None, PER_MILLION)
    """Input that was written to a cache for an hour (default: that of cache_write)."""
    minute: float | None = setting(None, Amount("per minute"))
    """A minute of audio, in place of input, for models that count no tokens."""
    steps: tuple[StepPrice, ...] = setting((), getter="section_list", kind=StepPrice)
    """Prices of long requests."""
    tiers: Mapping[str, TierPrice] = setting(dict, getter="sections", kind=TierPrice)
    """Prices of the service tiers and speeds that the upstream states, by their names."""
    calls: CallPrices = section(CallPrices)
    """Prices of the calls of the upstream's own tools."""

    def problems(self, path: str) -> Iterator[Problem]:
        """Yield the problems of these prices."""
        yield from setting_problems(path, self)
        yield from step_problems(f"{path}.steps", self.steps)
        for name, tier in self.tiers.items():
            yield from tier.problems(join(f"{path}.tiers", name))
        yield from setting_problems(f"{path}.calls", self.calls)
        inputs = [self.input, *(step.input for step in self.steps), *(tier.input for tier in self.tiers.values())]
        if self.minute is not None and any(inputs):
            yield join(path, "minute"), "is a price in place of `input`: set one of them"

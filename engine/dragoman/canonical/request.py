"""The canonical request: the form that every dialect's body is parsed into and built from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dragoman.canonical.parts import Json as Json  # most modules need nothing else of a request
from dragoman.canonical.turn import Turn
from dragoman.errors import Path

# --- tools ------------------------------------------------------------------------------------------------------------


ToolKind = Literal["function", "custom", "search", "hosted", "typed"]
"""`function` has a JSON schema; `custom` takes free text; `search` is a client-run search for further tools (with a
JSON schema); `hosted` runs at the provider; `typed` is a client tool that the provider's model was trained on and that
has no schema in the request (Messages `bash_*` and kin, Responses `shell` and kin)."""


@dataclass(slots=True)
class Namespace:
    """A named group that a tool is declared in (Responses `namespace`)."""

    name: str
    description: str | None = None


@dataclass(slots=True)
class Tool:
    """A declared tool. `options` holds source-only extras by name; the writer that cannot carry one drops it with
    `tool_option`. `native` is the whole original of hosted, typed and custom tools. Two tools are the same one if name
    and namespace are equal."""

    kind: ToolKind
    name: str
    at: Path = ()
    description: str | None = None
    schema: Json | None = None
    strict: bool | None = None
    cache: Json | None = None
    options: Json = field(default_factory=dict)
    native: Json = field(default_factory=dict)
    origin: str = ""
    namespace: Namespace | None = None


@dataclass(slots=True)
class ToolChoice:
    """`mode` is auto, none, required, tool or allowed. For `tool` and `allowed`, `names` are the tools; `require`
    is True if one of an allowed subset must be called. `custom` marks a forced custom tool, `hosted` a hosted one.
    `namespaces` are those of the names, in the same order; it is empty if none has one."""

    mode: str
    at: Path = ()
    names: list[str] = field(default_factory=list)
    require: bool = False
    custom: bool = False
    hosted: bool = False
    namespaces: list[str | None] = field(default_factory=list)

    def named(self) -> list[tuple[str, str | None]]:
        """Name and namespace of each tool."""
        return list(zip(self.names, self.namespaces or [None] * len(self.names), strict=True))


# --- controls ---------------------------------------------------------------------------------------------------------

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Canonical effort levels in rising order."""


@dataclass(slots=True)
class Thinking:
    """The reasoning settings. `effort` is one of `EFFORTS` or None for unset; `display` is Messages'
    `summarized`/`omitted`/`updates` or None; `summary` is Responses' `auto`/`concise`/`detailed` or None. `budget` is
    the budget in tokens that `effort` was read from, or None."""

    effort: str | None = None
    at: Path = ()
    display: str | None = None
    summary: str | None = None
    budget: int | None = None


@dataclass(slots=True)
class OutputFormat:
    """Structured output: `json_schema` or `json_object`."""

    kind: str
    at: Path = ()
    name: str | None = None
    schema: Json | None = None
    strict: bool | None = None
    description: str | None = None


@dataclass(slots=True)
class Request:
    """A request in canonical form. None always means that the client did not set the field."""

    origin: str
    model: str
    turns: list[Turn]
    stream: bool = False
    include_usage: bool = False
    """Chat's `stream_options.include_usage`: True if the client requests the usage chunk."""
    tools: list[Tool] = field(default_factory=list)
    tool_choice: ToolChoice | None = None
    parallel: bool | None = None
    max_tokens: int | None = None
    max_tokens_at: Path = ()
    temperature: float | None = None
    """An integer stays one: it is sent as the client wrote it."""
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] = field(default_factory=list)
    stop_at: Path = ()
    thinking: Thinking | None = None
    format: OutputFormat | None = None
    verbosity: str | None = None
    end_user: str | None = None
    end_user_at: Path = ()
    service_tier: str | None = None
    service_tier_at: Path = ()
    metadata: Json | None = None
    store: bool | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    sampling: Json = field(default_factory=dict)
    """frequency_penalty, presence_penalty, logit_bias, seed: the ones that only Chat has, as given and not default."""
    auto_cache: Json | None = None
    """The cache mark of the request itself (Messages), which stands for one on its last block."""
    cache: Json = field(default_factory=dict)
    """prompt_cache_key, prompt_cache_options, prompt_cache_retention as given (OpenAI dialects)."""
    moderation: Json | None = None
    echo: Json = field(default_factory=dict)
    """The settings of the request that a reply in the client's dialect repeats (Responses), by key."""

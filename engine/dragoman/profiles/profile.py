"""Provider profiles: flags for what an upstream can do. Readers and writers test flags, never model names (mapping §2).

Built-in profiles have a name per dialect; those of third parties are data. The configuration may override single flags.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, Literal

from dragoman.canonical.request import EFFORTS
from dragoman.dialects import FACTS
from dragoman.profiles import THIRD_PARTIES
from dragoman.profiles.check_choices import add_choices, check_choices
from dragoman.profiles.third_parties_messages import MID_SYSTEM_MODELS, OUTPUT_LIMITS, PREFILL_MODELS
from dragoman.short_repr import changed_fields

_LONGEST_KNOWN: Final = 128
DEFAULT_OUTPUT: Final = 64_000
"""Output limit for models of which none is known, in tokens. An upstream that takes less names its own in a 400."""


OPENAI_TIERS: Final = ("auto", "default", "flex", "scale", "priority", "fast", "ultrafast")
"""The service tiers of OpenAI's dialects."""


def _list_flag(items: str = r"[$A-Za-z][A-Za-z0-9]*", form: str = "minLength", default: tuple[str, ...] = ()) -> Any:
    """A list of strings that match the pattern `items`; `form` shows one. By default it is empty, and they
    are JSON schema keywords."""
    return field(default=default, metadata={"values": (), "items": items, "form": form})


@dataclass(frozen=True, slots=True)
class Profile:
    """Flags of one upstream. A field's metadata holds the values that it allows.

    Raises ValueError for a value that is not allowed.
    """

    __repr__ = changed_fields

    family: str = ""
    """Name of the group of upstreams that can read this upstream's signed or encrypted reasoning; empty = the
    provider's name in a configuration, the dialect's name in Python."""
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """Chat: the field of the output limit."""
    context_window: int = 0
    """The model's largest prompt in tokens, for the knob `token_budget`; 0 = unknown."""
    counting: bool = True
    """Messages, Responses: may have an endpoint that counts a request's tokens."""
    max_output_tokens: int = 0
    """The model's largest output limit; higher ones are reduced to it; 0 = unknown."""
    default_max_tokens: int = 0
    """Output limit sent to Messages upstreams if the client sets none; 0 = the model's largest, which the upstream's
    model list or a table states, else 64,000."""
    sampling: Literal["free", "default_only", "none"] = "free"
    """The sampling parameters that the upstream takes."""
    temperature_with_top_p: bool = True
    """Messages: takes `temperature` and `top_p` together; else no `top_p`."""
    max_temperature: float = 2.0
    """Largest temperature taken."""
    anthropic_version: Literal["2023-06-01", "2026-10-21"] = "2023-06-01"
    """Anthropic-version header sent."""
    betas: tuple[str, ...] = _list_flag(r"\S+", "context-management-*")
    """Messages: the names in anthropic-beta that it takes, as patterns; `A=B` sends A as B; empty = all."""
    system: bool = True
    """Gemini: takes `systemInstruction`; if false, as Gemma's models, instructions become text of the user."""
    system_inline: bool = False
    """Takes `system` messages in mid-conversation (Responses: always)."""
    mid_system_models: tuple[str, ...] = _list_flag(r"\S+", "*claude-opus-5*")
    """Messages: with `system_inline`, the models that take such messages, as patterns; empty = all."""
    prefill_models: tuple[str, ...] = _list_flag(r"\S+", "*claude-haiku-4-5*")
    """Messages: the models that continue a final assistant message, as patterns."""
    instruction_role: Literal["system", "developer"] = "system"
    """Chat: the role of instructions."""
    efforts: tuple[str, ...] = EFFORTS
    """Effort levels taken, in rising order; empty = none."""
    thinking: Literal["adaptive", "budget", "budget_and_effort", "none"] = "adaptive"
    """Messages: the form in which thinking is requested. Gemini: `adaptive` is a level, `budget` a budget."""
    thinking_display: bool = True
    """Messages: takes `display` of thinking."""
    thinking_off: bool = True
    """Takes thinking `disabled`."""
    forced_choice_with_thinking: bool = False
    """Takes a forced tool choice while thinking."""
    thinking_replay: Literal["verify", "own_required", "drop"] = "verify"
    """Treatment of thinking of earlier turns."""
    reasoning_replay: bool = False
    """Chat: wants `reasoning_content` of earlier turns back."""
    reasoning_details: bool = False
    """Chat: sends its reasoning in `reasoning_details`, and needs them back unchanged."""
    signed_calls: bool = False
    """Chat, Gemini: rejects calls of earlier turns that its model has not signed (Gemini 3); Dragoman gives calls of
    other models the value that Google documents for them."""
    custom_tools: bool = True
    """OpenAI dialects: takes free-text (custom) tools."""
    client_tools: bool = False
    """Messages: takes tools without a schema that Claude is trained on, such as bash."""
    built_in_tools: bool = False
    """Responses: takes the tools that OpenAI's models are trained on and the client runs, such as `shell`."""
    vendor_tools: bool = True
    """Responses: takes the tools that OpenAI runs itself, such as `web_search`, with all their options."""
    web_search: bool = False
    """Responses: has a `web_search` of its own, with lists of domains; `vendor_tools` is off."""
    namespaces: bool = False
    """Responses: takes namespaces of tools."""
    tool_search: bool = False
    """Responses: takes `tool_search` and deferred tools."""
    agent_messages: bool = False
    """Responses: takes messages between agents, tool parameters that are `encrypted`, and items it alone has."""
    encrypted_reasoning: bool = True
    """Responses: takes encrypted reasoning items back, and no plain ones."""
    encrypts_on_request: bool = False
    """Responses: encrypts reasoning if that is requested, and takes plain items back as well."""
    tool_name_max: int = 64
    """Longest tool name."""
    call_id_max: int = 64
    """Longest tool call id; 9 = exactly nine letters and digits, as Mistral requires."""
    text_parts: bool = True
    """Takes arrays of text parts in system, assistant and tool content."""
    images: bool = True
    """Takes images."""
    images_in_tool_results: bool = True
    """Takes images in tool results (Messages, Gemini)."""
    media_resolution: bool = False
    """Gemini: takes a resolution for each image, as models of the line 3 do."""
    pdf: bool = True
    """Takes PDF files."""
    url_sources: bool = True
    """Fetches images and files by URL itself."""
    explicit_cache: bool = False
    """Takes explicit cache marks."""
    tools_with_reasoning: Literal["any", "effort_none", "never"] = "any"
    """Chat: whether function tools can be combined with a reasoning effort."""
    message_stop: bool = True
    """Messages: ends every stream with `message_stop`; if false, a stream with a stop reason is complete without it."""
    usage_fallback: Literal["none", "last_seen"] = "none"
    """Chat: read usage also from a chunk with choices."""
    stop_limit: int = 4
    """Chat: how many stop sequences the upstream takes; Dragoman emulates more; 0 = none (also for Messages)."""
    unstored_metadata: bool = True
    """OpenAI dialects: takes `metadata` without `store`."""
    service_tiers: tuple[str, ...] = _list_flag(r"[a-z_]+", "flex", OPENAI_TIERS)
    """OpenAI dialects: the service tiers that it takes."""
    refused_fields: tuple[str, ...] = _list_flag(r"[a-z_]+", "verbosity")
    """OpenAI dialects: top-level fields that it rejects, and `verbosity`, which Responses nests; they are left out."""
    user_field: Literal["safety_identifier", "user", "user_id"] = "safety_identifier"
    """OpenAI dialects: where the end user's id goes."""
    structured_output: bool = True
    """Takes a JSON schema as output format."""
    stream_usage: bool = True
    """Chat: takes `stream_options.include_usage`."""
    strict_alternation: bool = False
    """Rejects two messages of one role in a row (Chat, Responses; for Messages they are always merged)."""
    results_first: bool = False
    """Responses: requires tool results directly after their calls (the other dialects always do)."""
    schemas: Literal["json_schema", "openapi"] = "json_schema"
    """Gemini: the language of schemas that it takes. `openapi`, for older servers, needs `schema_refs = false` too."""
    schema_root_union: bool = True
    """Takes `anyOf`, `oneOf` and `allOf` at the root of a tool's schema."""
    schema_refs: bool = True
    """Takes `$ref` in schemas; if false, references are replaced by their targets."""
    schema_refused: tuple[str, ...] = _list_flag()
    """JSON schema keywords that it rejects; they are left out."""
    strict_schemas: Literal["any", "closed", "complete"] = "any"
    """Strict schemas: unchanged, with every object closed, or with every property required as well (else sent without
    `strict`)."""
    strict_refused: tuple[str, ...] = _list_flag()
    """JSON schema keywords that it rejects in strict schemas; they move into the description."""
    rewrite: bool = False
    """Rejects unknown fields: requests of its own dialect are rewritten too, and beta headers are not forwarded."""
    stream_obfuscation: bool = False
    """OpenAI dialects: takes `stream_options.include_obfuscation`; Dragoman then requests streams without padding."""
    thinking_field: Literal[
        "reasoning_effort", "thinking", "enable_thinking", "chat_template_kwargs", "reasoning", "reasoning_split"
    ] = "reasoning_effort"
    """Chat: the field that switches reasoning on and off, in addition to or instead of the effort."""
    reasoning_key: Literal["reasoning_content", "reasoning", "reasoning_details", "thinking"] = "reasoning_content"
    """Chat: the field in which reasoning of earlier turns is sent back; `thinking` is a part of the content."""
    reasoning_required: bool = False
    """Chat: rejects tool calls without reasoning while reasoning is on; Dragoman adds an empty one."""
    tool_choice: Literal["all", "named", "words", "unforced", "auto"] = "all"
    """Chat: tool choices that it takes: all; all but a list of allowed tools; only `auto`, `none` and `required`; all
    but forced ones; only `auto`."""
    parallel_tool_calls: bool = True
    """OpenAI dialects: takes `parallel_tool_calls`."""
    strict_tools: bool = True
    """Chat: takes `strict` on tools."""
    top_k: bool = False
    """Chat: takes `top_k`."""
    billing_line: bool = False
    """Reads Claude Code's billing line; for others the knob `request_noise` removes it."""
    cache_field: Literal["prompt_cache_breakpoint", "cache_control"] = "prompt_cache_breakpoint"
    """Chat: the field of explicit cache marks."""

    def __post_init__(self) -> None:
        check_choices(self)

    def takes_late_system(self, model: str) -> bool:
        """True if a Messages upstream accepts `system` messages in mid-conversation for this model."""
        return self.system_inline and (not self.mid_system_models or _listed(self.mid_system_models, model))

    def takes_prefill(self, model: str) -> bool:
        """True if a Messages upstream continues a final assistant message with this model."""
        return _listed(self.prefill_models, model)

    def beta_as(self, name: str) -> str | None:
        """The name under which a Messages upstream gets a beta, or None if it does not take it."""
        if not self.betas:
            return name
        for entry in self.betas:
            pattern, _, other = entry.partition("=")
            if fnmatchcase(name, pattern):
                return other or name
        return None

    def default_output(self, model: str) -> int:
        """The output limit to send to a Messages upstream if the client sets none, in tokens."""
        most = self.max_output_tokens
        limit = self.default_max_tokens or most
        if not limit:
            limit = _output_limit(model) if len(model) <= _LONGEST_KNOWN else _output_limit.__wrapped__(model)
            if not limit:
                limit = output_within(self.context_window)
        return min(limit, most) if most else limit

    def replace(self, flags: dict[str, Any]) -> Profile:
        """This profile with single flags replaced. Names and values are checked by the caller."""
        changed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in flags.items()}
        return replace(self, **changed)


@lru_cache(maxsize=256)
def _matches(patterns: tuple[str, ...], model: str) -> bool:
    return any(fnmatchcase(model, pattern) for pattern in patterns)


@lru_cache(maxsize=256)
def _output_limit(model: str) -> int:
    return next((limit for pattern, limit in OUTPUT_LIMITS if fnmatchcase(model, pattern)), 0)


def output_within(context_window: int) -> int:
    """Return the output limit for a model of which only the context window is known, or 0 for unknown, in tokens.

    Servers count the limit and the prompt together.
    """
    return min(context_window // 2, DEFAULT_OUTPUT) or DEFAULT_OUTPUT


def _listed(patterns: tuple[str, ...], model: str) -> bool:
    # Names come from clients: a long one is not remembered.
    return (_matches if len(model) <= _LONGEST_KNOWN else _matches.__wrapped__)(patterns, model)


add_choices(Profile)
PROFILE_FIELDS = {f.name: f for f in fields(Profile)}

# What Messages' structured output does not know; the vendor's own SDK moves the same into the description.
# fmt: off
_UNSTRUCTURED = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "uniqueItems", "format", "minProperties", "maxProperties", "patternProperties",
    "propertyNames", "oneOf",
)
# fmt: on

_OPENAI = Profile(
    system_inline=True,
    unstored_metadata=False,
    stream_obfuscation=True,
    instruction_role="developer",
    explicit_cache=True,
    sampling="free",
    call_id_max=40,
    schema_root_union=False,
    strict_schemas="complete",
)
_OPENAI_COMPATIBLE = Profile(
    system_inline=True,
    max_tokens_field="max_tokens",
    user_field="user",
    text_parts=False,
    pdf=False,
    reasoning_replay=True,
    custom_tools=False,
    usage_fallback="last_seen",
)
_RESPONSES = Profile(
    stream_obfuscation=True,
    instruction_role="developer",
    explicit_cache=True,
    tool_name_max=128,
    built_in_tools=True,
    namespaces=True,
    tool_search=True,
    agent_messages=True,
    schema_root_union=False,
    strict_schemas="complete",
)
_RESPONSES_COMPATIBLE = Profile(custom_tools=False, encrypted_reasoning=False)
_ANTHROPIC = Profile(
    max_temperature=1.0,
    billing_line=True,
    temperature_with_top_p=False,
    custom_tools=False,
    client_tools=True,
    system_inline=True,
    mid_system_models=MID_SYSTEM_MODELS,
    prefill_models=PREFILL_MODELS,
    efforts=("low", "medium", "high", "xhigh", "max"),
    tool_name_max=128,
    explicit_cache=True,
    schema_root_union=False,
    strict_schemas="closed",
    strict_refused=_UNSTRUCTURED,
)
_ANTHROPIC_COMPATIBLE = Profile(
    max_temperature=1.0,
    custom_tools=False,
    thinking="budget",
    efforts=("low", "medium", "high", "xhigh", "max"),
    thinking_replay="drop",
    message_stop=False,
    forced_choice_with_thinking=True,
    pdf=False,
    schema_root_union=False,
)

_GEMINI = Profile(
    custom_tools=False,
    efforts=("low", "medium", "high"),
    thinking_off=False,
    signed_calls=True,
    media_resolution=True,
    tool_name_max=128,
    stop_limit=5,
)
_GEMINI_COMPATIBLE = _GEMINI.replace({"images_in_tool_results": False, "media_resolution": False})

_OWN = {
    "chat": (_OPENAI, _OPENAI_COMPATIBLE),
    "messages": (_ANTHROPIC, _ANTHROPIC_COMPATIBLE),
    "responses": (_RESPONSES, _RESPONSES_COMPATIBLE),
    "generate": (_GEMINI, _GEMINI_COMPATIBLE),
}
"""Dialect → the profiles of its vendor and of an unknown server."""
VENDOR_PROFILES = {dialect: facts.vendor for dialect, facts in FACTS.items()}
"""The profile of a dialect's own vendor: the default where a provider names none."""
BUILTIN_PROFILES: dict[tuple[str, str], Profile] = {
    (dialect, name): profile
    for dialect, vendor in VENDOR_PROFILES.items()
    for name, profile in zip((vendor, "compatible"), _OWN[dialect], strict=True)
}
"""Profiles by (upstream dialect, profile name)."""
BUILTIN_PROFILES.update(
    {(v.dialect, v.name): BUILTIN_PROFILES[v.dialect, v.base].replace(v.flags()) for v in THIRD_PARTIES}
)


def builtin_profile(dialect: str, name: str | None = None) -> Profile:
    """Return the built-in profile `name` of an upstream dialect (default: its vendor's).

    Raises `ValueError` if there is no such profile.
    """
    vendor = VENDOR_PROFILES.get(dialect)
    if vendor is None:
        raise ValueError(f"no dialect {dialect!r}; there are {', '.join(VENDOR_PROFILES)}")
    profile = BUILTIN_PROFILES.get((dialect, name or vendor))
    if profile is None:
        known = sorted(other for dialect_, other in BUILTIN_PROFILES if dialect_ == dialect)
        raise ValueError(f"no profile {name!r} for the dialect {dialect!r}; there are {', '.join(known)}")
    return profile

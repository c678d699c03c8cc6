"""What an upstream can do: flags that writers and readers consult, never a model-name test (mapping §2).

A profile is shipped by name and dialect; configuration may override single flags.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from .model import EFFORTS


def _flag(default: Any, doc: str, *values: str) -> Any:
    return field(default=default, metadata={"doc": doc, "values": values})


@dataclass(frozen=True, slots=True)
class Profile:
    """Flags of one upstream. Field metadata holds the documentation and the allowed values."""

    family: str = _flag("", "who can read back the reasoning that this upstream sealed; empty = the dialect's name")
    max_tokens_field: str = _flag(
        "max_completion_tokens", "Chat's name of the output cap", "max_completion_tokens", "max_tokens"
    )
    max_output_tokens: int = _flag(0, "the model's largest output cap; higher ones are clamped; 0 = unknown")
    default_max_tokens: int = _flag(8192, "output cap written for Messages when the client gave none")
    sampling: str = _flag("free", "which sampling parameters are taken", "free", "default_only", "none")
    max_temperature: float = _flag(2.0, "largest temperature taken")
    anthropic_version: str = _flag("2023-06-01", "anthropic-version header sent", "2023-06-01", "2026-10-21")
    system_inline: bool = _flag(False, "takes `system` messages in mid-conversation")
    instruction_role: str = _flag("system", "Chat's role word for instructions", "system", "developer")
    efforts: tuple[str, ...] = _flag(EFFORTS, "effort levels taken, in rising order; empty = none")
    thinking: str = _flag("adaptive", "how Messages is asked to think", "adaptive", "budget", "none")
    thinking_off: bool = _flag(True, "takes thinking `disabled`")
    forced_choice_with_thinking: bool = _flag(False, "takes a forced tool choice while thinking")
    thinking_replay: str = _flag(
        "verify", "what happens to thinking of earlier turns", "verify", "own_required", "drop"
    )
    reasoning_replay: bool = _flag(False, "Chat: wants `reasoning_content` of earlier turns back")
    custom_tools: bool = _flag(True, "OpenAI dialects: takes free-text (custom) tools")
    namespaces: bool = _flag(False, "Responses: takes namespaces of tools")
    tool_search: bool = _flag(False, "Responses: takes `tool_search` and deferred tools")
    encrypted_reasoning: bool = _flag(True, "Responses: takes encrypted reasoning items back, and no plain ones")
    tool_name_max: int = _flag(64, "longest tool name")
    call_id_max: int = _flag(64, "longest tool call id")
    text_parts: bool = _flag(True, "takes arrays of text parts in system, assistant and tool content")
    images: bool = _flag(True, "takes images")
    images_in_tool_results: bool = _flag(True, "takes images in tool results (Messages)")
    pdf: bool = _flag(True, "takes PDF files")
    url_sources: bool = _flag(True, "fetches images and files by URL itself")
    explicit_cache: bool = _flag(False, "takes explicit cache marks")
    tools_with_reasoning: str = _flag(
        "any", "Chat: do function tools go together with reasoning effort", "any", "effort_none", "never"
    )
    usage_fallback: str = _flag("none", "Chat: usage that comes on a chunk with choices", "none", "last_seen")
    stop_limit: int = _flag(4, "Chat: stop sequences taken; further ones are emulated; 0 = none are taken")
    user_field: str = _flag("safety_identifier", "Chat: where the end user's id goes", "safety_identifier", "user")
    structured_output: bool = _flag(True, "takes a JSON schema as output format")
    stream_usage: bool = _flag(True, "Chat: takes `stream_options.include_usage`")

    def with_flags(self, flags: dict[str, Any]) -> Profile:
        """This profile with single flags replaced. Names and values are checked by the caller."""
        changed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in flags.items()}
        return replace(self, **changed)


FLAGS = {f.name: f for f in fields(Profile)}

_OPENAI = Profile(instruction_role="developer", explicit_cache=True, sampling="free", call_id_max=40)
_OPENAI_COMPATIBLE = Profile(
    max_tokens_field="max_tokens",
    user_field="user",
    text_parts=False,
    pdf=False,
    reasoning_replay=True,
    custom_tools=False,
    usage_fallback="last_seen",
)
_RESPONSES = Profile(
    instruction_role="developer",
    explicit_cache=True,
    tool_name_max=128,
    namespaces=True,
    tool_search=True,
)
_RESPONSES_COMPATIBLE = Profile(custom_tools=False, encrypted_reasoning=False)
_ANTHROPIC = Profile(
    max_temperature=1.0,
    custom_tools=False,
    system_inline=True,
    efforts=("low", "medium", "high", "xhigh", "max"),
    tool_name_max=128,
    explicit_cache=True,
)
_ANTHROPIC_COMPATIBLE = Profile(
    max_temperature=1.0,
    custom_tools=False,
    thinking="budget",
    efforts=("low", "medium", "high", "xhigh", "max"),
    thinking_replay="drop",
    forced_choice_with_thinking=True,
    pdf=False,
)

SHIPPED: dict[tuple[str, str], Profile] = {
    ("chat", "openai"): _OPENAI,
    ("chat", "compatible"): _OPENAI_COMPATIBLE,
    ("messages", "anthropic"): _ANTHROPIC,
    ("messages", "compatible"): _ANTHROPIC_COMPATIBLE,
    ("responses", "openai"): _RESPONSES,
    ("responses", "compatible"): _RESPONSES_COMPATIBLE,
}
"""Profiles by (upstream dialect, profile name)."""

VENDOR = {"chat": "openai", "messages": "anthropic", "responses": "openai"}
"""The profile of a dialect's own vendor: the default where a provider names none."""


def shipped(dialect: str, name: str | None = None) -> Profile:
    """The shipped profile `name` for an upstream dialect (default: its vendor's). Raises KeyError if there is none."""
    return SHIPPED[dialect, name or VENDOR[dialect]]

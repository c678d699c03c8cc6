"""Choices the operator makes, each with a default (mapping §17). The docs' table is made from this."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from dragoman.profiles.allowed_values import check_choices


def _knob(default: Any, doc: str, *others: str) -> Any:
    return field(default=default, metadata={"doc": doc, "values": (default, *others)})


def _number_knob(word: str, kind: type, least: float, most: float, form: str, doc: str, *others: str) -> Any:
    """`word` as the default, or a number of `kind` from `least` to `most`, which `form` stands for in the docs."""
    metadata = {"doc": doc, "values": (word, *others), "number": (kind, least, most), "form": form}
    return field(default=word, metadata=metadata)


def _list_knob(item: str, form: str, doc: str) -> Any:
    """A list, empty by default, of strings that match the pattern `item`; `form` shows one."""
    return field(default=(), metadata={"doc": doc, "values": (), "items": item, "form": form})


@dataclass(frozen=True, slots=True)
class Knobs:
    """Field metadata holds the documentation and the allowed values, default first.

    Raises ValueError for a value that is not allowed.
    """

    on_loss: Literal["record", "reject"] = _knob(
        "record", "what a loss in a request does: a row, or a 400 that names the field", "reject"
    )
    mid_system: Literal["auto", "hoist", "inline", "user"] = _knob(
        "auto",
        "instructions after the first user turn: in place where the upstream takes them, else moved to the front",
        "hoist",
        "inline",
        "user",
    )
    prefill: Literal["auto", "reject", "drop", "pass"] = _knob(
        "auto",
        "a conversation ending on assistant text: OpenAI upstreams get it as history, Messages upstreams without it",
        "reject",
        "drop",
        "pass",
    )
    reasoning_field: Literal["reasoning_content", "reasoning", "both", "off"] = _knob(
        "reasoning_content",
        "Chat clients: the extension field reasoning text is written to",
        "reasoning",
        "both",
        "off",
    )
    reasoning_surface: Literal["reasoning_text", "summary"] = _knob(
        "reasoning_text", "Responses clients: reasoning text is shown as itself or as a summary", "summary"
    )
    error_codes: Literal["documented", "codex"] = _knob(
        "documented",
        "Responses clients: codes of `response.failed` are those of the API's schema only, or also those that Codex"
        " decides by",
        "codex",
    )
    demote_reasoning: Literal["off", "on"] = _knob(
        "off", "foreign reasoning in history becomes plain assistant text", "on"
    )
    custom_tool_bridge: Literal["auto", "wrap", "reject"] = _knob(
        "auto",
        "free-text tools where the upstream has none: wrapped in a function for Responses clients, else a 400",
        "wrap",
        "reject",
    )
    derive_phase: Literal["off", "on"] = _knob(
        "off", "Responses upstreams: mark assistant messages of the history with a phase", "on"
    )
    hosted_tools: Literal["drop", "reject", "map"] = _knob(
        "drop", "provider-run tools the upstream does not have", "reject", "map"
    )
    stop_emulation: Literal["on", "off"] = _knob(
        "on", "cut the text here where the upstream cannot stop on a sequence", "off"
    )
    json_mode: Literal["drop", "reject", "instruct"] = _knob(
        "drop", "`json_object` towards Messages: left out, refused, or asked for in words", "reject", "instruct"
    )
    count_tokens: Literal["auto", "estimate", "exact"] = _knob(
        "auto",
        "counting endpoints: the upstream's where it has one, else an estimate; always an estimate; or never one (404)",
        "estimate",
        "exact",
    )
    auto_cache: Literal["off", "on"] = _knob(
        "off", "ask Messages upstreams to cache for OpenAI clients (cache writes cost money)", "on"
    )
    request_noise: Literal["strip", "keep"] = _knob(
        "strip",
        "Claude Code's billing line, which no server but Anthropic's reads and which defeats prompt caches",
        "keep",
    )
    echo_model: Literal["requested", "upstream"] = _knob("requested", "the model name in replies", "upstream")
    null_arguments: Literal["keep", "strip"] = _knob(
        "keep", "`null` in tool arguments where the tool's schema takes none: passed on, or left out", "strip"
    )
    overflow_sizes: Literal["upstream", "estimate"] = _knob(
        "upstream", "an upstream that refuses a prompt as too long without numbers: told so, or estimated", "estimate"
    )
    refusal_terminal: Literal["completed", "native"] = _knob(
        "completed",
        "a Messages refusal towards OpenAI clients: a result (`stop`), or a filter (`content_filter`)",
        "native",
    )
    block_order: Literal["auto", "interleave", "sequential"] = _knob(
        "auto",
        "blocks that overlap in a stream: one open at a time for Messages clients and live for others; live for all;"
        " or one at a time for all",
        "interleave",
        "sequential",
    )
    orphans: Literal["repair", "strip", "reject"] = _knob(
        "repair",
        "a tool call without result: an error result is added, the call is stripped, or a 400",
        "strip",
        "reject",
    )
    evict_images: str | int = _number_knob(
        "off",
        int,
        1,
        1000,
        "N",
        "images in tool results: the newest N stay, older ones become a placeholder, N at a time",
    )
    token_budget: str | float = _number_knob(
        "off",
        float,
        0.05,
        1.0,
        "SHARE",
        "a prompt beyond this share of `context_window` loses old images, tool results, reasoning; on = 0.8",
        "on",
    )
    pad_first_user: Literal["off", "on"] = _knob(
        "off", "a conversation that begins with the assistant gets a user message first", "on"
    )
    tool_prefixes: tuple[str, ...] = _list_knob(
        r"[A-Za-z0-9_-]+=[A-Za-z0-9_-]*",
        "OLD=NEW",
        "tool names that begin with OLD and not with NEW are sent with NEW instead, and restored in replies",
    )

    def __post_init__(self) -> None:
        check_choices(self)


KNOBS = {f.name: f for f in fields(Knobs)}
DEFAULT_KNOBS = Knobs()

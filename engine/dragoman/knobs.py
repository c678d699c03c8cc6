"""The operator's choices, each with a default (mapping §17)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from dragoman.profiles.check_choices import add_choices, check_choices
from dragoman.short_repr import changed_fields


def _number_knob(word: str, kind: type, least: float, most: float, form: str, *others: str) -> Any:
    """Return a field with the default `word` that also takes a number of `kind` from `least` to `most`.

    `form` stands for the number in the docs.
    """
    metadata = {"values": (word, *others), "number": (kind, least, most), "form": form}
    return field(default=word, metadata=metadata)


def _list_knob(item: str, form: str) -> Any:
    """Return a field for a list of strings that match the pattern `item`, empty by default. `form` is an example."""
    return field(default=(), metadata={"values": (), "items": item, "form": form})


@dataclass(frozen=True, slots=True)
class Knobs:
    """The operator's choices for a translation. A field's metadata holds the values that it allows.

    Raises ValueError for a value that is not allowed.
    """

    __repr__ = changed_fields

    on_loss: Literal["record", "reject"] = "record"
    """If part of a request cannot be translated: record a loss and go on, or reject the request with a 400 that names
    the field."""
    mid_system: Literal["auto", "hoist", "inline", "user"] = "auto"
    """Instructions after the first user turn: kept in place if the upstream takes them there, else moved to the
    front."""
    prefill: Literal["auto", "reject", "drop", "pass"] = "auto"
    """A conversation that ends with assistant text: sent as history to OpenAI upstreams; to Messages upstreams sent if
    the model continues it, else quoted at the end of a user message."""
    reasoning_field: Literal["reasoning_content", "reasoning", "both", "off"] = "reasoning_content"
    """Chat clients: the extension field in which they get reasoning text."""
    reasoning_surface: Literal["reasoning_text", "summary"] = "reasoning_text"
    """Responses clients: reasoning is sent as text or as a summary."""
    last_signature: Literal["send", "drop"] = "send"
    """Messages clients: Gemini's signature of a reply's last text, which it signs when it is complete: sent in a
    thinking block behind the text, or left out."""
    error_codes: Literal["documented", "codex"] = "documented"
    """Responses clients: `response.failed` has the codes of the API's schema only, or also those that Codex acts on."""
    heartbeats: Literal["comment", "event"] = "comment"
    """Responses clients: a heartbeat is a comment (on a WebSocket a ping), or a `keepalive` event, for clients whose
    timers count events only."""
    demote_reasoning: Literal["off", "on"] = "off"
    """Reasoning of other providers in the history becomes plain assistant text, instead of being dropped."""
    custom_tool_bridge: Literal["auto", "wrap", "reject"] = "auto"
    """Free-text tools, if the upstream has none: `auto` wraps them in a function for Responses clients and answers
    other clients with a 400, except for old calls, which it wraps."""
    derive_phase: Literal["off", "on"] = "off"
    """Responses upstreams: mark assistant messages of the history with a phase."""
    hosted_tools: Literal["drop", "reject", "map"] = "drop"
    """Tools that run at a provider, if the upstream does not have them: leave them out, reject the request, or
    translate web search."""
    stop_emulation: Literal["on", "off"] = "on"
    """If the upstream cannot stop at a sequence, Dragoman cuts the text there."""
    json_mode: Literal["instruct", "drop", "reject"] = "instruct"
    """`json_object` for Messages upstreams: replaced by an instruction, left out, or rejected."""
    count_tokens: Literal["auto", "estimate", "exact"] = "auto"
    """Counting endpoints: the upstream's if it has one, else an estimate; always an estimate; or never an estimate
    (404)."""
    auto_cache: Literal["off", "on"] = "off"
    """Request caching from Messages upstreams for OpenAI clients (cache writes cost money)."""
    request_noise: Literal["strip", "keep"] = "strip"
    """Claude Code's billing line, which only Anthropic's servers read and which defeats prompt caches."""
    echo_model: Literal["requested", "upstream"] = "requested"
    """The model name in replies."""
    null_arguments: Literal["keep", "strip"] = "keep"
    """`null` in tool arguments for which the tool's schema allows no null: kept, or left out."""
    overflow_sizes: Literal["upstream", "estimate"] = "upstream"
    """If the upstream rejects a prompt as too long without token counts: pass its message on, or add estimated
    counts."""
    refusal_terminal: Literal["completed", "native"] = "completed"
    """A refusal of a Messages upstream for OpenAI clients: a normal end (`stop`), or a filter (`content_filter`)."""
    block_order: Literal["auto", "interleave", "sequential"] = "auto"
    """Blocks that overlap in a stream: one open at a time for Messages clients and live for others; live for all; or
    one at a time for all."""
    orphans: Literal["repair", "strip", "reject"] = "repair"
    """A tool call without a result: add an error result, remove the call, or answer with a 400."""
    evict_images: str | int = _number_knob("off", int, 1, 1000, "N")
    """Images in tool results: at least the newest N are kept, older ones become a placeholder, N at a time."""
    token_budget: str | float = _number_knob("off", float, 0.05, 1.0, "SHARE", "on")
    """A prompt beyond this share of `context_window` loses old images, tool results, reasoning; on = 0.8."""
    pad_first_user: Literal["off", "on"] = "off"
    """A conversation that begins with the assistant gets a user message first."""
    tool_prefixes: tuple[str, ...] = _list_knob(r"[A-Za-z0-9_-]+=[A-Za-z0-9_-]*", "OLD=NEW")
    """Tool names that begin with OLD and not with NEW are sent with NEW instead, and restored in replies."""

    def __post_init__(self) -> None:
        check_choices(self)


add_choices(Knobs)
KNOBS = {f.name: f for f in fields(Knobs)}
"""The fields of `Knobs`, by name."""
DEFAULT_KNOBS = Knobs()

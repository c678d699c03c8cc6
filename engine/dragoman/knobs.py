"""Choices the operator makes, each with a default (mapping §17, design §8). The docs' table is made from this."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


def _knob(default: Any, doc: str, *others: str) -> Any:
    return field(default=default, metadata={"doc": doc, "values": (default, *others)})


@dataclass(frozen=True, slots=True)
class Knobs:
    """Field metadata holds the documentation and the allowed values, default first."""

    on_loss: str = _knob("record", "what a loss in a request does: a row, or a 400 that names the field", "reject")
    mid_system: str = _knob(
        "auto",
        "instructions after the first user turn: in place where the upstream takes them, else moved to the front",
        "hoist",
        "inline",
        "user",
    )
    prefill: str = _knob(
        "auto",
        "a conversation ending on assistant text: OpenAI upstreams get it as history, Messages upstreams without it",
        "reject",
        "drop",
        "pass",
    )
    reasoning_field: str = _knob(
        "reasoning_content",
        "Chat clients: the extension field reasoning text is written to",
        "reasoning",
        "both",
        "off",
    )
    reasoning_surface: str = _knob(
        "reasoning_text", "Responses clients: reasoning text is shown as itself or as a summary", "summary"
    )
    demote_reasoning: str = _knob("off", "foreign reasoning in history becomes plain assistant text", "on")
    custom_tool_bridge: str = _knob(
        "auto",
        "free-text tools where the upstream has none: wrapped in a function for Responses clients, else a 400",
        "wrap",
        "reject",
    )
    derive_phase: str = _knob("off", "Responses upstreams: mark assistant messages of the history with a phase", "on")
    hosted_tools: str = _knob("drop", "provider-run tools the upstream does not have", "reject", "map")
    stop_emulation: str = _knob("on", "cut the text here where the upstream cannot stop on a sequence", "off")
    json_mode: str = _knob(
        "drop", "`json_object` towards Messages: left out, refused, or asked for in words", "reject", "instruct"
    )
    auto_cache: str = _knob("off", "ask Messages upstreams to cache for OpenAI clients (cache writes cost money)", "on")
    echo_model: str = _knob("requested", "the model name in replies", "upstream")
    refusal_terminal: str = _knob(
        "completed",
        "a Messages refusal towards OpenAI clients: a result (`stop`), or a filter (`content_filter`)",
        "native",
    )
    block_order: str = _knob(
        "interleave", "parallel tool calls in a stream: as they come, or one after the other", "sequential"
    )
    orphans: str = _knob(
        "repair",
        "a tool call without result: an error result is added, the call is stripped, or a 400",
        "strip",
        "reject",
    )


KNOBS = {f.name: f for f in fields(Knobs)}
DEFAULT = Knobs()

"""`reasoning` and `text` of a Responses request and of its `configuration_update` items (mapping §5.5, §7.3)."""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import EFFORTS, Json, OutputFormat, Thinking
from dragoman.dialects.shared.json_fields import note_unknown, one_of, optional, required
from dragoman.errors import Path, Unsupported
from dragoman.losses import LossCode, Losses

_REASONING_KEYS: Final = frozenset({"effort", "summary", "context", "mode", "generate_summary"})
_TEXT_KEYS: Final = frozenset({"format", "verbosity"})
_FORMAT_KEYS: Final = frozenset({"type", "name", "schema", "strict", "description"})
_TYPE: Final = frozenset({"type"})
_SUMMARIES: Final = ("auto", "concise", "detailed")


def read_reasoning(body: Json, losses: Losses) -> Thinking | None:
    """Return `reasoning`, or None if it is empty. Options that only OpenAI has are dropped, with a loss."""
    options = optional(body, "reasoning", dict)
    if not options:
        return None
    at: Path = ("reasoning",)
    note_unknown(options, _REASONING_KEYS, at, losses)
    effort = one_of(options, "effort", EFFORTS, at)
    summary = one_of(options, "summary", _SUMMARIES, at)
    # Dropping a default is no loss.
    if optional(options, "mode", str, at) not in (None, "standard"):
        losses.add(LossCode.REASONING_MODE, (*at, "mode"))
    if optional(options, "context", str, at) not in (None, "auto"):
        losses.add(LossCode.REASONING_MODE, (*at, "context"))
    if one_of(options, "generate_summary", _SUMMARIES, at) not in (None, summary):
        losses.add(LossCode.REASONING_MODE, (*at, "generate_summary"))
    if effort is None and summary is None:
        return None
    return Thinking(effort, (*at, "summary" if effort is None else "effort"), summary=summary)


def read_effort(item: Json, at: Path, losses: Losses) -> Thinking | None:
    """Return `reasoning.effort` of the `configuration_update` at `at`, or None."""
    options = optional(item, "reasoning", dict, at)
    if not options:
        return None
    where = (*at, "reasoning")
    note_unknown(options, frozenset({"effort"}), where, losses)
    effort = one_of(options, "effort", EFFORTS, where)
    return None if effort is None else Thinking(effort, (*where, "effort"))


def read_text(body: Json, losses: Losses) -> tuple[OutputFormat | None, str | None]:
    """Return the format and the verbosity in `text`."""
    options = optional(body, "text", dict)
    if not options:
        return None, None
    at: Path = ("text",)
    note_unknown(options, _TEXT_KEYS, at, losses)
    return read_format(options, at, losses), one_of(options, "verbosity", ("low", "medium", "high"), at)


def read_format(text: Json, at: Path, losses: Losses) -> OutputFormat | None:
    """Return `format` of the `text` object at `at`, or None for plain text.

    Its fields are flat, unlike Chat's. Raises `Unsupported` for a format that no other dialect has.
    """
    options, where = optional(text, "format", dict, at), (*at, "format")
    if options is None:
        return None
    kind = required(options, "type", str, where)
    note_unknown(options, _FORMAT_KEYS if kind == "json_schema" else _TYPE, where, losses)
    if kind == "text":
        return None
    if kind == "json_object":
        return OutputFormat(kind, where)
    if kind != "json_schema":
        raise Unsupported((*where, "type"), f"unknown output format {kind!r}; known: text, json_object, json_schema")
    return OutputFormat(
        kind,
        where,
        name=optional(options, "name", str, where),
        schema=required(options, "schema", dict, where),
        strict=optional(options, "strict", bool, where),
        description=optional(options, "description", str, where),
    )

"""`reasoning` and `text` of a Responses request and of its `configuration_update` items (mapping §5.5, §7.3)."""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import EFFORTS, Json, OutputFormat, Thinking
from dragoman.dialects.openai.unknown_fields import note_unknown
from dragoman.dialects.shared.json_fields import one_of, optional, required
from dragoman.errors import Path, Unsupported
from dragoman.losses import LossCode, Losses

_REASONING_KEYS: Final = frozenset({"effort", "summary", "context", "mode", "generate_summary"})
_TEXT_KEYS: Final = frozenset({"format", "verbosity"})
_FORMAT_KEYS: Final = frozenset({"type", "name", "schema", "strict", "description"})
_TYPE: Final = frozenset({"type"})
_SUMMARIES: Final = ("auto", "concise", "detailed")


def read_reasoning(body: Json, losses: Losses) -> Thinking | None:
    """`reasoning`, or None when it asks for nothing. Options that only OpenAI has are dropped with a row."""
    given = optional(body, "reasoning", dict)
    if not given:
        return None
    at: Path = ("reasoning",)
    note_unknown(given, _REASONING_KEYS, at, losses)
    effort = one_of(given, "effort", EFFORTS, at)
    summary = one_of(given, "summary", _SUMMARIES, at)
    # What every request does anyway is no loss.
    if optional(given, "mode", str, at) not in (None, "standard"):
        losses.add(LossCode.REASONING_MODE, (*at, "mode"))
    if optional(given, "context", str, at) not in (None, "auto"):
        losses.add(LossCode.REASONING_MODE, (*at, "context"))
    if one_of(given, "generate_summary", _SUMMARIES, at) not in (None, summary):
        losses.add(LossCode.REASONING_MODE, (*at, "generate_summary"))
    if effort is None and summary is None:
        return None
    return Thinking(effort, (*at, "summary" if effort is None else "effort"), summary=summary)


def read_effort(item: Json, at: Path, losses: Losses) -> Thinking | None:
    """`reasoning.effort` of a `configuration_update` at `at`, or None."""
    given = optional(item, "reasoning", dict, at)
    if not given:
        return None
    where = (*at, "reasoning")
    note_unknown(given, frozenset({"effort"}), where, losses)
    effort = one_of(given, "effort", EFFORTS, where)
    return None if effort is None else Thinking(effort, (*where, "effort"))


def read_text(body: Json, losses: Losses) -> tuple[OutputFormat | None, str | None]:
    """The format and the verbosity that `text` asks for."""
    given = optional(body, "text", dict)
    if not given:
        return None, None
    at: Path = ("text",)
    note_unknown(given, _TEXT_KEYS, at, losses)
    return read_format(given, at, losses), one_of(given, "verbosity", ("low", "medium", "high"), at)


def read_format(text: Json, at: Path, losses: Losses) -> OutputFormat | None:
    """`format` of the `text` object at `at`; None for plain text.

    Its fields are flat, unlike Chat's. Raises `Unsupported` for a format that no other dialect has.
    """
    given, where = optional(text, "format", dict, at), (*at, "format")
    if given is None:
        return None
    kind = required(given, "type", str, where)
    note_unknown(given, _FORMAT_KEYS if kind == "json_schema" else _TYPE, where, losses)
    if kind == "text":
        return None
    if kind == "json_object":
        return OutputFormat(kind, where)
    if kind != "json_schema":
        raise Unsupported((*where, "type"), f"unknown output format {kind!r}; known: text, json_object, json_schema")
    return OutputFormat(
        kind,
        where,
        name=optional(given, "name", str, where),
        schema=required(given, "schema", dict, where),
        strict=optional(given, "strict", bool, where),
        description=optional(given, "description", str, where),
    )

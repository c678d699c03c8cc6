"""`reasoning` and `text` of a Responses request and of its `configuration_update` items (mapping §5.5, §7.3)."""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import EFFORTS, Json, OutputFormat, Thinking
from dragoman.dialects.openai.request_settings import read_format, read_verbosity
from dragoman.dialects.shared.json_fields import note_unknown, one_of, optional
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses

_REASONING_KEYS: Final = frozenset({"effort", "summary", "context", "mode", "generate_summary"})
_TEXT_KEYS: Final = frozenset({"format", "verbosity"})
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
    return read_text_format(options, at, losses), read_verbosity(options, at)


def read_text_format(text: Json, at: Path, losses: Losses) -> OutputFormat | None:
    """Return `format` of the `text` object at `at`, or None for plain text."""
    form = optional(text, "format", dict, at)
    return None if form is None else read_format(form, (*at, "format"), losses, nested=False)

"""Reads the settings of a Chat request: all fields but its messages and tools (mapping §7, §8.1)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import EFFORTS, Json, Request, Thinking
from dragoman.dialects.openai.request_settings import SERVICE_KEYS, read_format, read_service, read_verbosity
from dragoman.dialects.shared.effort import effort_of_budget
from dragoman.dialects.shared.json_fields import kind_of, note_unknown, one_of, optional, required
from dragoman.errors import ClientRequestError
from dragoman.losses import LossCode, Losses

# fmt: off
_RARE_SETTINGS = frozenset({
    "frequency_penalty", "presence_penalty", "logit_bias", "seed", "logprobs", "top_logprobs", "stop",
    "reasoning_effort", "thinking", "verbosity", "response_format",
})
# fmt: on
_THINKING_KEYS = frozenset({"type", "budget_tokens", "display"})
_SAMPLING: tuple[tuple[str, type[Any], Any], ...] = (
    ("frequency_penalty", float, 0),
    ("presence_penalty", float, 0),
    ("logit_bias", dict, {}),
    ("seed", int, None),
)


def read_rare_settings(request: Request, body: Json, losses: Losses) -> None:
    """Read all other settings. Raises `ClientRequestError` and `Unsupported`."""
    # Most requests have few settings, so their keys are checked all at once.
    if not _RARE_SETTINGS.isdisjoint(body):
        _read_rare_settings(request, body, losses)
    request.store = optional(body, "store", bool)
    if not SERVICE_KEYS.isdisjoint(body):
        read_service(request, body, losses)


def _read_rare_settings(request: Request, body: Json, losses: Losses) -> None:
    for key, kind, default in _SAMPLING:
        value = optional(body, key, kind)
        if value is not None and value != default:
            request.sampling[key] = value
    request.logprobs = bool(optional(body, "logprobs", bool))
    request.top_logprobs = optional(body, "top_logprobs", int)
    if "stop" in body:
        _read_stop(request, body["stop"], losses)
    effort = one_of(body, "reasoning_effort", EFFORTS)
    if body.get("thinking") is not None:
        request.thinking = _read_thinking(body, effort, losses)
    elif effort is not None:
        request.thinking = Thinking(effort, ("reasoning_effort",))
    request.verbosity = read_verbosity(body, ())
    form = optional(body, "response_format", dict)
    if form is not None:
        request.format = read_format(form, ("response_format",), losses, nested=True)


def _read_thinking(body: Json, effort: str | None, losses: Losses) -> Thinking | None:
    """Read Messages' `thinking`, which the compatible endpoints of Anthropic, DeepSeek, Kimi and GLM take.

    An effort overrides a budget; `disabled` overrides an effort.
    """
    at = ("thinking",)
    given = required(body, "thinking", dict)
    note_unknown(given, _THINKING_KEYS, at, losses)
    kind, budget = required(given, "type", str, at), optional(given, "budget_tokens", int, at)
    display = one_of(given, "display", ("summarized", "omitted", "updates"), at)
    if kind == "disabled":
        if effort not in (None, "none"):
            losses.add(LossCode.FIELD_OVERRIDDEN, ("reasoning_effort",), "thinking decides")
        return Thinking("none", at)
    if kind == "enabled":
        chosen = effort or (effort_of_budget(budget) if budget else "medium")
        return Thinking(chosen, at if effort is None else ("reasoning_effort",), display, budget=budget)
    if kind not in ("adaptive", "auto"):
        losses.add(LossCode.THINKING_MODE, (*at, "type"))
    return Thinking(effort, at if effort is None else ("reasoning_effort",), display)


def _read_stop(request: Request, stop: Any, losses: Losses) -> None:
    if stop is None:
        return
    request.stop_at = ("stop",)
    entries = stop if type(stop) is list else [stop]
    for i, entry in enumerate(entries):
        path = ("stop", i) if entries is stop else ("stop",)
        if type(entry) is not str:
            expected = "a string" if entries is stop else "a string or an array of strings"
            raise ClientRequestError(path, f"expected {expected}, got {kind_of(entry)}")
        if entry.strip():
            request.stop.append(entry)
        else:
            losses.add(LossCode.STOP_DROPPED, path, "empty or whitespace only")

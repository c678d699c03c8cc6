"""Reads the settings of a Chat request: all fields but its messages and tools (mapping §7, §8.1)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import EFFORTS, Json, OutputFormat, Request, Thinking
from dragoman.dialects.openai.prompt_cache_fields import CACHE_KEYS
from dragoman.dialects.openai.request_settings import read_service
from dragoman.dialects.shared.effort import effort_of_budget
from dragoman.dialects.shared.json_fields import kind_of, note_unknown, one_of, optional, required
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.losses import LossCode, Losses

# fmt: off
_RARE_SETTINGS = frozenset({
    "frequency_penalty", "presence_penalty", "logit_bias", "seed", "logprobs", "top_logprobs", "stop",
    "reasoning_effort", "thinking", "verbosity", "response_format",
})
# fmt: on
_THINKING_KEYS = frozenset({"type", "budget_tokens", "display"})
_SCHEMA_KEYS = frozenset({"name", "schema", "strict", "description"})
_SERVICE = frozenset({"user", "safety_identifier", "service_tier", "metadata", "store", "moderation", *CACHE_KEYS})


_SAMPLING: tuple[tuple[str, type[Any], Any], ...] = (
    ("frequency_penalty", float, 0),
    ("presence_penalty", float, 0),
    ("logit_bias", dict, {}),
    ("seed", int, None),
)


def read_common_settings(request: Request, body: Json) -> None:
    """Read the output cap and the sampling that all dialects have. Raises `ClientRequestError`."""
    for key in ("max_completion_tokens", "max_tokens"):  # the modern name wins (mapping §7.2)
        if key not in body:
            continue
        cap = optional(body, key, int)
        if cap is not None and request.max_tokens is None:
            if cap < 1:
                raise ClientRequestError((key,), "must be at least 1")
            request.max_tokens, request.max_tokens_at = cap, (key,)
    if "temperature" in body:
        request.temperature = optional(body, "temperature", float)
    if "top_p" in body:
        request.top_p = optional(body, "top_p", float)


def read_rare_settings(request: Request, body: Json, losses: Losses) -> None:
    """Read all other settings. Raises `ClientRequestError` and `Unsupported`."""
    # Most requests have few settings, so their keys are checked all at once.
    if not _RARE_SETTINGS.isdisjoint(body):
        _read_rare_settings(request, body, losses)
    if not _SERVICE.isdisjoint(body):
        read_service(request, body)
        request.store = optional(body, "store", bool)


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
    request.verbosity = one_of(body, "verbosity", ("low", "medium", "high"))
    request.format = _read_format(optional(body, "response_format", dict), losses)


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
        return Thinking("none", at)
    if kind == "enabled":
        return Thinking(effort or (effort_of_budget(budget) if budget else "medium"), at, display, budget=budget)
    if kind not in ("adaptive", "auto"):
        losses.add(LossCode.THINKING_MODE, (*at, "type"))
    return Thinking(effort, at, display)


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


def _read_format(body: Json | None, losses: Losses) -> OutputFormat | None:
    if body is None:
        return None
    at = ("response_format",)
    kind = required(body, "type", str, at)
    note_unknown(body, frozenset(("type", kind)), at, losses)
    if kind == "text":
        return None
    if kind == "json_object":
        return OutputFormat(kind, at)
    if kind != "json_schema":
        raise Unsupported((*at, "type"), f"unknown output format {kind!r}")
    schema, where = required(body, "json_schema", dict, at), (*at, "json_schema")
    note_unknown(schema, _SCHEMA_KEYS, where, losses)
    return OutputFormat(
        kind,
        at,
        name=optional(schema, "name", str, where),
        schema=optional(schema, "schema", dict, where),
        strict=optional(schema, "strict", bool, where),
        description=optional(schema, "description", str, where),
    )

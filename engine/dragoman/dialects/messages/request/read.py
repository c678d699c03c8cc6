"""Reads Messages requests into canonical ones (mapping §3, §8.2)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json, OutputFormat, Request
from dragoman.dialects.messages.request.read_content import read_cache
from dragoman.dialects.messages.request.read_tools import read_choice, read_tools
from dragoman.dialects.messages.request.read_turns import read_turns
from dragoman.dialects.messages.request.thinking_settings import read_effort, read_thinking
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.dialects.shared.json_fields import (
    drop_if_set,
    drop_unknown,
    kind_of,
    one_of,
    optional,
    reject_if_set,
    required,
    typed,
)
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.losses import LossCode, Losses

_REJECTED: Final[dict[str, str]] = {
    "container": "code execution containers do not exist at this upstream",
    "compaction": "this upstream makes no compaction blocks",
    "thread": "this upstream keeps no conversation: send all of it, without this field",
    "inference_geo": "this upstream cannot promise a region",
}
_REJECTED_CODES: Final = {"thread": "thread_unsupported_request"}
_DROPPED: Final[dict[str, LossCode]] = {
    "fallbacks": LossCode.VENDOR_OPTION,
    "fallback_credit_token": LossCode.VENDOR_OPTION,
    "billing_policy": LossCode.VENDOR_OPTION,
    "safeguards": LossCode.VENDOR_OPTION,
    "context_management": LossCode.CONTEXT_MANAGEMENT,
}
_IGNORED: Final = ("diagnostics", "betas", "user_profile_id", "workspace_id")
_READ: Final = (
    "model",
    "max_tokens",
    "messages",
    "system",
    "stream",
    "stop_sequences",
    "temperature",
    "top_p",
    "top_k",
    "thinking",
    "output_config",
    "output_format",
    "tools",
    "tool_choice",
    "metadata",
    "service_tier",
    "speed",
    "mcp_servers",
    "cache_control",
)
FIELDS: Final = frozenset({*_READ, *_REJECTED, *_DROPPED, *_IGNORED})
_USUAL: Final = frozenset({"model", "max_tokens", "messages", "system", "stream", "tools"})
"""The fields that most requests have. Those with others are searched for each group of the others."""
_NOT_CARRIED: Final = frozenset({*_REJECTED, *_DROPPED, "mcp_servers"})
_SAMPLING: Final = frozenset({"temperature", "top_p", "top_k", "stop_sequences"})
_OUTPUT_KEYS: Final = frozenset({"effort", "format", "task_budget"})
_FORMAT_KEYS: Final = frozenset({"type", "schema"})
_METADATA_KEYS: Final = frozenset({"user_id"})
_TIERS: Final = {"auto": "auto", "standard_only": "default"}


def read_request(body: Any, losses: Losses, knobs: Knobs, limits: Limits = DEFAULT_LIMITS) -> Request:
    """Return the canonical request of a client's body.

    Fields without a meaning in other dialects are dropped and recorded (mapping §8.2). Raises `ClientRequestError` for
    a malformed request, `Unsupported` for anything that no other dialect can express and must not be dropped, and
    `TooMany` for too many messages.

    Args:
        body: the parsed body; it is not changed.
        losses: where dropped fields are recorded.
        knobs: unused; part of the interface of all dialects.
        limits: the largest number of messages.
    """
    if type(body) is not dict:
        raise ClientRequestError("", f"expected a JSON object, got {kind_of(body)}")
    usual = _USUAL.issuperset(body)
    if not usual and not FIELDS.issuperset(body):
        drop_unknown(body, FIELDS, losses)
    model = required(body, "model", str)
    max_tokens = _max_tokens(body)
    config: Json = {}
    if not usual:
        if not _NOT_CARRIED.isdisjoint(body):
            _reject_or_drop(body, losses)
        if "output_config" in body:
            config = optional(body, "output_config", dict) or {}
            drop_unknown(config, _OUTPUT_KEYS, losses, ("output_config",))
    tools = read_tools(body, losses) if "tools" in body else []
    turns, effort = read_turns(body, tools, read_effort(config, losses) if config else None, losses, limits)
    request = Request(DIALECT, model, turns)
    request.include_usage = True  # Messages streams always report their usage
    request.tools = tools
    request.max_tokens, request.max_tokens_at = max_tokens, ("max_tokens",)
    request.stop_at = ("stop_sequences",)
    request.stream = optional(body, "stream", bool) or False
    if effort is not None or not usual:
        _read_settings(request, body, config, effort, losses)
    return request


def _read_settings(request: Request, body: Json, config: Json, effort: str | None, losses: Losses) -> None:
    """Read the fields that are not `_USUAL`. `config` is the field `output_config`."""
    if "tool_choice" in body:
        request.tool_choice, request.parallel = read_choice(body, request.tools, losses)
    if "speed" in body or "service_tier" in body:
        request.service_tier, request.service_tier_at = _service_tier(body, losses)
    if not _SAMPLING.isdisjoint(body):
        request.temperature = optional(body, "temperature", float)
        request.top_p = optional(body, "top_p", float)
        request.top_k = optional(body, "top_k", int)
        request.stop = _stop(body, losses)
    if "thinking" in body or effort is not None:
        request.thinking = read_thinking(body, effort, losses)
    if config or "output_format" in body:
        request.format = _format(body, config, losses)
    if "metadata" in body:
        request.end_user, request.end_user_at = _end_user(body, losses), ("metadata", "user_id")
    if "cache_control" in body:
        request.auto_cache = read_cache(body, (), losses)


def _reject_or_drop(body: Json, losses: Losses) -> None:
    """Reject or drop the fields that no other dialect has."""
    for key, why in _REJECTED.items():
        reject_if_set(body, key, why, code=_REJECTED_CODES.get(key))
    for key, code in _DROPPED.items():
        drop_if_set(body, key, code, losses)
    if body.get("mcp_servers"):
        raise Unsupported(("mcp_servers",), "this upstream does not connect to MCP servers")


def _max_tokens(body: Json) -> int:
    value = required(body, "max_tokens", int)
    if value == 0:
        raise Unsupported(("max_tokens",), "0 (filling the prompt cache only) cannot be sent to this upstream")
    if value < 0:
        raise ClientRequestError(("max_tokens",), f"must be positive; got {value}")
    return value


def _stop(body: Json, losses: Losses) -> list[str]:
    stops: list[str] = []
    for index, entry in enumerate(optional(body, "stop_sequences", list) or ()):
        at: Path = ("stop_sequences", index)
        if typed(entry, str, at).strip():
            stops.append(entry)
        else:
            losses.add(LossCode.STOP_DROPPED, at, "empty or whitespace only")
    return stops


def _format(body: Json, config: Json, losses: Losses) -> OutputFormat | None:
    at: Path = ("output_config", "format")
    given = optional(config, "format", dict, ("output_config",))
    former = optional(body, "output_format", dict)  # of the former beta, still sent by some clients
    if given is None:
        at, given = ("output_format",), former
        if given is None:
            return None
    elif former is not None and former != given:
        losses.add(LossCode.FIELD_OVERRIDDEN, ("output_format",), "output_config.format decides")
    one_of(given, "type", ("json_schema",), at)
    drop_unknown(given, _FORMAT_KEYS, losses, at)
    # The API always enforces the schema.
    return OutputFormat("json_schema", at, schema=required(given, "schema", dict, at), strict=True)


def _end_user(body: Json, losses: Losses) -> str | None:
    metadata = optional(body, "metadata", dict)
    if metadata is None:
        return None
    drop_unknown(metadata, _METADATA_KEYS, losses, ("metadata",))
    return optional(metadata, "user_id", str, ("metadata",))


def _service_tier(body: Json, losses: Losses) -> tuple[str | None, Path]:
    speed = optional(body, "speed", str)
    if speed is not None and speed != "standard":
        losses.add(LossCode.SERVICE_TIER, ("speed",))
    tier = one_of(body, "service_tier", _TIERS)
    return (None, ()) if tier is None else (_TIERS[tier], ("service_tier",))

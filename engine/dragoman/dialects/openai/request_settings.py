"""Settings that the requests of Chat and Responses have in common (mapping §7, §8.2)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json, OutputFormat, Request
from dragoman.dialects.openai.prompt_cache_fields import CACHE_KEYS
from dragoman.dialects.shared.json_fields import optional
from dragoman.errors import Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import sanitize_tool_name

_LONGEST_FORMAT_NAME = 64


def read_service(request: Request, body: Json) -> None:
    """Read the fields about the end user, the service tier, metadata, moderation and the prompt cache."""
    user = optional(body, "user", str)
    request.end_user = optional(body, "safety_identifier", str) or user or None
    request.service_tier = optional(body, "service_tier", str)
    if request.service_tier is not None:
        request.service_tier_at = ("service_tier",)
    request.metadata = optional(body, "metadata", dict)
    request.moderation = optional(body, "moderation", dict)
    for key in CACHE_KEYS:
        value: Any = optional(body, key, dict if key == "prompt_cache_options" else str)
        if value is not None:
            request.cache[key] = value


def output_cap(request: Request, cap: int, profile: Profile, losses: Losses) -> int:
    """Return the output limit to send: the requested one, or the upstream's largest.

    Raises Unsupported for less than one token, with which Messages clients fill the prompt cache only.
    """
    at = request.max_tokens_at or ("max_tokens",)
    if cap < 1:
        raise Unsupported(at, "warming the cache without output is not possible on this upstream")
    longest = profile.max_output_tokens
    if longest and cap > longest:
        losses.add(LossCode.CAP_CLAMPED, at, f"lowered from {cap} to {longest}")
        cap = longest
    return cap


def schema_fields(form: OutputFormat, origin: str, profile: Profile) -> Json:
    """Return the fields of an output format with a schema. Chat nests them, Responses has them next to the type.

    Raises Unsupported for an upstream without such formats, as JSON without a schema could have another shape.
    """
    if not profile.structured_output:
        raise Unsupported(form.at, "the upstream takes no JSON schema as output format")
    written: Json = {"name": sanitize_tool_name(form.name or "response", _LONGEST_FORMAT_NAME)}
    if form.description is not None:
        written["description"] = form.description
    if form.schema is not None:
        written["schema"] = form.schema
    strict = True if origin == "messages" and form.strict is None else form.strict
    if strict is not None:
        written["strict"] = strict
    return written

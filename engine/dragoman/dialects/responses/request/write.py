"""The canonical request to a Responses request body for an upstream (mapping §7, §8.1, §8.2).

Only fields named here are written, in a fixed order, so that equal requests have equal bytes.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json, Request, Thinking
from dragoman.dialects.openai.prompt_cache_fields import CACHE_KEYS
from dragoman.dialects.openai.request_settings import output_cap, schema_fields
from dragoman.dialects.responses.request.write_input import write_input
from dragoman.dialects.responses.request.write_tools import ToolsWriter
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.dialects.shared.effort import round_effort
from dragoman.dialects.shared.merge_users import join_users
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable, sanitize_user_id

_LEAST_CAP: Final = 16
_NO_ENVELOPES: Final = "chat"
"""The dialect whose clients do not send encrypted reasoning back."""
_OPENAI_TIERS: Final = {tier: tier for tier in ("auto", "default", "flex", "scale", "priority", "fast")}
# Tiers have prices, so only exact counterparts are translated (mapping §7.4).
_TIERS: Final[dict[str, dict[str, str]]] = {
    "chat": _OPENAI_TIERS,
    "messages": {"auto": "auto", "standard_only": "default", "default": "default"},
    "responses": {**_OPENAI_TIERS, "ultrafast": "ultrafast"},
}


def write_request(
    request: Request, *, model: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable
) -> Json:
    """Return the body to send upstream. Renamed tools are added to `names`; the reply restores their names.

    Raises `Unsupported` for a field of the client that the upstream cannot express, `ClientRequestError` if no content
    is left.
    """
    tools_writer = ToolsWriter(request, profile, knobs, losses, names)
    tools = tools_writer.write_declared() if request.tools else []
    choice = tools_writer.write_choice(tools) if request.tool_choice is not None else None
    instructions, items = write_input(request, tools_writer, profile, knobs, losses, names)
    if profile.strict_alternation:
        at = "input" if request.origin == "responses" else "messages"
        items = join_users(items, "input_text", (at,), losses)
    body: Json = {"model": model}
    if instructions is not None:
        body["instructions"] = instructions
    body["input"] = items
    if tools:
        body["tools"] = tools
        if choice is not None:
            body["tool_choice"] = choice
        if request.parallel is not None:
            body["parallel_tool_calls"] = request.parallel
    if request.max_tokens is not None:
        cap = output_cap(request, request.max_tokens, profile, losses)
        if cap < _LEAST_CAP:
            raised = f"raised from {cap} to {_LEAST_CAP}, the least that the API takes"
            losses.add(LossCode.CAP_RAISED, request.max_tokens_at or ("max_tokens",), raised)
            cap = _LEAST_CAP
        body["max_output_tokens"] = cap
    _write_sampling(body, request, profile, losses)
    if request.stop:
        _note_stop(request, knobs, losses)
    if request.thinking is not None:
        _write_reasoning(body, request.thinking, profile, losses)
    if request.format is not None or request.verbosity is not None:
        _write_text(body, request, profile)
    _write_include(body, request, profile)
    _write_service(body, request, losses)
    if request.stream:
        body["stream"] = True
        if profile.stream_obfuscation:
            body["stream_options"] = {"include_obfuscation": False}  # its padding would be discarded
    return body


def _write_sampling(body: Json, request: Request, profile: Profile, losses: Losses) -> None:
    temperature, top_p = request.temperature, request.top_p
    if temperature is not None and profile.sampling == "free" and temperature > profile.max_temperature:
        temperature = profile.max_temperature
        losses.add(LossCode.TEMPERATURE_CLAMPED, ("temperature",), f"lowered to {temperature:g}")
    if temperature is not None or top_p is not None:
        for key, value in (("temperature", temperature), ("top_p", top_p)):
            if value is None:
                continue
            if profile.sampling == "free" or (profile.sampling == "default_only" and value == 1):
                body[key] = value
            else:
                losses.add(LossCode.SAMPLING_UNSUPPORTED, (key,))
    for key in request.sampling:
        losses.add(LossCode.SAMPLING_UNSUPPORTED, (key,))
    if request.top_k is not None:
        losses.add(LossCode.TOP_K, ("top_k",))


def _note_stop(request: Request, knobs: Knobs, losses: Losses) -> None:
    """Record losses of stop sequences. Responses has none; `stages.stop_sequences` applies them (mapping §7.2)."""
    for entry in request.stop:
        if not entry.strip():
            losses.add(LossCode.STOP_DROPPED, request.stop_at, "empty or whitespace only")
        elif knobs.stop_emulation != "on":
            losses.add(LossCode.STOP_DROPPED, request.stop_at, "the upstream takes none")


def _write_reasoning(body: Json, thinking: Thinking, profile: Profile, losses: Losses) -> None:
    reasoning: Json = {}
    effort = thinking.effort
    if effort is not None:
        written = round_effort(effort, profile.efforts)
        if written != effort:
            code = LossCode.EFFORT_FLOOR if effort == "none" else LossCode.EFFORT_ROUNDED
            change = f"{effort} became {written}" if written else "the upstream has no effort levels"
            losses.add(code, thinking.at, change)
        if written is not None:
            reasoning["effort"] = written
    shown = thinking.display is not None and thinking.display != "omitted"
    if not profile.efforts and (thinking.summary is not None or shown):
        # A model without effort levels does not reason, and rejects a request for a summary.
        at = ("thinking", "display") if thinking.summary is None else ("reasoning", "summary")
        losses.add(LossCode.REASONING_MODE, at)
    elif thinking.summary is not None:
        reasoning["summary"] = thinking.summary
    elif shown:
        reasoning["summary"] = "auto"
        if thinking.display != "summarized":
            losses.add(LossCode.REASONING_MODE, ("thinking", "display"), "a summary was requested")
    if reasoning:
        body["reasoning"] = reasoning


def _write_text(body: Json, request: Request, profile: Profile) -> None:
    text: Json = {}
    if (form := request.format) is not None:
        text["format"] = {"type": form.kind}
        if form.kind == "json_schema":
            text["format"] |= schema_fields(form, request.origin, profile)
            if form.schema is None:
                raise Unsupported(form.at, "a Responses upstream needs a schema for structured output")
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    body["text"] = text


def _write_include(body: Json, request: Request, profile: Profile) -> None:
    include: list[str] = []
    if profile.encrypted_reasoning and profile.efforts and request.origin != _NO_ENVELOPES:
        # Clients send it back, in an envelope if their dialect is another one (mapping §5.2).
        include.append("reasoning.encrypted_content")
    if request.logprobs:
        include.append("message.output_text.logprobs")
    if include:
        body["include"] = include
    if request.top_logprobs is not None:
        body["top_logprobs"] = request.top_logprobs


def _write_service(body: Json, request: Request, losses: Losses) -> None:
    if request.origin == DIALECT:
        if request.store is not None:
            body["store"] = request.store
    else:  # only this dialect stores replies by default (mapping §7.4)
        body["store"] = request.store is True
    tier = request.service_tier
    if tier is not None:
        known = _TIERS.get(request.origin, {}).get(tier)
        if known is None:
            losses.add(LossCode.SERVICE_TIER, request.service_tier_at or ("service_tier",))
        else:
            body["service_tier"] = known
    if request.metadata is not None:
        body["metadata"] = request.metadata
    if request.end_user:
        body["safety_identifier"] = sanitize_user_id(request.end_user)
    if request.cache:
        for key in CACHE_KEYS:
            if key in request.cache:
                body[key] = request.cache[key]
    if request.moderation is not None:
        body["moderation"] = request.moderation

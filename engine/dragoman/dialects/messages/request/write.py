"""Writes canonical requests as Messages request bodies (mapping §3 to §7).

Only the fields named here are written, so no other field of a client's request can reach the upstream. The order of
keys is fixed: the same request always becomes the same bytes.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json, OutputFormat, Request
from dragoman.dialects.messages.request.output_cap import write_cap
from dragoman.dialects.messages.request.thinking_settings import write_thinking
from dragoman.dialects.messages.request.write_cache_marks import CacheMarks
from dragoman.dialects.messages.request.write_content import ContentWriter, collapse_single_text
from dragoman.dialects.messages.request.write_messages import write_conversation
from dragoman.dialects.messages.request.write_texts import write_texts
from dragoman.dialects.messages.request.write_tools import write_choice, write_tools
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.dialects.shared.refused_moderation import refuse_moderation
from dragoman.errors import Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable, sanitize_user_id

_TIERS: Final = {"auto": "auto", "default": "standard_only", "standard_only": "standard_only"}
_THINKING_BLOCKS: Final = ("thinking", "redacted_thinking")
_JSON_INSTRUCTION: Final = "Answer with a single JSON object and nothing else: no prose and no code fence."


def write_request(
    request: Request, *, model: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable
) -> Json:
    """Return the body to send to a Messages upstream, for `orjson.dumps`: it holds `orjson.Fragment`s.

    Raises `Unsupported`, which names the client's field, for anything that the API or the upstream cannot express.

    Args:
        request: the canonical request.
        model: the upstream's model.
        profile: the upstream's abilities.
        knobs: the operator's choices.
        losses: where dropped and changed fields are recorded.
        names: receives the upstream names of tools.
    """
    _reject_or_drop(request, losses)
    options = request.cache.get("prompt_cache_options")
    marks = CacheMarks(losses, explicit=profile.explicit_cache, ttl=options.get("ttl") if options else None)
    max_tokens = write_cap(request, model, profile, losses)
    tools: list[Json] = []
    choice: Json | None = None
    if request.tools or request.tool_choice is not None:
        tools, sent = write_tools(request, profile, knobs, losses, names, marks)
        choice, tools = write_choice(request, tools, sent, losses)
    written = write_texts(request.turns) if request.origin != DIALECT else None
    if written is None:
        writer = ContentWriter(request, profile, knobs, losses, names, marks)
        written = write_conversation(request, writer, model, profile, knobs, losses)
    system, messages = written
    thinking: Json | None = None
    effort: str | None = None
    if request.thinking is not None:
        thinking, effort = write_thinking(request, max_tokens, profile, knobs, losses)
    if thinking is not None:
        thinking = _disable_unprovable_thinking(request, thinking, messages, profile, losses)
        thinking, effort, choice = _resolve_forced_choice(request, thinking, effort, choice, profile, losses)

    body: Json = {"model": model, "max_tokens": max_tokens}
    if request.stream:
        body["stream"] = True
    output = _write_format(request.format, profile, knobs, losses, system) if request.format is not None else {}
    if system:
        plain = bool(request.turns) and request.turns[0].plain
        body["system"] = collapse_single_text(system, plain or request.origin != DIALECT)
    body["messages"] = messages
    if tools:
        body["tools"] = tools
    if choice is not None:
        body["tool_choice"] = choice
    if thinking is not None:
        body["thinking"] = thinking
    if effort is not None:
        output["effort"] = effort
    if output:
        body["output_config"] = output
    _write_sampling(request, body, profile, losses)
    if request.stop:
        _write_stop(request, body, profile, knobs, losses)
    if request.end_user:
        # For other providers than Anthropic: the id of Claude Code is JSON with device and account ids.
        own = request.origin == DIALECT and not profile.rewrite
        body["metadata"] = {"user_id": request.end_user if own else sanitize_user_id(request.end_user)}
    if request.service_tier is not None:
        tier = _TIERS.get(request.service_tier)
        if tier is None:
            losses.add(LossCode.SERVICE_TIER, request.service_tier_at)
        else:
            body["service_tier"] = tier
    automatic = request.auto_cache
    if knobs.auto_cache == "on" and profile.explicit_cache and request.origin != DIALECT:
        automatic = {}
    marks.settle(body, automatic)
    return body


def _reject_or_drop(request: Request, losses: Losses) -> None:
    """Reject or drop the fields that Messages lacks (mapping §8.1)."""
    if request.logprobs or request.top_logprobs:
        asked = request.logprobs and request.origin == "chat"
        at = ("logprobs",) if asked else ("top_logprobs",) if request.top_logprobs else ("include",)
        raise Unsupported(at, "a Messages upstream gives no log probabilities")
    if request.moderation is not None:
        refuse_moderation(request.moderation, losses, "Messages")
    for key in request.sampling:
        losses.add(LossCode.SAMPLING_UNSUPPORTED, (key,))
    if request.metadata:
        losses.add(LossCode.METADATA, ("metadata",))
    if request.verbosity is not None:
        losses.add(LossCode.VERBOSITY, ("text", "verbosity") if request.origin == "responses" else ("verbosity",))


def _disable_unprovable_thinking(
    request: Request, thinking: Json, messages: list[Json], profile: Profile, losses: Losses
) -> Json | None:
    """Return `thinking`, or None if it has a budget and the running tool loop does not begin with a thinking block.

    Claude requires that block, and a history of another dialect has none with a valid signature. Such a tool loop is
    finished without thinking (mapping §5.4).
    """
    if thinking["type"] != "enabled" or profile.thinking_replay != "verify" or len(messages) < 2:
        return thinking
    content = messages[-1]["content"]
    if type(content) is str or content[0]["type"] != "tool_result":
        return thinking
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    if last is None or (type(last["content"]) is list and last["content"][0]["type"] in _THINKING_BLOCKS):
        return thinking
    losses.add(LossCode.THINKING_DISABLED, _thinking_at(request), "the running tool loop began without thinking")
    return None


def _thinking_at(request: Request) -> Path:
    return () if request.thinking is None else request.thinking.at


def _resolve_forced_choice(
    request: Request,
    thinking: Json | None,
    effort: str | None,
    choice: Json | None,
    profile: Profile,
    losses: Losses,
) -> tuple[Json | None, str | None, Json | None]:
    """Change the thinking, effort or choice if the model does not allow a forced choice with thinking (mapping §6.2).

    Thinking is disabled if the model can do without; otherwise the choice becomes `auto`.
    """
    if (
        choice is None
        or choice["type"] not in ("any", "tool")
        or thinking is None
        or thinking["type"] == "disabled"
        or profile.forced_choice_with_thinking
    ):
        return thinking, effort, choice
    if profile.thinking_off:
        losses.add(LossCode.THINKING_DISABLED, _thinking_at(request), "a forced tool choice excludes thinking")
        return {"type": "disabled"}, None, choice
    losses.add(LossCode.CHOICE_DOWNGRADED, ("tool_choice",), "thinking excludes a forced choice; auto was sent")
    softer: Json = {"type": "auto"}
    if "disable_parallel_tool_use" in choice:
        softer["disable_parallel_tool_use"] = choice["disable_parallel_tool_use"]
    return thinking, effort, softer


def _write_format(wanted: OutputFormat, profile: Profile, knobs: Knobs, losses: Losses, system: list[Json]) -> Json:
    if wanted.kind == "json_object":
        if knobs.json_mode == "reject":
            raise Unsupported(wanted.at, "free JSON mode does not exist at a Messages upstream; give a schema")
        if knobs.json_mode == "instruct":
            system.append({"type": "text", "text": _JSON_INSTRUCTION})
            losses.add(LossCode.JSON_MODE, wanted.at, "requested in the system prompt")
        else:
            losses.add(LossCode.JSON_MODE, wanted.at)
        return {}
    if not profile.structured_output:
        raise Unsupported(wanted.at, "this upstream takes no output schema")
    if wanted.schema is None:
        raise Unsupported(wanted.at, "a Messages upstream needs a schema for structured output")
    if not wanted.strict:
        losses.add(LossCode.SCHEMA_STRICTNESS, wanted.at, "a Messages upstream always enforces the schema")
    return {"format": {"type": "json_schema", "schema": wanted.schema}}


def _write_sampling(request: Request, body: Json, profile: Profile, losses: Losses) -> None:
    """Write `temperature`, `top_p` and `top_k` (mapping §7.1).

    The API version of 2026-10-21 rejects these fields. With thinking, the API accepts only the default temperature,
    a `top_p` from 0.95 on, and no `top_k`.
    """
    refused = profile.sampling != "free" or profile.anthropic_version == "2026-10-21"
    thinks = body.get("thinking", {}).get("type") in ("adaptive", "enabled")
    temperature, top_p, top_k = request.temperature, request.top_p, request.top_k
    if temperature is not None:
        if refused or (thinks and temperature != 1):
            losses.add(LossCode.SAMPLING_UNSUPPORTED, ("temperature",))
        elif temperature > profile.max_temperature:
            losses.add(LossCode.TEMPERATURE_CLAMPED, ("temperature",), f"lowered to {profile.max_temperature:g}")
            body["temperature"] = profile.max_temperature
        else:
            body["temperature"] = temperature
    if top_p is not None:
        if refused or (thinks and top_p < 0.95):
            losses.add(LossCode.SAMPLING_UNSUPPORTED, ("top_p",))
        elif "temperature" in body and not profile.temperature_with_top_p:
            losses.add(
                LossCode.SAMPLING_UNSUPPORTED, ("top_p",), "dropped: the upstream does not accept it with temperature"
            )
        else:
            body["top_p"] = top_p
    if top_k is not None:
        if refused or thinks:
            losses.add(LossCode.TOP_K, ("top_k",))
        else:
            body["top_k"] = top_k


def _write_stop(request: Request, body: Json, profile: Profile, knobs: Knobs, losses: Losses) -> None:
    kept: list[str] = []
    if not profile.stop_limit:
        if knobs.stop_emulation != "on":
            losses.add(LossCode.STOP_DROPPED, request.stop_at, "the upstream takes none")
        return
    for index, entry in enumerate(request.stop):
        if entry and not entry.isspace():
            kept.append(entry)
        else:
            at = request.stop_at if len(request.stop) == 1 else (*request.stop_at, index)
            losses.add(LossCode.STOP_DROPPED, at, "the API refuses blank stop sequences")
    if kept:
        body["stop_sequences"] = kept

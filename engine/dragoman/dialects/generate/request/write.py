"""Writes canonical requests as bodies of `generateContent` and `streamGenerateContent`.

Only the fields named here are written: the API rejects a body with an unknown one. The order of keys is fixed, so the
same request always becomes the same bytes. The model and the choice of a stream are in the path.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json, OutputFormat, Request
from dragoman.dialects.generate.request.openapi_schema import to_openapi
from dragoman.dialects.generate.request.thinking_settings import write_thinking
from dragoman.dialects.generate.request.write_contents import ContentWriter
from dragoman.dialects.generate.request.write_tools import write_tools
from dragoman.dialects.shared.refused_moderation import refuse_moderation
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_STOPS: Final = 5
"""Most stop sequences that the API takes (`GenerationConfig` in ai.google.dev/api/generate-content)."""
_TIERS: Final = ("flex", "priority")
_JSON: Final = "application/json"


def write_request(
    request: Request, *, model: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable
) -> Json:
    """Return the body to send to a Gemini upstream, for `dumps`: it holds `orjson.Fragment`s.

    Raises `Unsupported`, which names the client's field, for anything that the API or the upstream cannot express.

    Args:
        request: the canonical request.
        model: the upstream's model, which is in the path only.
        profile: the upstream's abilities.
        knobs: the operator's choices.
        losses: where dropped and changed fields are recorded.
        names: receives the upstream names of tools.
    """
    _reject_or_drop(request, losses)
    tools: list[Json] = []
    config: Json | None = None
    if request.tools or request.tool_choice is not None:
        tools, config = write_tools(request, profile, knobs, losses, names)
    system, contents = ContentWriter(request, profile, knobs, losses, names).write()
    body: Json = {}
    if system:
        body["systemInstruction"] = {"parts": system}
    if tools:
        body["tools"] = tools
    if config is not None:
        body["toolConfig"] = config
    body["contents"] = contents
    generation = _write_generation(request, profile, knobs, losses)
    if generation:
        body["generationConfig"] = generation
    tier = request.service_tier
    if tier is not None and tier not in ("auto", "default", "standard_only"):
        if tier in _TIERS and tier in profile.service_tiers:
            body["serviceTier"] = tier
        else:
            losses.add(LossCode.SERVICE_TIER, request.service_tier_at)
    return body


def _reject_or_drop(request: Request, losses: Losses) -> None:
    """Reject or drop the fields that the API lacks. The cache key and `store` mean nothing there."""
    if request.moderation is not None:
        refuse_moderation(request.moderation, losses, "Gemini")
    if request.end_user:
        losses.add(LossCode.METADATA, request.end_user_at)
    if request.metadata:
        losses.add(LossCode.METADATA, ("metadata",))
    if request.verbosity is not None:
        losses.add(LossCode.VERBOSITY, ("text", "verbosity") if request.origin == "responses" else ("verbosity",))
    if request.auto_cache is not None:
        losses.add(LossCode.CACHE_HINT, ("cache_control",))


def _write_generation(request: Request, profile: Profile, knobs: Knobs, losses: Losses) -> Json:
    """Return the `generationConfig`."""
    config: Json = {}
    if request.max_tokens is not None:
        config["maxOutputTokens"] = _cap(request, request.max_tokens, profile, losses)
    _write_sampling(config, request, profile, losses)
    if request.stop:
        _write_stop(config, request, profile, knobs, losses)
    if request.logprobs:
        config["responseLogprobs"] = True
        if request.top_logprobs is not None:
            config["logprobs"] = request.top_logprobs
    elif request.top_logprobs is not None:
        losses.add(LossCode.SAMPLING_UNSUPPORTED, ("top_logprobs",), "logprobs are not requested")
    if request.format is not None:
        _write_format(config, request.format, profile, losses)
    thinking = write_thinking(request, profile, knobs, losses)
    if thinking is not None:
        config["thinkingConfig"] = thinking
    return config


def _cap(request: Request, cap: int, profile: Profile, losses: Losses) -> int:
    """Return the output limit to send. Raises Unsupported for less than one token, which only fills a cache."""
    at, most = request.max_tokens_at or ("max_tokens",), profile.max_output_tokens
    if cap < 1:
        raise Unsupported(at, "warming the cache without output is not possible on this upstream")
    if most and cap > most:
        losses.add(LossCode.CAP_CLAMPED, at, f"lowered from {cap} to {most}")
        return most
    return cap


def _write_sampling(config: Json, request: Request, profile: Profile, losses: Losses) -> None:
    """Write the sampling settings. Current models reject penalties, also where the client's are small."""
    values = (("temperature", "temperature", request.temperature), ("top_p", "topP", request.top_p))
    for field, key, value in (*values, ("top_k", "topK", request.top_k)):
        if value is None:
            continue
        if field == "temperature" and profile.sampling == "free" and value > profile.max_temperature:
            losses.add(LossCode.TEMPERATURE_CLAMPED, (field,), f"lowered to {profile.max_temperature:g}")
            value = profile.max_temperature
        if profile.sampling == "free" or (profile.sampling == "default_only" and value == 1 and field != "top_k"):
            config[key] = value
        else:
            losses.add(LossCode.TOP_K if field == "top_k" else LossCode.SAMPLING_UNSUPPORTED, (field,))
    for field, value in request.sampling.items():
        if field == "seed" and profile.sampling == "free":
            config["seed"] = value
        else:
            losses.add(LossCode.SAMPLING_UNSUPPORTED, (field,))


def _write_stop(config: Json, request: Request, profile: Profile, knobs: Knobs, losses: Losses) -> None:
    most = min(profile.stop_limit, _STOPS)
    if sent := request.stop[:most]:
        config["stopSequences"] = sent
    if knobs.stop_emulation != "on":
        for _ in request.stop[most:]:
            losses.add(LossCode.STOP_DROPPED, request.stop_at, f"the upstream takes {most}")


def _write_format(config: Json, wanted: OutputFormat, profile: Profile, losses: Losses) -> None:
    """Write an output format. Its name and its strictness have no place: a schema is always enforced."""
    if wanted.kind == "json_schema":
        if not profile.structured_output:
            raise Unsupported(wanted.at, "the upstream takes no JSON schema as output format")
        if wanted.schema is not None and profile.schemas == "openapi":
            config["responseSchema"] = to_openapi(wanted.schema, wanted.at, losses)
        elif wanted.schema is not None:
            config["responseJsonSchema"] = wanted.schema
    config["responseMimeType"] = _JSON

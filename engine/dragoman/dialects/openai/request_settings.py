"""Settings that the requests of Chat and Responses have in common (mapping §7, §8.2).

Some are fields of the body in Chat and of an object in Responses, as `verbosity` and `text.verbosity`. The readers and
writers of the dialects know these places; the values are read and written here.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json, OutputFormat, Request
from dragoman.dialects.openai.prompt_cache_fields import CACHE_KEYS
from dragoman.dialects.shared.effort import round_effort
from dragoman.dialects.shared.json_fields import note_unknown, one_of, optional, required
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import OPENAI_TIERS, Profile
from dragoman.tools.names import sanitize_tool_name, sanitize_user_id

SERVICE_KEYS: Final = frozenset({"user", "safety_identifier", "service_tier", "metadata", "moderation", *CACHE_KEYS})
"""The fields that `read_service` reads."""
_LONGEST_FORMAT_NAME: Final = 64
_TYPE: Final = frozenset({"type"})
_SCHEMA_KEYS: Final = frozenset({"name", "schema", "strict", "description"})
_FLAT_KEYS: Final = _TYPE | _SCHEMA_KEYS
_NESTED_KEYS: Final = _TYPE | {"json_schema"}
# Prices are never guessed: of Messages' tiers only these have a counterpart (mapping §7.4).
_MESSAGES_TIERS: Final = {"auto": "auto", "standard_only": "default", "default": "default"}
_ULTRAFAST: Final = "ultrafast"
"""The only tier that Responses has and Chat does not."""
_TIERS: Final = {
    "chat": {tier: tier for tier in OPENAI_TIERS if tier != _ULTRAFAST},
    "messages": _MESSAGES_TIERS,
    "responses": {tier: tier for tier in OPENAI_TIERS},
}
_PARALLEL_AT: Final[dict[str, Path]] = {"messages": ("tool_choice", "disable_parallel_tool_use")}
"""Dialect of the request → its field for parallel calls, unless it is `parallel_tool_calls`."""


# --- reading ----------------------------------------------------------------------------------------------------------


def read_sampling(request: Request, body: Json, caps: tuple[str, ...], losses: Losses) -> None:
    """Read temperature, `top_p` and the output cap, which is the first of the fields `caps` that is set.

    Another cap in one of the others is recorded as a loss.

    Raises `ClientRequestError`.
    """
    for key in caps:
        if key not in body:
            continue
        cap = optional(body, key, int)
        if cap is not None and request.max_tokens is None:
            if cap < 1:
                raise ClientRequestError((key,), "must be at least 1")
            request.max_tokens, request.max_tokens_at = cap, (key,)
        elif cap is not None and cap != request.max_tokens:
            losses.add(LossCode.FIELD_OVERRIDDEN, (key,), f"{request.max_tokens_at[0]} decides")
    if "temperature" in body:
        request.temperature = optional(body, "temperature", float)
    if "top_p" in body:
        request.top_p = optional(body, "top_p", float)


def read_verbosity(holder: Json, at: Path) -> str | None:
    """Return `verbosity` of the object at `at`."""
    return one_of(holder, "verbosity", ("low", "medium", "high"), at)


def read_format(form: Json, at: Path, losses: Losses, *, nested: bool) -> OutputFormat | None:
    """Return an output format, or None for plain text. In Chat the fields of a schema are nested in `json_schema`.

    Raises `Unsupported` for a format that no other dialect has.
    """
    kind = required(form, "type", str, at)
    if kind != "json_schema":
        note_unknown(form, _TYPE, at, losses)
        if kind not in ("text", "json_object"):
            raise Unsupported((*at, "type"), f"unknown output format {kind!r}")
        return OutputFormat(kind, at) if kind == "json_object" else None
    schema, where = form, at
    if nested:
        schema, where = required(form, kind, dict, at), (*at, kind)
        note_unknown(schema, _SCHEMA_KEYS, where, losses)
    note_unknown(form, _NESTED_KEYS if nested else _FLAT_KEYS, at, losses)
    return OutputFormat(
        kind,
        at,
        name=optional(schema, "name", str, where),
        schema=(optional if nested else required)(schema, "schema", dict, where),
        strict=optional(schema, "strict", bool, where),
        description=optional(schema, "description", str, where),
    )


def read_service(request: Request, body: Json, losses: Losses) -> None:
    """Read the fields about the end user, the service tier, metadata, moderation and the prompt cache."""
    for field in ("user", "safety_identifier"):  # the newer one wins
        if user := optional(body, field, str):
            if request.end_user and request.end_user != user:
                losses.add(LossCode.FIELD_OVERRIDDEN, request.end_user_at, f"{field} decides")
            request.end_user, request.end_user_at = user, (field,)
    request.service_tier = optional(body, "service_tier", str)
    if request.service_tier is not None:
        request.service_tier_at = ("service_tier",)
    request.metadata = optional(body, "metadata", dict)
    request.moderation = optional(body, "moderation", dict)
    for key in CACHE_KEYS:
        value: Any = optional(body, key, dict if key == "prompt_cache_options" else str)
        if value is not None:
            request.cache[key] = value


# --- writing ----------------------------------------------------------------------------------------------------------


def add_tools(
    body: Json, tools: list[Json], choice: str | Json | None, request: Request, profile: Profile, losses: Losses
) -> None:
    """Add the written tools to the body, their choice, and whether they may be called in parallel."""
    body["tools"] = tools
    if choice is not None:
        body["tool_choice"] = choice
    if request.parallel is None:
        return
    if profile.parallel_tool_calls:
        body["parallel_tool_calls"] = request.parallel
    elif not request.parallel:
        losses.add(LossCode.PARALLEL_CALLS, _PARALLEL_AT.get(request.origin, ("parallel_tool_calls",)))


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


def write_sampling(body: Json, request: Request, profile: Profile, losses: Losses, *, chat: bool) -> None:
    """Write temperature and `top_p`, and for a Chat upstream the settings that only Chat has."""
    temperature, rest = request.temperature, request.sampling
    if temperature is not None:
        if profile.sampling == "free" and temperature > profile.max_temperature:
            temperature = profile.max_temperature
            losses.add(LossCode.TEMPERATURE_CLAMPED, ("temperature",), f"lowered to {temperature:g}")
        _write_setting(body, "temperature", temperature, profile, losses)
    if request.top_p is not None:
        _write_setting(body, "top_p", request.top_p, profile, losses)
    if rest and chat and profile.sampling == "free":
        body.update(rest)
    elif rest:
        for key in rest:
            losses.add(LossCode.SAMPLING_UNSUPPORTED, (key,))


def _write_setting(body: Json, key: str, value: float, profile: Profile, losses: Losses) -> None:
    """Write temperature or `top_p`, unless the upstream takes none, or only the default."""
    if profile.sampling == "free" or (value == 1 and profile.sampling == "default_only"):
        body[key] = value
    else:
        losses.add(LossCode.SAMPLING_UNSUPPORTED, (key,))


def fit_effort(effort: str, at: Path, profile: Profile, losses: Losses) -> str | None:
    """Return the effort to send for the one that is requested at `at`, or None for an upstream without levels."""
    written = round_effort(effort, profile.efforts)
    if written != effort:
        code = LossCode.EFFORT_FLOOR if effort == "none" else LossCode.EFFORT_ROUNDED
        losses.add(code, at, f"{effort} became {written}" if written else "the upstream has no effort levels")
    return written


def schema_fields(form: OutputFormat, origin: str, profile: Profile) -> Json:
    """Return the fields of an output format with a schema.

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


def write_service(body: Json, request: Request, dialect: str, profile: Profile, losses: Losses) -> None:
    """Write `store` and what `read_service` reads, for an upstream of `dialect`."""
    own = request.origin == dialect
    # Only Responses stores replies by default (mapping §7.4).
    store = request.store if own else request.store is True if dialect == "responses" else None
    if store is not None:
        body["store"] = store
    if request.end_user:
        body[profile.user_field] = sanitize_user_id(request.end_user)
    tier = request.service_tier
    if tier is not None:
        known = _TIERS.get(request.origin, {}).get(tier)
        if known not in profile.service_tiers or (known == _ULTRAFAST and not own):
            losses.add(LossCode.SERVICE_TIER, request.service_tier_at or ("service_tier",))
        else:
            body["service_tier"] = known
    if request.metadata is not None:
        if store or profile.unstored_metadata:
            body["metadata"] = request.metadata
        elif request.metadata:
            losses.add(LossCode.METADATA, ("metadata",), "dropped: the upstream takes it only with store")
    if request.cache:
        for key in CACHE_KEYS:
            if key in request.cache:
                body[key] = request.cache[key]
    if request.moderation is not None:
        body["moderation"] = request.moderation

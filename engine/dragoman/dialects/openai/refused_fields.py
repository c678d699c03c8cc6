"""Top-level fields that a host of OpenAI's dialects rejects (flag `refused_fields`): they are left out, with a row."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.openai.prompt_cache_fields import CACHE_KEYS
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_edit import edit_members

_CODES: dict[str, LossCode] = {
    **dict.fromkeys(("user", "user_id", "safety_identifier", "metadata"), LossCode.METADATA),
    **dict.fromkeys(CACHE_KEYS, LossCode.CACHE_HINT),
    **dict.fromkeys(("temperature", "top_p", "seed", "logit_bias"), LossCode.SAMPLING_UNSUPPORTED),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), LossCode.SAMPLING_UNSUPPORTED),
    "max_tool_calls": LossCode.MAX_TOOL_CALLS,
    "moderation": LossCode.MODERATION,
    "parallel_tool_calls": LossCode.PARALLEL_CALLS,
    "prediction": LossCode.PREDICTION,
    "service_tier": LossCode.SERVICE_TIER,
    "truncation": LossCode.TRUNCATION,
    "verbosity": LossCode.VERBOSITY,
}
_ENDS = ("user", "user_id", "safety_identifier")
_PATHS: dict[tuple[str, str], Path] = {
    **{("messages", name): ("metadata", "user_id") for name in _ENDS},
    **{("responses", name): ("safety_identifier",) for name in _ENDS},
    ("messages", "parallel_tool_calls"): ("tool_choice", "disable_parallel_tool_use"),
    ("responses", "verbosity"): ("text", "verbosity"),
}
"""Dialect of the request and field of the upstream → the client's field, where it has another name."""
_DEFAULTS: dict[str, object] = {"parallel_tool_calls": True, "stream_options": None, "store": False}
"""Values that are the default of the upstream; None for any value."""


def leave_out(body: Json, refused: tuple[str, ...], origin: str, losses: Losses) -> None:
    """Remove these fields from a body for the upstream. Each that the client has set is a loss.

    `origin` is the dialect of the client's request.
    """
    for name in refused:
        if name in body:
            note(name, body.pop(name), origin, losses)


def without_refused(body: bytes, payload: Json, refused: tuple[str, ...], dialect: str, losses: Losses) -> bytes:
    """Return a body of the upstream's own dialect without these fields. The bytes of all others stay as they are."""
    edited = edit_members(body, {}, refused)
    for name in edited.omitted:
        note(name, payload[name], dialect, losses)
    return edited.data


def note(name: str, value: object, origin: str, losses: Losses) -> None:
    """Record that a field of this value was left out, unless the upstream does the same without it."""
    if name in _DEFAULTS and _DEFAULTS[name] in (None, value):
        return
    path = _PATHS.get((origin, name), (name,))
    losses.add(_CODES.get(name, LossCode.VENDOR_OPTION), path, "the upstream rejects the field")

"""Token counts in the replies of OpenAI's other endpoints, which are not translated: embeddings, images, audio, rerank.

Their forms differ: Images and Audio count as Responses does, Embeddings and Completions as Chat does, servers of rerank
as one of the two or as Cohere does (`meta`).
"""

from __future__ import annotations

from math import ceil
from typing import Any

from dragoman.canonical.events import Usage
from dragoman.dialects.openai.token_counts import inclusive_usage
from dragoman.dialects.shared.json_fields import read_count
from dragoman.dialects.shared.service_report import ReportHolder, note_billing, note_tier

AUDIO_TOKENS = 10
"""Tokens that a second of audio counts as, where an upstream counts seconds and no tokens."""
_TOKENS_MAX = 10**9
_INPUT = ("input_tokens", "prompt_tokens")
_OUTPUT = ("output_tokens", "completion_tokens")


def read_endpoint_usage(payload: Any) -> Usage | None:
    """Return the token counts of a reply or of an event, None without any."""
    if type(payload) is not dict:
        return None
    found = _counts(payload.get("usage"))
    if found is None and type(meta := payload.get("meta")) is dict:
        found = _counts(meta.get("tokens")) or _counts(meta.get("billed_units"))
    return found


def note_endpoint_service(payload: Any, holder: ReportHolder) -> None:
    """Note the tier and the price of a reply or of an event, as replies of Chat state them."""
    if type(payload) is dict:
        note_tier(holder, payload.get("service_tier"))
        if type(usage := payload.get("usage")) is dict:
            note_billing(holder, usage)


def read_audio_tokens(payload: Any) -> int | None:
    """Return the seconds of audio that a transcription states, as tokens; None if it states none.

    OpenAI's `whisper-1` has them in `usage`, and with `verbose_json` in `duration`, where they may be a string.
    """
    if type(payload) is not dict:
        return None
    usage = payload.get("usage")
    seconds: Any = usage.get("seconds") if type(usage) is dict else None
    if seconds is None:
        seconds = payload.get("duration")
    try:
        tokens = float(seconds) * AUDIO_TOKENS
    except (TypeError, ValueError):
        return None
    return ceil(tokens) if 0 <= tokens < _TOKENS_MAX else None


def _counts(counts: Any) -> Usage | None:
    if type(counts) is not dict:
        return None
    given, made = _first(counts, _INPUT), _first(counts, _OUTPUT)
    if given is None and made is None:
        given = read_count(counts, "total_tokens")
        return None if given is None else Usage(input_total=given)
    cached = None
    for name in _INPUT:
        if type(details := counts.get(f"{name}_details")) is dict:
            cached = read_count(details, "cached_tokens")
    reasoning = None
    for name in _OUTPUT:
        if type(details := counts.get(f"{name}_details")) is dict:
            reasoning = read_count(details, "reasoning_tokens")
    return inclusive_usage(given, cached, None, made, reasoning, read_count(counts, "total_tokens"))


def _first(counts: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := read_count(counts, name)) is not None), None)

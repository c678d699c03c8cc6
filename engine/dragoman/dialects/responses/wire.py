"""The words and counts of Responses: what its requests, replies and streams share (mapping §9)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import Citation, RefusalInfo, Stop, StopReason, Usage
from dragoman.canonical.request import Json
from dragoman.dialects.openai.settings import DECLINED, is_model_refusal
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses

DIALECT: Final = "responses"

TOOL_SEARCH: Final = "tool_search"
"""What a client-run tool search is called where calls have names: its item has none."""

# --- reading: status, usage, annotations ------------------------------------------------------------------------------

_READ_REASON: Final[dict[str, StopReason]] = {
    "max_output_tokens": StopReason.LENGTH,
    "content_filter": StopReason.FILTERED,
    "max_messages": StopReason.POLICY_CUT,
    "steered": StopReason.POLICY_CUT,
    # Of servers that kept Chat's or Messages' word.
    "max_tokens": StopReason.LENGTH,
    "length": StopReason.LENGTH,
}
_OTHER_WORDS: Final = ("max_tokens", "length")

ENDED: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})
"""Every `status` of a response that is over."""


def resolve_stop_reason(response: Json, status: str | None, *, calls: bool, refusal: bool, losses: Losses) -> Stop:
    """The stop of a response that is over, by its status and what it holds; a cut always wins (mapping §9.2).

    A reason that nobody knows still cut the reply: to call it an end would hide that.
    """
    if status == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if type(details) is dict else None
        native = reason if type(reason) is str else None
        known = _READ_REASON.get(native or "")
        if known is None:
            losses.add(LossCode.STOP_UNKNOWN, ("incomplete_details", "reason"), f"taken as a cut: {native!r}")
            known = StopReason.POLICY_CUT
        elif native in _OTHER_WORDS:
            losses.add_once(
                LossCode.REPLY_REPAIRED, ("incomplete_details", "reason"), f"read {native!r} as max_output_tokens"
            )
        return Stop(known, native)
    if status != "completed":
        losses.add(LossCode.STOP_UNKNOWN, ("status",), f"taken as completed: {status!r}")
    if calls:
        return Stop(StopReason.TOOL_CALLS, status)
    return Stop(StopReason.REFUSAL if refusal else StopReason.END, status)


def _count(body: Any, key: str) -> int | None:
    value = body.get(key) if type(body) is dict else None
    return value if type(value) is int and value >= 0 else None


def read_usage(obj: Any) -> Usage | None:
    """Canonical counts; None if there are none at all. `input_tokens` already includes what was cached."""
    if type(obj) is not dict:
        return None
    given, made = _count(obj, "input_tokens"), _count(obj, "output_tokens")
    if given is None and made is None:
        return None
    read = written = None
    if type(details := obj.get("input_tokens_details")) is dict:
        read, written = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
    details = obj.get("output_tokens_details")
    return Usage(given, read, written, made, _count(details, "reasoning_tokens") if type(details) is dict else None)


def read_citation(annotation: Json) -> Citation:
    """An annotation as a citation; only `url_citation` has common ground with the other dialects."""
    if annotation.get("type") != "url_citation":
        return Citation(DIALECT, annotation)
    url, title = annotation.get("url"), annotation.get("title")
    return Citation(
        DIALECT,
        annotation,
        url if type(url) is str else None,
        title if type(title) is str else None,
        _count(annotation, "start_index"),
        _count(annotation, "end_index"),
    )


# --- writing: status, refusal, usage, annotations ---------------------------------------------------------------------

_MAX: Final = ("incomplete", "max_output_tokens")
_WRITE_STATUS: Final[dict[StopReason, tuple[str, str | None]]] = {
    StopReason.END: ("completed", None),
    StopReason.STOP_SEQUENCE: ("completed", None),
    StopReason.TOOL_CALLS: ("completed", None),
    StopReason.REFUSAL: ("completed", None),
    StopReason.LENGTH: _MAX,
    StopReason.CONTEXT: _MAX,
    # `completed` would claim that nothing is missing.
    StopReason.PAUSED: _MAX,
    StopReason.POLICY_CUT: _MAX,
    StopReason.FILTERED: ("incomplete", "content_filter"),
}


def write_status(stop: Stop, knobs: Knobs, *, shown: bool) -> tuple[str, str | None]:
    """`status` and `incomplete_details.reason` of a stop (mapping §9.2).

    A Messages refusal is a result unless the knob says otherwise, as agents retry whatever is incomplete; after text or
    a call (`shown`) it is a cut by a filter whatever the knob (mapping §9.3).
    """
    if is_model_refusal(stop) and knobs.refusal_terminal == "completed" and not shown:
        return "completed", None
    return _WRITE_STATUS[stop.reason]


def refusal_wording(stop: Stop, info: RefusalInfo | None, *, shown: bool, refused: bool) -> str | None:
    """What a Messages refusal's own item says, or None for no such item: the model refused in words already, or what
    was shown needs no words of ours (mapping §9.3)."""
    if refused or not is_model_refusal(stop):
        return None
    explanation = info.explanation if info is not None else None
    return explanation or (None if shown else DECLINED)


def write_usage(usage: Usage | None, losses: Losses) -> Json | None:
    """`ResponseUsage`: every detail is required, so an unknown one is 0; null if nothing was counted (mapping §9.4)."""
    if usage is None:
        losses.add(LossCode.USAGE_ESTIMATED, "usage", "null: the upstream gave no counts")
        return None
    if usage.input_total is None or usage.output_total is None:
        losses.add(LossCode.USAGE_ESTIMATED, "usage", "a count that the upstream did not give is 0")
    given, made = usage.input_total or 0, usage.output_total or 0
    return {
        "input_tokens": given,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read or 0,
            "cache_write_tokens": usage.cache_write or 0,
        },
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": given + made,
    }


def write_citation(citation: Citation, length: int) -> Json | None:
    """A citation of a text of this length as an annotation, or None if the dialect has none such."""
    if citation.origin == DIALECT and citation.native:
        return citation.native
    if citation.url is None:
        return None
    start = citation.start or 0
    return {
        "type": "url_citation",
        "start_index": start,
        "end_index": max(start, length if citation.end is None else citation.end),
        "url": citation.url,
        "title": citation.title or "",
    }


def write_logprobs(tokens: list[Json]) -> list[Json]:
    """Log probabilities with every key that the dialect requires: Chat's `bytes` may be null, these may not."""
    return [
        _logprob(token) | {"top_logprobs": [_logprob(other) for other in _objects(token.get("top_logprobs"))]}
        for token in _objects(tokens)
    ]


def _objects(value: Any) -> list[Json]:
    return [entry for entry in value if type(entry) is dict] if type(value) is list else []


def _logprob(token: Json) -> Json:
    return {"token": token.get("token"), "bytes": token.get("bytes") or [], "logprob": token.get("logprob")}

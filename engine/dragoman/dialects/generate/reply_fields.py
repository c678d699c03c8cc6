"""The fields of replies and chunks: the known ones, and what they state about the service."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import Usage
from dragoman.canonical.request import Json
from dragoman.dialects.generate.snake_case import in_camel_case
from dragoman.dialects.generate.stop_and_usage import read_usage
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.dialects.shared.service_report import ReportHolder, note_calls, note_tier
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses

CANDIDATE_AT: Final[Path] = ("candidates", 0)
CONTENT_AT: Final[Path] = (*CANDIDATE_AT, "content")
PARTS_AT: Final[Path] = (*CONTENT_AT, "parts")

# fmt: off
REPLY: Final = frozenset((
    "candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId", "createTime", "modelStatus",
))
CANDIDATE: Final = frozenset((
    "content", "finishReason", "finishMessage", "index", "safetyRatings", "citationMetadata", "groundingMetadata",
    "groundingAttributions", "urlContextMetadata", "logprobsResult", "avgLogprobs", "tokenCount", "continuationToken",
))
PART: Final = frozenset((
    "text", "thought", "thoughtSignature", "functionCall", "inlineData", "fileData", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse", "functionResponse", "audioTranscription",
))
USAGE: Final = frozenset((
    "promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount",
    "toolUsePromptTokenCount", "promptTokensDetails", "cacheTokensDetails", "candidatesTokensDetails",
    "toolUsePromptTokensDetails", "serviceTier", "trafficType",
))
# fmt: on
"""The fields that are read, and those with a rating or a repetition, which no client is shown."""
CONTENT: Final = frozenset(("parts", "role"))
_DETAILS: Final = frozenset(name for name in USAGE if name.endswith("Details"))
_COUNT: Final = frozenset(("modality", "tokenCount"))
_RATING: Final = frozenset(
    ("category", "probability", "blocked", "probabilityScore", "severity", "severityScore", "overwrittenThreshold")
)
CALL: Final = frozenset(("id", "name", "args", "partialArgs", "willContinue"))
DROPPED: Final = (
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse", "functionResponse"),
    *("audioTranscription", "fileData"),
)
"""Kinds of parts that only Gemini's clients have."""
_URLS: Final = "url_context"


def record_unknown_fields(chunk: Json, losses: Losses) -> None:
    """Record the fields of a reply or a chunk that are not known."""
    if not REPLY.issuperset(chunk):
        record_unknown(chunk, REPLY, (), losses)


def record_unknown_candidate(candidate: Json, losses: Losses) -> None:
    """Record the fields of a candidate that are not known, and those that have no place in a client's reply."""
    if not CANDIDATE.issuperset(candidate):
        record_unknown(candidate, CANDIDATE, CANDIDATE_AT, losses)
    if ratings := candidate.get("safetyRatings"):
        record_unknown_members(ratings, _RATING, (*CANDIDATE_AT, "safetyRatings"), losses)
    if candidate.get("continuationToken"):
        losses.add_once(LossCode.UNKNOWN_FIELD, (*CANDIDATE_AT, "continuationToken"), "dropped")


def record_unknown_counts(usage: Any, losses: Losses) -> None:
    """Record the fields of a `usageMetadata` that are not known."""
    if type(usage) is not dict:
        return
    if not USAGE.issuperset(usage):
        record_unknown(usage, USAGE, ("usageMetadata",), losses)
    for key in sorted(_DETAILS.intersection(usage)):
        record_unknown_members(usage[key], _COUNT, ("usageMetadata", key), losses)


def record_unknown_members(values: Any, known: frozenset[str], at: Path, losses: Losses) -> None:
    """Record the fields that are not known of the objects in a list."""
    for index, value in enumerate(values if type(values) is list else ()):
        if type(value) is dict and not known.issuperset(value):
            record_unknown(value, known, (*at, index), losses)


def note_usage(usage: Any, holder: ReportHolder) -> None:
    """Note the service tier in a `usageMetadata`."""
    if type(usage) is dict and type(tier := usage.get("serviceTier")) is str:
        note_tier(holder, tier.lower())


def note_tools(candidate: Json, holder: ReportHolder) -> None:
    """Note the web searches and the pages read of a candidate."""
    counts: dict[str, int] = {}
    grounding, pages = candidate.get("groundingMetadata"), candidate.get("urlContextMetadata")
    if type(grounding) is dict and type(queries := grounding.get("webSearchQueries")) is list and queries:
        counts["web_search"] = len(queries)
    if type(pages) is dict and type(read := pages.get("urlMetadata")) is list and read:
        counts[_URLS] = len(read)
    if counts:
        note_calls(holder, counts)


def note_service(payload: Any, holder: ReportHolder) -> Usage | None:
    """Note what a complete reply states about its service, and return its token counts."""
    if type(payload) is not dict:
        return None
    payload = in_camel_case(payload, Losses())
    usage = payload.get("usageMetadata")
    note_usage(usage, holder)
    candidates = payload.get("candidates")
    if type(candidates) is list and candidates and type(candidates[0]) is dict:
        note_tools(candidates[0], holder)
    return read_usage(usage)

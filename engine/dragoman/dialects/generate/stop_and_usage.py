"""Stop reasons, blocked prompts and token usage of `generateContent`, and their canonical meaning.

Reasons: `Candidate.FinishReason` and `PromptFeedback.BlockReason`; counts: `UsageMetadata`, all in
ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from dragoman.canonical.events import RefusalInfo, Stop, StopReason, Usage
from dragoman.canonical.request import Json
from dragoman.dialects.errors.redact import quote_word, tidy
from dragoman.dialects.shared.json_fields import read_counts
from dragoman.dialects.shared.stop_words import check_shown, read_stop_word
from dragoman.errors import UpstreamStatusError
from dragoman.losses import LossCode, Losses

DIALECT: Final = "generate"

_STOP: Final = "STOP"
"""The natural end, a matched stop sequence, or calls: the content shows which."""
_PAUSED: Final = "CONTINUATION"
"""The reply reached a limit of the API and may be continued. The word in the common table is that of a cut."""
_OTHER: Final = "OTHER"
"""An unknown reason. Without any content, the reply was withheld."""
_MESSAGE_MAX: Final = 500
_COUNTS: Final = (
    *("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"),
    *("toolUsePromptTokenCount", "cachedContentTokenCount"),
)


def read_finish(native: str, message: Any) -> StopReason | None:
    """Return the canonical reason of a `finishReason`, or None if it is unknown.

    Raises `UpstreamStatusError` for one that reports an unusable reply, with the upstream's `finishMessage`.
    """
    if native == _STOP:
        return StopReason.END
    if native == _PAUSED:
        return StopReason.PAUSED
    try:
        return read_stop_word(native, "finishReason")
    except UpstreamStatusError as error:
        if not (text := read_message(message)):
            raise
        failure = replace(error.failure, message=f"{error.failure.message}: {text}")
    raise UpstreamStatusError(failure)


def read_message(message: Any) -> str:
    """Return a `finishMessage` or `blockReasonMessage`; an empty text without one."""
    return tidy(message)[:_MESSAGE_MAX] if type(message) is str else ""


def resolve_stop(native: str | None, *, calls: bool, shown: bool, losses: Losses) -> Stop:
    """Return the stop of a complete reply that is no error.

    Raises `UpstreamProtocolError` if nothing is shown and the reason is unknown, `UpstreamStatusError` as
    `read_finish`.

    Args:
        native: the `finishReason`.
        calls: True if the reply has calls.
        shown: True if the reply has anything else than reasoning.
        losses: where an unknown reason is recorded.
    """
    at = ("candidates", 0, "finishReason")
    reason = read_finish(native, None) if native else None
    if reason is None and native == _OTHER and not shown:
        reason = StopReason.FILTERED
    if reason is None:
        check_shown(native, "finishReason", shown=shown)
        losses.add(LossCode.STOP_UNKNOWN, at, f"read as STOP: {quote_word(native or '')!r}")
        reason = StopReason.END
    if reason is StopReason.END and calls:
        reason = StopReason.TOOL_CALLS
    return Stop(reason, native)


def refusal_of(native: str, message: Any, *, prompt: bool) -> RefusalInfo:
    """Return the details of a filtered reply, or of a prompt that was blocked. Google's word is in the explanation."""
    text = read_message(message)
    if not text:
        what = "blocked the prompt" if prompt else "withheld the reply"
        text = f"The upstream {what} ({quote_word(native)})."
    return RefusalInfo(text)


def read_usage(obj: Any) -> Usage | None:
    """Return the token counts of a `usageMetadata`, or None without any.

    Results of hosted tools are counted apart from the prompt, and thinking apart from the output. Zeros are left out,
    and in the first chunks of a stream all counts of the output, so there the thinking is not known.
    """
    if type(obj) is not dict:
        return None
    prompt, made, hidden, tools, cached = read_counts(obj, _COUNTS)
    if prompt is None and made is None:
        return None
    return Usage(
        None if prompt is None else prompt + (tools or 0),
        cached or 0,
        None,
        (made or 0) + (hidden or 0),
        hidden if made is None else hidden or 0,
    )


def check_end(reply: Json) -> None:
    """Raise `UpstreamStatusError` if the `finishReason` of a complete reply reports that it is unusable."""
    candidates = reply.get("candidates")
    for candidate in candidates if type(candidates) is list else ():
        if type(candidate) is dict and type(native := candidate.get("finishReason")) is str:
            read_finish(native, candidate.get("finishMessage"))

"""The output cap of a request, `max_tokens`, which Messages requires and clients of other dialects may leave out.

A cap that the client did not set is the model's largest (`Profile.default_output`). An upstream that takes less names
its limit in a 400, and the request is sent once more with it.
"""

from __future__ import annotations

import re
from typing import Final

from dragoman.canonical.request import Request
from dragoman.dialects.errors.context_overflow import is_overflow, read_sizes
from dragoman.dialects.messages.request.thinking_settings import thinking_budget
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.wire.json_codec import dumps, loads_exact

_FIELDS: Final[dict[str, Path]] = {"responses": ("max_output_tokens",)}
_CHAT_FIELD: Final[Path] = ("max_completion_tokens",)

_LEAST: Final = 1024
"""Smallest cap that is sent instead, in tokens. The error is better than a shorter reply: an agent compacts its
history."""
_TEXT_MAX: Final = 2000
"""Characters of an error's message that are read."""
_ABOUT_CAP: Final = re.compile(
    r"max[ _-]?(?:new|output|completion)?[ _-]?tokens|(?:output|completion) tokens"
    r"|maximum (?:number of )?tokens you requested",
    re.IGNORECASE,
)
_NUMBER: Final = r"(?<![\w.])(?<!\w-)(?:\d{1,3}(?:,\d{3}){1,3}|\d{1,9})(?!,?\d)(?![.-]?\w)"
_NUMBERS: Final = re.compile(_NUMBER)
_BELOW: Final = re.compile(rf"(?:less|lower|smaller|fewer) than (?P<a>{_NUMBER})|(?P<b>{_NUMBER}) \(exclusive\)", re.I)


def write_cap(request: Request, model: str, profile: Profile, losses: Losses) -> int:
    """Return the output cap to send for `model`, in tokens. One that the client did not set is a row."""
    wanted, most = request.max_tokens, profile.max_output_tokens
    if wanted is None:
        chosen = profile.default_output(model)
        losses.note(LossCode.CAP_ADDED, _FIELDS.get(request.origin, _CHAT_FIELD), f"{chosen} was sent")
        return chosen
    if most and wanted > most:
        losses.add(LossCode.CAP_CLAMPED, request.max_tokens_at, f"lowered to {most}")
        return most
    return wanted


def lower_cap(body: bytes, message: str, losses: Losses) -> tuple[bytes, int, bool] | None:
    """Return a refused request with the output cap that the upstream's error names.

    Args:
        body: a Messages request as it was sent.
        message: the message of the error.
        losses: the request's losses, to which the new cap is added.

    Returns the new body, its cap, and whether the cap is the model's, whatever the prompt; None if the client set the
    cap, or the message names no lower one of at least 1,024 tokens.
    """
    if LossCode.CAP_ADDED not in losses.counts:
        return None
    request = loads_exact(body)
    sent = request["max_tokens"]
    most, of_model = _named_limit(message[:_TEXT_MAX], sent)
    if not _LEAST <= most < sent:
        return None
    request["max_tokens"] = most
    thinking = request.get("thinking") or {}
    if "budget_tokens" in thinking:
        budget = thinking_budget(thinking["budget_tokens"], most, chosen=True)
        if budget:
            thinking["budget_tokens"] = budget
        else:
            del request["thinking"]
            losses.add(LossCode.EFFORT_FLOOR, "", "the upstream's output cap leaves no room for a thinking budget")
    path = next((row.path for row in losses.rows if row.code is LossCode.CAP_ADDED), "")  # not all rows are kept
    losses.add(LossCode.CAP_CLAMPED, path, f"lowered to {most}, as the upstream takes no more")
    return dumps(request), most, of_model


def _named_limit(message: str, sent: int) -> tuple[int, bool]:
    """Return the largest output cap that an error about the cap `sent` names, and whether it is the model's.

    0 if it names none. A context window is shared with the prompt, so the cap is what the prompt leaves.
    """
    overflow = is_overflow(message)
    if not overflow and not _ABOUT_CAP.search(message):
        return 0, False
    numbers = {int(number.replace(",", "")) for number in _NUMBERS.findall(message)}
    if overflow:
        if sent not in numbers:
            return 0, False  # the prompt alone is too long
        # Besides the cap: the prompt, the window, and sometimes the sum of cap and prompt.
        sizes = sorted(n for n in numbers if n != sent and n - sent not in numbers)
        known = read_sizes(message)
        window = known[1] if known is not None else sizes[-1] if sizes else 0
        return window - max((n for n in sizes if n != window), default=window), False
    if found := _BELOW.search(message):
        return int((found["a"] or found["b"]).replace(",", "")) - 1, True
    return max((n for n in numbers if n < sent), default=0), True

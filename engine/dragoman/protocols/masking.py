"""Upstreams' texts made fit to be shown: no secrets, no control characters, no books."""

from __future__ import annotations

import re

MESSAGE_MAX = 2000
TEXT_MAX = 8 * MESSAGE_MAX
"""As much of a text is looked at; the patterns below are linear, so this bounds their time."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Key prefixes of the vendors (`sk-` also as OpenAI echoes it, half starred) and JWTs.
    (re.compile(r"(?<![A-Za-z0-9])((?:sk|pk|rk|sess|xai|nvapi|pplx|fw|csk)[-_])[A-Za-z0-9_*.-]{6,}"), r"\1***"),
    (re.compile(r"(?<![A-Za-z0-9])((?:gsk|hf|r8|ghp|gho|ghs|github_pat)_)[A-Za-z0-9_*]{6,}"), r"\1***"),
    (re.compile(r"(?<![A-Za-z0-9])(AIza|AKIA|ASIA|ya29\.)[A-Za-z0-9_-]{12,}"), r"\1***"),
    (re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*)?"), "***"),
    # "Bearer token is missing" holds no secret: a credential has a digit, or is long.
    (
        re.compile(r"\b(Bearer|Basic)\s+(?:(?=[^\s\d]{0,64}\d)[\w.~+/=*-]{6,}|[\w.~+/=*-]{20,})", re.IGNORECASE),
        r"\1 ***",
    ),
    (re.compile(r"(api[ _-]?key provided:\s*[\"'`]?)[^\s\"'`,;]{3,}", re.IGNORECASE), r"\1***"),
    (
        re.compile(
            r"((?:api[ _-]?key|authorization|access[ _-]?token)[\"'`]?\s*[:=]\s*[\"'`]?)"
            r"(?=[^\s\"'`,;\d]{0,64}\d)[^\s\"'`,;&}]{6,}",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
    (re.compile(r"([?&](?:key|token)=)[^\s&\"'`]{6,}", re.IGNORECASE), r"\1***"),
)


def tidy(text: str) -> str:
    """A message fit to be shown: secrets masked, control characters gone, at most `MESSAGE_MAX` characters."""
    text = _CONTROL.sub(" ", text[:TEXT_MAX])
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text.strip() if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 1].rstrip() + "…"

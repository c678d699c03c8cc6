"""Texts of others made fit to leave the gateway: in an error, a header or a log line.

`redact` is the one place that takes secrets out, `quote` the one that makes a text safe inside a log line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from dragoman.wire.json_codec import dumps, loads

MESSAGE_MAX = 2000
TEXT_MAX = 8 * MESSAGE_MAX
"""As much of a text is looked at; the patterns below are linear, so this bounds their time."""
FIELD_MAX: Final = 300
"""Longest field of a log line, in characters."""
WORD_MAX: Final = 60
"""Longest name of an event or a type that is shown, in characters."""
MASK: Final = "***"
_SECRET_MIN: Final = 8
"""Shortest text that is taken for a secret: local servers are given keys such as `none` and `ollama`."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_HINT = re.compile(r"://|[?&]|[ksixwf8pot][-_]|aiza|akia|asia|ya29|eyj|bearer|basic|key|authorization|token")
"""Matches every text, in lower case, that one of the patterns below matches: one search instead of nine."""
_SHORTEST: Final = 9
"""Characters of the shortest text that one of the patterns below matches."""
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
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,15}://)([^\s\"'`<>]+)")
_QUERY_VALUE = re.compile(r"(?<==)[^&;#]+")


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """The text without `secrets`, without tokens that look like keys, and without users and query values of URLs."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MASK)
    if len(text) < _SHORTEST or _HINT.search(text.lower()) is None:
        return text
    text = _URL.sub(_redact_url, text)
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def _redact_url(found: re.Match[str]) -> str:
    rest, mark, query = found[2].partition("?")
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        authority = f"{MASK}@{authority.rpartition('@')[2]}"
    return f"{found[1]}{authority}{slash}{path}{mark}{_QUERY_VALUE.sub(MASK, query)}"


def redact_json(body: bytes, secrets: Sequence[str] = ()) -> bytes:
    """A JSON body with its strings redacted, member names included; the same bytes if there was nothing to redact.

    Raises ValueError if it is not JSON.
    """
    value = loads(body)
    try:
        clean = _redact_value(value, secrets)
        return body if clean == value else dumps(clean)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _redact_value(value: Any, secrets: Sequence[str]) -> Any:
    if type(value) is str:
        return redact(value, secrets)
    if type(value) is dict:
        return {redact(name, secrets): _redact_value(member, secrets) for name, member in value.items()}
    if type(value) is list:
        return [_redact_value(member, secrets) for member in value]
    return value


def is_secret(text: str) -> bool:
    """True if the text is long enough to be masked wherever it stands: a short one may be part of any word."""
    return len(text) >= _SECRET_MIN


def tidy(text: str, secrets: Sequence[str] = ()) -> str:
    """A message fit to be shown: secrets masked, control characters gone, at most `MESSAGE_MAX` characters."""
    text = redact(_CONTROL.sub(" ", text[:TEXT_MAX]), secrets)
    return text.strip() if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 1].rstrip() + "…"


def quote(text: str, longest: int = FIELD_MAX) -> str:
    """A text as a field of a log line: what could forge a line or steer a terminal is escaped, and it is cut short."""
    text = text[:longest]
    return text if text.isprintable() else ascii(text)[1:-1][:longest]


def quote_word(text: str) -> str:
    """A name that an upstream chose, as part of a log line. Of one that is too long for a name, only its length: half
    of it could be half of a key, which nothing would find again."""
    return quote(text, WORD_MAX) if len(text) <= WORD_MAX else f"<{len(text)} characters>"

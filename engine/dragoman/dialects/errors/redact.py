"""Redaction of foreign texts before they leave the gateway in an error, a header or a log line.

All secrets are removed by `redact`; `quote` makes a text safe inside a log line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from dragoman.wire.json_codec import dumps, loads

MESSAGE_MAX = 2000
"""Longest error message that is passed on, in characters."""
TEXT_MAX = 8 * MESSAGE_MAX
"""Characters of a text that are examined. The patterns below take linear time, so this bounds it."""
FIELD_MAX: Final = 300
"""Longest field of a log line, in characters."""
WORD_MAX: Final = 60
"""Longest name of an event or a type that is shown in a log line, in characters."""
MASK: Final = "***"
_SECRET_MIN: Final = 8
"""Shortest configured key that is treated as a secret: keys of local servers are words such as `none` and `ollama`."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_HINT = re.compile(r"://|[?&]|[ksixwf8pot][-_]|aiza|akia|asia|ya29|eyj|bearer|basic|key|authorization|token")
"""Matches each lower-cased text that any of the patterns below matches: one search instead of nine for most texts."""
_SHORTEST: Final = 9
"""Length of the shortest text that any of the patterns below matches."""
_MASKED: Final = r"[A-Za-z0-9_-]{0,12}\*{3,}[A-Za-z0-9_-]{0,6}(?![A-Za-z0-9_*-])"
"""A key that the vendor has masked itself: a few characters at both ends and stars between them. It stays readable."""
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    # The vendors' key prefixes (`sk-` also as OpenAI repeats it, half of it stars) and JWTs.
    (
        re.compile(
            r"(?<![A-Za-z0-9])((?:sk|pk|rk|sess|xai|nvapi|pplx|fw|csk)[-_])"
            rf"(?!{_MASKED})[A-Za-z0-9_*.-]{{5,}}[A-Za-z0-9_*-]"
        ),
        r"\1***",
    ),
    (re.compile(r"(?<![A-Za-z0-9])((?:gsk|hf|r8|ghp|gho|ghs|github_pat)_)[A-Za-z0-9_*]{6,}"), r"\1***"),
    (re.compile(r"(?<![A-Za-z0-9])(AIza|AKIA|ASIA|ya29\.)[A-Za-z0-9_-]{12,}"), r"\1***"),
    (re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*)?"), "***"),
    # "Bearer token is missing" holds no secret: a credential has a digit, or is long.
    (
        re.compile(r"\b(Bearer|Basic)\s+(?:(?=[^\s\d]{0,64}\d)[\w.~+/=*-]{6,}|[\w.~+/=*-]{20,})", re.IGNORECASE),
        r"\1 ***",
    ),
    (
        re.compile(rf"(api[ _-]?key provided:\s*[\"'`]?)(?!{_MASKED})[^\s\"'`,;]{{2,}}[^\s\"'`,;.]", re.IGNORECASE),
        r"\1***",
    ),
    (
        re.compile(
            r"((?:api[ _-]?key|authorization|access[ _-]?token)[\"'`]?\s*[:=]\s*[\"'`]?)"
            rf"(?!{_MASKED})(?=[^\s\"'`,;\d]{{0,64}}\d)[^\s\"'`,;&}}]{{6,}}",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
    (re.compile(r"([?&](?:key|token)=)[^\s&\"'`]{6,}", re.IGNORECASE), r"\1***"),
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,15}://)([^\s\"'`<>]+)")
_SEPARATOR = re.compile(r"([&;#])")
_PUBLIC_PARAMETER = re.compile(
    r"alt=(?:sse|json)|api-version=(?:\d{4}-\d\d-\d\d(?:-preview)?|preview|latest|v\d{1,2})|(?:beta|stream)=(?:true|false)"
)
"""Parameters that select the form of an API. Their values are words and dates, so that no key looks like one."""


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """Return the text without `secrets`, without anything that looks like a key, and without the user names, passwords
    and query values of URLs, apart from public parameters."""
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
    return f"{found[1]}{authority}{slash}{path}{mark}{''.join(map(_redact_parameter, _SEPARATOR.split(query)))}"


def is_public_parameter(parameter: str) -> bool:
    """True if a parameter of a query, such as `alt=sse`, selects the form of an API, so that it holds no secret."""
    return _PUBLIC_PARAMETER.fullmatch(parameter) is not None


def _redact_parameter(parameter: str) -> str:
    name, mark, value = parameter.partition("=")
    return parameter if not value or is_public_parameter(parameter) else f"{name}{mark}{MASK}"


def redact_json(body: bytes, secrets: Sequence[str] = ()) -> bytes:
    """Return a JSON body with its strings and member names redacted, the same bytes if there is nothing to redact.

    Raises ValueError if it is not JSON.
    """
    return redact_parsed(loads(body), body, secrets)


def redact_parsed(value: Any, body: bytes, secrets: Sequence[str]) -> bytes:
    """Return what `redact_json` returns for the body that `value` was parsed from."""
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
    """True if a configured key is long enough to be masked in any text. A short one may be part of a word."""
    return len(text) >= _SECRET_MIN


def tidy(text: str) -> str:
    """Return a message with secrets masked, without control characters, and of at most `MESSAGE_MAX` characters."""
    text = redact(_CONTROL.sub(" ", text[:TEXT_MAX])).strip()
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 1].rstrip() + "…"


def quote(text: str, longest: int = FIELD_MAX) -> str:
    """Return a text for a field of a log line, truncated and with unprintable characters escaped.

    So it can neither forge a log line nor control a terminal.
    """
    text = text[:longest]
    return text if text.isprintable() else ascii(text)[1:-1][:longest]


def quote_word(text: str) -> str:
    """Return a name that an upstream chose, such as an event's type, for a log line.

    A text too long for a name is replaced by its length: a part of it could be a part of a key, which no pattern
    recognizes.
    """
    return quote(text, WORD_MAX) if len(text) <= WORD_MAX else f"<{len(text)} characters>"

"""What the dialects' error readers share: finding the error in whatever an upstream answered, and classing it.

An error answer is read for every status and any body, and reading never raises: proxies send HTML, routers wrap, and
compatible servers have shapes of their own (chat §7.3). What is found becomes one canonical `Failure` (mapping §10).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.codes import IMPLIED
from dragoman.dialects.errors.context_overflow import is_overflow, sizes
from dragoman.dialects.errors.headers import failure_headers, request_id
from dragoman.dialects.errors.redact import TEXT_MAX, redact, redact_json, tidy
from dragoman.errors import Failure, FailureKind
from dragoman.wire.json_codec import loads

_WORD_MAX = 100
_DEPTH = 5

_K = FailureKind

BY_STATUS: dict[int, FailureKind] = {
    400: _K.INVALID_REQUEST,
    401: _K.AUTHENTICATION,
    402: _K.BILLING,
    403: _K.PERMISSION,
    404: _K.NOT_FOUND,
    408: _K.TIMEOUT,
    409: _K.CONFLICT,
    413: _K.TOO_LARGE,
    422: _K.INVALID_REQUEST,
    429: _K.RATE_LIMIT,
    503: _K.OVERLOADED,
    504: _K.TIMEOUT,
    524: _K.TIMEOUT,  # Cloudflare's own "a timeout occurred"
    529: _K.OVERLOADED,
}

_SHARP = frozenset((_K.CONTEXT_LENGTH, _K.BILLING, _K.POLICY))
"""Kinds that no HTTP status tells: the upstream's word for them beats its status."""
_VAGUE = frozenset((_K.INVALID_REQUEST, _K.TOO_LARGE, _K.API))
"""Kinds under which servers without a code for it report a context overflow."""

_SHARED_PARAMS = frozenset(("model", "stream", "temperature", "top_p", "tools", "tool_choice"))
"""Fields that have one name and meaning in all dialects; any other `param` names nothing in the client's body."""


def read(status: int, body: bytes, headers: Mapping[str, str], dialect: Dialect) -> Failure:
    """The failure that an HTTP answer tells. Never raises."""
    payload = _loads(body)
    found = _dig(payload, 0)
    if found is None:
        text = payload.strip() if type(payload) is str else _plain(body)
        if text and status < 400:
            text = f"upstream answered status {status} with a body that is no reply: {text}"
        found = _Found(text)
    if not found.message:
        found.message = f"upstream answered status {status} without a message{_hint(found)}"
    failure = _failure(status, found, dialect)
    failure.headers = failure_headers(headers)
    failure.request_id = _token(found.request_id) or _token(request_id(dialect, headers))
    return failure


def read_payload(payload: Any, dialect: Dialect) -> Failure:
    """The failure that an in-band error object tells; its status is what its type or code implies. Never raises."""
    found = _dig(payload, 0) or _Found()
    if not found.message:
        found.message = f"upstream reported an error without a message{_hint(found)}"
    failure = _failure(200, found, dialect)
    failure.request_id = _token(found.request_id)
    if found.headers:
        failure.headers = failure_headers(found.headers)
    return failure


def cleaned(failure: Failure, secrets: Sequence[str]) -> Failure:
    """The failure without the `secrets` that an upstream repeated in it, and without what looks like a key."""
    clean = replace(
        failure,
        message=redact(failure.message, secrets),
        native_type=_clean(failure.native_type, secrets),
        code=_clean(failure.code, secrets),
        param=_clean(failure.param, secrets),
        request_id=_clean(failure.request_id, secrets),
        headers={name: redact(value, secrets) for name, value in failure.headers.items()},
    )
    return failure if clean == failure else clean


def _clean(text: str | None, secrets: Sequence[str]) -> str | None:
    return redact(text, secrets) if text else text


def own_envelope(body: bytes, secrets: Sequence[str]) -> bytes | None:
    """An error body that any dialect's clients can read as it is (`{"error": {"message": …}}`), without `secrets`; None
    for any other body."""
    try:
        payload = loads(body)
        error = payload.get("error") if type(payload) is dict else None
        if type(error) is not dict or type(error.get("message")) is not str:
            return None
        return redact_json(body, secrets)
    except ValueError:
        return None


def classify(status: int, words: tuple[str | None, ...], message: str) -> tuple[FailureKind, int]:
    """Kind and status of an error with this HTTP status (below 400: none was given) and these type and code words."""
    told: tuple[FailureKind, int] | None = None
    for word in words:
        known = IMPLIED.get(word.lower().replace(" ", "_")) if word else None
        if known is not None and (told is None or known[0] in _SHARP):
            told = known
            if known[0] in _SHARP:
                break
    if status < 400:
        if (told is None or told[0] in _VAGUE) and is_overflow(message):
            return _K.CONTEXT_LENGTH, 400
        return told or (_K.API, 502)
    kind = BY_STATUS.get(status) or (_K.API if status >= 500 else _K.INVALID_REQUEST)
    if told is not None and (told[0] in _SHARP or (told[0] is _K.OVERLOADED and kind is _K.API)):
        kind = told[0]
    elif kind in _VAGUE and is_overflow(message):
        kind = _K.CONTEXT_LENGTH
    return kind, status


@dataclass(slots=True)
class _Found:
    """An error as it was found, before it is classed."""

    message: str = ""
    type: str | None = None
    code: str | None = None
    param: str | None = None
    status: int | None = None
    request_id: str | None = None
    headers: dict[str, str] | None = None


def _hint(found: _Found) -> str:
    word = found.code or found.type or found.status
    return f" ({word})" if word else ""


def _failure(status: int, found: _Found, dialect: Dialect) -> Failure:
    found.message = found.message[:TEXT_MAX]
    if status < 400:
        status = found.status or 200
    kind, implied = classify(status, (found.code, found.type), found.message)
    if status < 400 and kind is _K.OVERLOADED and dialect is Dialect.MESSAGES:
        implied = 529
    return Failure(
        kind,
        tidy(found.message),
        implied,
        native_type=found.type,
        code=found.code,
        param=found.param if found.param in _SHARED_PARAMS else None,
    )


_MESSAGE_KEYS = ("message", "error_message", "Message", "msg", "detail", "error_description", "description")


def _dig(value: Any, depth: int) -> _Found | None:
    """The error in a body of any shape, or None when there is nothing that looks like one."""
    if depth > _DEPTH:
        return None
    if type(value) is list:  # Gemini's compatible endpoint wraps its errors in an array
        return next((found for item in value[:4] if (found := _dig(item, depth + 1))), None)
    if type(value) is not dict:
        return None
    inner = value.get("error") or value.get("errors")
    if type(inner) is dict or type(inner) is list:
        found = _from_object(inner, depth) if type(inner) is dict else _dig(inner, depth + 1)
        if found is not None:
            found.request_id = found.request_id or _word(value.get("request_id"))
            return found
    detail = value.get("detail")
    if type(detail) is dict and (found := _dig(detail, depth + 1)):
        return found
    found = _from_object(value, depth)
    if type(inner) is str:
        if not found.message:
            found.message = inner
        elif found.type is None:  # OAuth's form: the error's name beside its description
            found.type = _word(inner)
        return found
    return found if found.message else None


def _from_object(error: Json, depth: int) -> _Found:
    message = next((text for key in _MESSAGE_KEYS if (text := _text(error.get(key), 0))), "")
    asked, most = error.get("n_prompt_tokens"), error.get("n_ctx")
    if message and type(asked) is int and type(most) is int and sizes(message) is None:
        # llama.cpp's sentence has no numbers, its error has (ggml-org/llama.cpp#15780).
        message = f"{message} ({asked} tokens > {most})"
    found = _Found(message, _word(error.get("type")) or _word(error.get("error_type")) or _word(error.get("__type")))
    if found.type == "error":
        found.type = None
    code = error.get("code")
    found.status = _status(code) or _status(error.get("status")) or _status(error.get("status_code"))
    if _status(code) is None:
        found.code = _word(code if type(code) is not int else str(code))
    details = error.get("details")
    if found.code is None and type(details) is dict:
        found.code = _word(details.get("error_code"))  # Messages' stable machine code (messages §11)
    metadata = error.get("metadata")
    if found.type is None:  # Google's `RESOURCE_EXHAUSTED`, OpenRouter's `payment_required`
        found.type = _word(error.get("status")) or _word(metadata.get("error_type") if type(metadata) is dict else None)
    found.param = _word(error.get("param"))
    found.request_id = _word(error.get("request_id"))
    headers = error.get("headers")
    if type(headers) is dict:  # the nested in-band errors of Responses carry their headers along
        found.headers = {k: str(v) for k, v in headers.items() if type(v) in (str, int, float)}
    if depth == 0 and type(metadata) is dict and metadata.get("raw"):
        _unpack(metadata["raw"], found)
    return found


def _unpack(raw: Any, found: _Found) -> None:
    """A router's `error.metadata.raw`, one level: what the provider behind it said is the message (mapping §10)."""
    nested = _loads(raw.encode("utf-8", "replace")) if type(raw) is str else raw
    inner = _dig(nested, 1)
    if inner is None:
        inner = _Found(_plain(raw.encode("utf-8", "replace")) if type(raw) is str else "")
    found.message = inner.message or found.message
    found.type = inner.type or found.type
    found.code = inner.code or found.code
    found.status = found.status or inner.status
    found.param = None


def _text(value: Any, depth: int) -> str:
    """The readable text of a message field, which may be a list of validation errors (FastAPI's `detail`)."""
    if type(value) is str:
        return value.strip()
    if depth > _DEPTH:
        return ""
    if type(value) is list:
        return "; ".join(filter(None, (_text(item, depth + 1) for item in value[:8])))
    if type(value) is dict:
        text = next((text for key in (*_MESSAGE_KEYS, "error") if (text := _text(value.get(key), depth + 1))), "")
        where = value.get("loc")
        if text and type(where) is list:
            return f"{'.'.join(str(step) for step in where[:16])}: {text}"
        return text
    return ""


def _word(value: Any) -> str | None:
    """A type, code or id: a short word, else None. Masked, as some servers put anything there."""
    if type(value) is not str or not value or len(value) > _WORD_MAX:
        return None
    return tidy(value) or None


def _status(value: Any) -> int | None:
    """An HTTP error status in a field, also as a string of digits (LiteLLM's `"code": "400"`)."""
    if type(value) is str and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if type(value) is int and 400 <= value <= 599 else None


_TOKEN = re.compile(r"[\x21-\x7e]{1,200}")


def _token(value: str | None) -> str | None:
    """A request id that may be put into a header."""
    return value if value and _TOKEN.fullmatch(value) else None


def _loads(body: bytes) -> Any:
    """The body's JSON, also when it came framed as an event; None if it is none."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    if body.startswith((b"event:", b"data:")):
        for line in body[:TEXT_MAX].splitlines():
            if line.startswith(b"data:"):
                try:
                    return orjson.loads(line[5:])
                except orjson.JSONDecodeError:
                    return None
    return None


_TITLE = re.compile(r"<(?:title|h1)\b[^<>]*>([^<]*)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_SPACE = re.compile(r"\s+")


def _plain(body: bytes) -> str:
    """A body that is not JSON, as text: of a page its title; of bytes that are no text, nothing."""
    text = body[:TEXT_MAX].decode("utf-8", "replace").strip()
    if text.count("\ufffd") * 8 > len(text):
        return ""
    if text.startswith("<"):
        title = _TITLE.search(text)
        text = (title[1].strip() if title else "") or _TAG.sub(" ", text)
        text = _SPACE.sub(" ", text).strip()
    return text

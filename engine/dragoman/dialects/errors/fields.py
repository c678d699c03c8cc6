"""The fields of an error in a body of any form: OpenAI's, Anthropic's, and those of compatible servers and proxies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any, Final

import orjson

from dragoman.canonical.request import Json
from dragoman.dialects.errors.codes import IMPLIED
from dragoman.dialects.errors.context_overflow import read_sizes
from dragoman.dialects.errors.google_details import read_details
from dragoman.dialects.errors.redact import TEXT_MAX, quote_word, tidy

_SHORT_MAX = 100
"""Longest type, code or id, in characters."""
_DEPTH = 5
"""Deepest nesting that is searched for an error."""
_ARRAY_MAX = 4
"""Entries of an array that are searched for an error."""

_MESSAGE_KEYS = ("message", "error_message", "Message", "msg", "detail", "error_description", "description")
# fmt: off
_READ: Final = frozenset((
    *_MESSAGE_KEYS, "type", "error_type", "__type", "code", "error_code", "status", "status_code", "param",
    "request_id", "headers", "metadata", "details", "error", "errors", "n_prompt_tokens", "n_ctx", "sequence_number",
    "object",
))
# fmt: on
"""The members of an error that are read, and those of an event that is one."""
_ENVELOPE: Final = _READ | {"event_id", "id", "created", "model", "choices"}
"""The members that are read of the object around an error, and those of a Chat chunk with one."""
_METADATA: Final = frozenset(("raw", "error_type"))
_DETAILS: Final = frozenset(("error_code",))
_UNREAD_MAX: Final = 32


def _unread(body: Json, known: frozenset[str], at: str = "") -> tuple[str, ...]:
    """Return the paths of the members with a value that are not known, at most `_UNREAD_MAX` of them."""
    if known.issuperset(body):
        return ()
    return tuple(f"{at}{quote_word(key)}" for key, value in body.items() if value and key not in known)[:_UNREAD_MAX]


@dataclass(slots=True)
class ErrorFields:
    """The fields of an error that was found in a body, before it is classified."""

    message: str = ""
    type: str | None = None
    code: str | None = None
    param: str | None = None
    status: int | None = None
    request_id: str | None = None
    headers: dict[str, str] | None = None
    unread: tuple[str, ...] = ()


_BASE_RESP: Final = {
    1000: 500, 1001: 504, 1002: 429, 1004: 401, 1008: 402, 1013: 500, 1024: 500, 1026: 400, 1027: 400, 1033: 500,
    1039: 429, 1041: 429, 1042: 400, 2013: 400, 2045: 429, 2049: 401, 2056: 429,
}  # fmt: skip
"""Code of MiniMax's `base_resp` → status (platform.minimax.io, error codes). Its errors come under status 200."""


def _vendor_error(payload: Json) -> Json | None:
    """Return the error in a form that only one vendor has: MiniMax's `base_resp`, or an exception of Bedrock's streams,
    which is an object with the exception's name as its only key. None without one.
    """
    base = payload.get("base_resp")
    if type(base) is dict and (code := base.get("status_code")):
        status = _BASE_RESP.get(code) if type(code) is int else None
        return {"message": base.get("status_msg"), "code": str(code), "status": status}
    if len(payload) != 1:
        return None
    ((name, body),) = payload.items()
    if not name.endswith("Exception") or type(body) is not dict or type(body.get("message")) is not str:
        return None
    return {"message": body["message"], "type": name[:1].upper() + name[1:]}


def hint(found: ErrorFields) -> str:
    """Return what stands for the message of an error without one: its code, type or status."""
    word = found.code or found.type or found.status
    return f" ({word})" if word else ""


def reports_error(payload: Any) -> bool:
    """Return whether a JSON value that is no reply of the dialect has one of the forms in which servers send errors.

    These are `error` or `errors` at the top, the flat forms of vLLM, FastAPI, DashScope and others, and arrays of them
    (Gemini).
    """
    if type(payload) is list:
        return any(map(reports_error, payload[:_ARRAY_MAX]))
    if type(payload) is not dict:
        return False
    if payload.get("error") or payload.get("errors") or payload.get("detail") or payload.get("object") == "error":
        return True
    if _vendor_error(payload) is not None:
        return True
    if "error_message" in payload or "error_type" in payload:
        return True
    text = payload.get("message") or payload.get("msg")
    return type(text) is str and _has_class(payload)


def _has_class(error: Json) -> bool:
    """Return whether an object with a message also has the code, type or status of an error."""
    if error.get("error_code"):
        return True
    code, kind = error.get("code"), error.get("type")
    if code and code != 200 and type(code) in (str, int):
        return True
    if type(kind) is str and ("error" in kind.lower() or kind.lower() in IMPLIED):
        return True
    return any(_status(error.get(key)) is not None for key in ("status", "status_code"))


def find_error(value: Any, depth: int = 0) -> ErrorFields | None:
    """Return the error in a parsed body of any form, or None if nothing in it looks like one."""
    if depth > _DEPTH:
        return None
    if type(value) is list:  # Gemini's compatible endpoint wraps its errors in an array
        return next((found for item in value[:_ARRAY_MAX] if (found := find_error(item, depth + 1))), None)
    if type(value) is not dict:
        return None
    if (own := _vendor_error(value)) is not None:
        return _from_object(own, depth)
    inner = value.get("error") or value.get("errors")
    if type(inner) is dict or type(inner) is list:
        found = _from_object(inner, depth) if type(inner) is dict else find_error(inner, depth + 1)
        if found is not None:
            found.request_id = found.request_id or _short_text(value.get("request_id"))
            found.unread += _unread(value, _ENVELOPE)
            return found
    detail = value.get("detail")
    if type(detail) is dict and (found := find_error(detail, depth + 1)):
        return found
    found = _from_object(value, depth)
    if type(inner) is str:
        if not found.message:
            found.message = inner
        elif found.type is None:  # OAuth: `error` holds the name, `error_description` the message
            found.type = _short_text(inner)
        return found
    return found if found.message else None


def _from_object(error: Json, depth: int) -> ErrorFields:
    message = next((text for key in _MESSAGE_KEYS if (text := _message_text(error.get(key), 0))), "")
    asked, most = error.get("n_prompt_tokens"), error.get("n_ctx")
    if message and type(asked) is int and type(most) is int and read_sizes(message) is None:
        # llama.cpp has the numbers in fields and not in its message (ggml-org/llama.cpp#15780).
        message = f"{message} ({asked} tokens > {most})"
    found = ErrorFields(
        message,
        _short_text(error.get("type")) or _short_text(error.get("error_type")) or _short_text(error.get("__type")),
    )
    if found.type == "error":
        found.type = None
    code = error.get("code")
    found.status = _status(code) or _status(error.get("status")) or _status(error.get("status_code"))
    if _status(code) is None:
        found.code = _short_text(code if type(code) is not int else str(code))
    details = error.get("details")
    if found.code is None and type(details) is dict:
        found.code = _short_text(details.get("error_code"))  # the machine-readable code of Messages (messages §11)
    metadata = error.get("metadata")
    if found.type is None:  # Google's `RESOURCE_EXHAUSTED`, OpenRouter's `payment_required`
        found.type = _short_text(error.get("status")) or _short_text(
            metadata.get("error_type") if type(metadata) is dict else None
        )
    found.param = _short_text(error.get("param"))
    found.request_id = _short_text(error.get("request_id"))
    found.unread = _unread(error, _READ, "error.")
    if type(metadata) is dict:
        found.unread += _unread(metadata, _METADATA, "error.metadata.")
    if type(details) is dict:
        found.unread += _unread(details, _DETAILS, "error.details.")
    elif type(details) is list:
        google = read_details(details, error.get("message"))
        found.code = found.code or _short_text(google.reason)
        found.param = found.param or _short_text(google.param)
        found.headers = google.headers or None
        if google.unread:
            found.unread += ("error.details",)
    elif details:
        found.unread += ("error.details",)
    headers = error.get("headers")
    if type(headers) is dict:  # nested in-band errors of Responses include their headers
        found.headers = {k: str(v) for k, v in headers.items() if type(v) in (str, int, float)}
    if depth == 0 and type(metadata) is dict and metadata.get("raw"):
        _read_nested(metadata["raw"], found)
    return found


def _read_nested(raw: Any, found: ErrorFields) -> None:
    """Replace the fields of a router's error by those of its provider, from `error.metadata.raw` (mapping §10)."""
    nested = parse_body(raw.encode("utf-8", "replace")) if type(raw) is str else raw
    inner = find_error(nested, 1)
    if inner is None:
        inner = ErrorFields(plain_text(raw.encode("utf-8", "replace")) if type(raw) is str else "")
    found.message = inner.message or found.message
    found.type = inner.type or found.type
    found.code = inner.code or found.code
    found.status = found.status or inner.status
    found.unread += inner.unread
    found.param = None


_JSON: Final = JSONDecoder()
_UNSPECIFIC_STATUSES: Final = (None, 500, 502)
"""Statuses of an error in place of which that of the error within its message is used."""


def unwrap(found: ErrorFields, depth: int = 0) -> None:
    """Put the message of an error that is JSON within a message in its place, and use its type, code and status.

    Routers send the body of their provider's error so, often after a few words of their own.
    """
    text = found.message
    start = text.find("{")
    if start < 0 or depth > _DEPTH:
        return
    try:
        payload, end = _JSON.raw_decode(text, start)
    except (ValueError, RecursionError):
        return
    if not reports_error(payload) or (inner := find_error(payload, 1)) is None:
        return
    unwrap(inner, depth + 1)
    before, after = text[:start], text[end:]
    if before.endswith("[") and after.startswith("]"):
        before, after = before[:-1], after[1:]
    found.message = before + (inner.message or hint(inner).strip()) + after
    found.type = inner.type or found.type
    found.code = inner.code or found.code
    if found.status in _UNSPECIFIC_STATUSES:
        found.status = inner.status or found.status
    found.request_id = found.request_id or inner.request_id


def _message_text(value: Any, depth: int) -> str:
    """Return the text of a message field, which may be a list of validation errors (`detail` of FastAPI)."""
    if type(value) is str:
        return value.strip()
    if depth > _DEPTH:
        return ""
    if type(value) is list:
        return "; ".join(filter(None, (_message_text(item, depth + 1) for item in value[:8])))
    if type(value) is dict:
        text = next(
            (text for key in (*_MESSAGE_KEYS, "error") if (text := _message_text(value.get(key), depth + 1))), ""
        )
        where = value.get("loc")
        if text and type(where) is list:
            return f"{'.'.join(str(step) for step in where[:16])}: {text}"
        return text
    return ""


def _short_text(value: Any) -> str | None:
    """Return a type, code or id with secrets masked, or None if it is not a short text."""
    if type(value) is not str or not value or len(value) > _SHORT_MAX:
        return None
    return tidy(value) or None


def _status(value: Any) -> int | None:
    """Return the HTTP error status in a field, also from a string of digits (`"code": "400"` of LiteLLM), else None."""
    if type(value) is str and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if type(value) is int and 400 <= value <= 599 else None


def parse_body(body: bytes) -> Any:
    """Return the parsed body, also if it is the data of a server-sent event; None if it is not JSON."""
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


def plain_text(body: bytes) -> str:
    """Return a body that is not JSON as text: the title of an HTML page, "" for binary data."""
    text = body[:TEXT_MAX].decode("utf-8", "replace").strip()
    if text.count("\ufffd") * 8 > len(text):
        return ""
    if text.startswith("<"):
        title = _TITLE.search(text)
        text = (title[1].strip() if title else "") or _TAG.sub(" ", text)
        text = _SPACE.sub(" ", text).strip()
    return text

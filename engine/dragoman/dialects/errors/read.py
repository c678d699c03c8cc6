"""Reads error responses of any form into a canonical `Failure` (mapping §10). Used by the readers of all dialects.

Any status and any body can be read, and reading never raises: proxies send HTML, routers wrap the errors of others, and
compatible servers have forms of their own (chat §7.3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from json import JSONDecoder
from typing import Any, Final

import orjson

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.codes import IMPLIED
from dragoman.dialects.errors.context_overflow import is_overflow, read_sizes
from dragoman.dialects.errors.empty_account import is_empty_account
from dragoman.dialects.errors.headers import failure_headers, request_id
from dragoman.dialects.errors.redact import TEXT_MAX, quote_word, redact, redact_json, tidy
from dragoman.errors import Failure, FailureKind, UpstreamProtocolError, UpstreamStatusError
from dragoman.losses import Losses
from dragoman.wire.json_codec import loads

_SHORT_MAX = 100
"""Longest type, code or id, in characters."""
_DEPTH = 5
"""Deepest nesting that is searched for an error."""
_ARRAY_MAX = 4
"""Entries of an array that are searched for an error."""

_K = FailureKind

_CONTENT_KEYS: dict[Dialect, str] = {
    Dialect.CHAT: "choices",
    Dialect.MESSAGES: "content",
    Dialect.RESPONSES: "output",
}
"""The member that every complete reply has. An object without it may be an error."""

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

_WITHOUT_STATUS = frozenset((_K.CONTEXT_LENGTH, _K.BILLING, _K.POLICY))
"""Kinds that no HTTP status expresses: the upstream's code for them overrides its status."""
_UNSPECIFIC = frozenset((_K.INVALID_REQUEST, _K.TOO_LARGE, _K.API))
"""Kinds as which servers without a code for it report a context overflow."""

_SHARED_PARAMS = frozenset(("model", "stream", "temperature", "top_p", "tools", "tool_choice"))
"""Request fields with the same name and meaning in all dialects. Any other `param` would name a field that the client
did not send."""


def read_error_response(status: int, body: bytes, headers: Mapping[str, str], dialect: Dialect) -> Failure:
    """Return the failure that an HTTP response reports, also an error body under a 2xx status. Never raises."""
    payload = _parse_body(body)
    found = _find_error(payload, 0)
    if found is None:
        text = payload.strip() if type(payload) is str else _plain_text(body)
        if text and status < 400:
            text = f"upstream answered status {status} with a body that is not a reply: {text}"
        found = _ErrorFields(text)
    if not found.message:
        found.message = f"upstream answered status {status} without a message{_hint(found)}"
    failure = _failure(status, found, dialect)
    failure.headers = failure_headers(headers)
    failure.request_id = _header_value(found.request_id) or _header_value(request_id(dialect, headers))
    return failure


def read_error_payload(payload: Any, dialect: Dialect) -> Failure:
    """Return the failure that an in-band error reports, with the status that its type or code implies.

    The payload may be of any form, also a text. Never raises.
    """
    found = _find_error(payload, 0) or _ErrorFields(payload.strip() if type(payload) is str else "")
    if not found.message:
        found.message = f"upstream reported an error without a message{_hint(found)}"
    failure = _failure(200, found, dialect)
    failure.request_id = _header_value(found.request_id)
    if found.headers:
        failure.headers = failure_headers(found.headers)
    return failure


def read_error_event(data: bytes, dialect: Dialect) -> Failure:
    """Return the failure that an event named `error` reports. Its data may be JSON of any form, or a text.

    Never raises.
    """
    payload = _parse_body(data)
    return read_error_payload(_plain_text(data) if payload is None else payload, dialect)


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
    if "error_message" in payload or "error_type" in payload:
        return True
    text = payload.get("message") or payload.get("msg")
    return type(text) is str and _has_class(payload)


def reply_object(body: bytes, dialect: Dialect, parse: Callable[[bytes], Any] = loads) -> Json:
    """Return the JSON object of a complete reply.

    Raises UpstreamProtocolError, or UpstreamStatusError for an error in place of a reply, in any form.
    """
    try:
        payload = parse(body)
    except ValueError:
        raise UpstreamProtocolError("upstream answered with a body that is not JSON") from None
    if (type(payload) is not dict or payload.get(_CONTENT_KEYS[dialect]) is None) and reports_error(payload):
        raise UpstreamStatusError(read_error_payload(payload, dialect))
    if type(payload) is not dict:
        raise UpstreamProtocolError("upstream answered with a body that is not a JSON object")
    return payload


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


def redact_failure(failure: Failure, secrets: Sequence[str]) -> Failure:
    """Return the failure without `secrets`, which upstreams may repeat, and without anything that looks like a key."""
    clean = replace(
        failure,
        message=redact(failure.message, secrets),
        native_type=_redact_optional(failure.native_type, secrets),
        code=_redact_optional(failure.code, secrets),
        param=_redact_optional(failure.param, secrets),
        request_id=_redact_optional(failure.request_id, secrets),
        headers={name: redact(value, secrets) for name, value in failure.headers.items()},
    )
    return failure if clean == failure else clean


def _redact_optional(text: str | None, secrets: Sequence[str]) -> str | None:
    return redact(text, secrets) if text else text


def own_envelope(body: bytes, secrets: Sequence[str]) -> bytes | None:
    """Return the redacted body if it has the form `{"error": {"message": …}}`, which clients of all dialects can read;
    None for any other body."""
    try:
        payload = loads(body)
        error = payload.get("error") if type(payload) is dict else None
        if type(error) is not dict or type(error.get("message")) is not str:
            return None
        return redact_json(body, secrets)
    except ValueError:
        return None


def classify(status: int, words: tuple[str | None, ...], message: str) -> tuple[FailureKind, int]:
    """Return the kind and the status of an error.

    Args:
        status: its HTTP status; below 400 if it has no error status.
        words: its code and type, or None for each that is missing.
        message: its message, searched for a context overflow and an empty account.
    """
    implied: tuple[FailureKind, int] | None = None
    for word in words:
        known = IMPLIED.get(word.lower().replace(" ", "_")) if word else None
        if known is not None and (implied is None or known[0] in _WITHOUT_STATUS):
            implied = known
            if known[0] in _WITHOUT_STATUS:
                break
    if status < 400:
        if implied is None or implied[0] in _UNSPECIFIC:
            if is_overflow(message):
                return _K.CONTEXT_LENGTH, 400
            if is_empty_account(message):
                return _K.BILLING, 402
        return implied or (_K.API, 502)
    kind = BY_STATUS.get(status) or (_K.API if status >= 500 else _K.INVALID_REQUEST)
    if implied is not None and (implied[0] in _WITHOUT_STATUS or (implied[0] is _K.OVERLOADED and kind is _K.API)):
        kind = implied[0]
    elif implied is not None and implied[0] is _K.AUTHENTICATION and kind is _K.INVALID_REQUEST:
        return implied  # Google reports a key that is not valid with a 400
    elif kind in _UNSPECIFIC and is_overflow(message):
        kind = _K.CONTEXT_LENGTH
    elif kind in _UNSPECIFIC and is_empty_account(message):
        kind = _K.BILLING
    return kind, status


@dataclass(slots=True)
class _ErrorFields:
    """The fields of an error that was found in a body, before it is classified."""

    message: str = ""
    type: str | None = None
    code: str | None = None
    param: str | None = None
    status: int | None = None
    request_id: str | None = None
    headers: dict[str, str] | None = None
    unread: tuple[str, ...] = ()


def _hint(found: _ErrorFields) -> str:
    word = found.code or found.type or found.status
    return f" ({word})" if word else ""


def _failure(status: int, found: _ErrorFields, dialect: Dialect) -> Failure:
    found.message = found.message[:TEXT_MAX]
    _unwrap(found, 0)
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
        unread=found.unread,
    )


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


def record_unread(failure: Failure, losses: Losses) -> None:
    """Record the members of an error that have no place in the client's."""
    for path in failure.unread:
        losses.add_unknown(path)


def _find_error(value: Any, depth: int) -> _ErrorFields | None:
    """Return the error in a parsed body of any form, or None if nothing in it looks like one."""
    if depth > _DEPTH:
        return None
    if type(value) is list:  # Gemini's compatible endpoint wraps its errors in an array
        return next((found for item in value[:_ARRAY_MAX] if (found := _find_error(item, depth + 1))), None)
    if type(value) is not dict:
        return None
    inner = value.get("error") or value.get("errors")
    if type(inner) is dict or type(inner) is list:
        found = _from_object(inner, depth) if type(inner) is dict else _find_error(inner, depth + 1)
        if found is not None:
            found.request_id = found.request_id or _short_text(value.get("request_id"))
            found.unread += _unread(value, _ENVELOPE)
            return found
    detail = value.get("detail")
    if type(detail) is dict and (found := _find_error(detail, depth + 1)):
        return found
    found = _from_object(value, depth)
    if type(inner) is str:
        if not found.message:
            found.message = inner
        elif found.type is None:  # OAuth: `error` holds the name, `error_description` the message
            found.type = _short_text(inner)
        return found
    return found if found.message else None


def _from_object(error: Json, depth: int) -> _ErrorFields:
    message = next((text for key in _MESSAGE_KEYS if (text := _message_text(error.get(key), 0))), "")
    asked, most = error.get("n_prompt_tokens"), error.get("n_ctx")
    if message and type(asked) is int and type(most) is int and read_sizes(message) is None:
        # llama.cpp has the numbers in fields and not in its message (ggml-org/llama.cpp#15780).
        message = f"{message} ({asked} tokens > {most})"
    found = _ErrorFields(
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
    elif found.code is None and type(details) is list:  # `google.rpc.ErrorInfo`
        reasons = [_short_text(entry.get("reason")) for entry in details[:8] if type(entry) is dict]
        found.code = next((reason for reason in reasons if reason and reason.lower() in IMPLIED), None)
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
    elif details:
        found.unread += ("error.details",)
    headers = error.get("headers")
    if type(headers) is dict:  # nested in-band errors of Responses include their headers
        found.headers = {k: str(v) for k, v in headers.items() if type(v) in (str, int, float)}
    if depth == 0 and type(metadata) is dict and metadata.get("raw"):
        _read_nested(metadata["raw"], found)
    return found


def _read_nested(raw: Any, found: _ErrorFields) -> None:
    """Replace the fields of a router's error by those of its provider, from `error.metadata.raw` (mapping §10)."""
    nested = _parse_body(raw.encode("utf-8", "replace")) if type(raw) is str else raw
    inner = _find_error(nested, 1)
    if inner is None:
        inner = _ErrorFields(_plain_text(raw.encode("utf-8", "replace")) if type(raw) is str else "")
    found.message = inner.message or found.message
    found.type = inner.type or found.type
    found.code = inner.code or found.code
    found.status = found.status or inner.status
    found.unread += inner.unread
    found.param = None


_JSON: Final = JSONDecoder()
_UNSPECIFIC_STATUSES: Final = (None, 500, 502)
"""Statuses of an error in place of which that of the error within its message is used."""


def _unwrap(found: _ErrorFields, depth: int) -> None:
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
    if not reports_error(payload) or (inner := _find_error(payload, 1)) is None:
        return
    _unwrap(inner, depth + 1)
    before, after = text[:start], text[end:]
    if before.endswith("[") and after.startswith("]"):
        before, after = before[:-1], after[1:]
    found.message = before + (inner.message or _hint(inner).strip()) + after
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


_TOKEN = re.compile(r"[\x21-\x7e]{1,200}")


def _header_value(value: str | None) -> str | None:
    """Return a request id if it may be the value of a header, else None."""
    return value if value and _TOKEN.fullmatch(value) else None


def _parse_body(body: bytes) -> Any:
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


def _plain_text(body: bytes) -> str:
    """Return a body that is not JSON as text: the title of an HTML page, "" for binary data."""
    text = body[:TEXT_MAX].decode("utf-8", "replace").strip()
    if text.count("\ufffd") * 8 > len(text):
        return ""
    if text.startswith("<"):
        title = _TITLE.search(text)
        text = (title[1].strip() if title else "") or _TAG.sub(" ", text)
        text = _SPACE.sub(" ", text).strip()
    return text

"""Reads error responses of any form into a canonical `Failure` (mapping §10). Used by the readers of all dialects.

Any status and any body can be read, and reading never raises: proxies send HTML, routers wrap the errors of others, and
compatible servers have forms of their own (chat §7.3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.codes import IMPLIED
from dragoman.dialects.errors.context_overflow import is_overflow
from dragoman.dialects.errors.empty_account import is_empty_account
from dragoman.dialects.errors.fields import ErrorFields, find_error, hint, parse_body, plain_text, reports_error, unwrap
from dragoman.dialects.errors.headers import failure_headers, request_id
from dragoman.dialects.errors.redact import TEXT_MAX, redact, redact_parsed, tidy
from dragoman.errors import Failure, FailureKind, UpstreamProtocolError, UpstreamStatusError
from dragoman.losses import Losses
from dragoman.wire.json_codec import loads

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

_WITHOUT_STATUS = frozenset((_K.CONTEXT_LENGTH, _K.BILLING, _K.POLICY))
"""Kinds that no HTTP status expresses: the upstream's code for them overrides its status."""
_UNSPECIFIC = frozenset((_K.INVALID_REQUEST, _K.TOO_LARGE, _K.API))
"""Kinds as which servers without a code for it report a context overflow."""

_SHARED_PARAMS = frozenset(("model", "stream", "temperature", "top_p", "tools", "tool_choice"))
"""Request fields with the same name and meaning in all dialects. Any other `param` would name a field that the client
did not send."""


def read_error_response(status: int, body: bytes, headers: Mapping[str, str], dialect: Dialect) -> Failure:
    """Return the failure that an HTTP response reports, also an error body under a 2xx status. Never raises."""
    payload = parse_body(body)
    found = find_error(payload)
    if found is None:
        text = payload.strip() if type(payload) is str else plain_text(body)
        if text and status < 400:
            text = f"upstream answered status {status} with a body that is not a reply: {text}"
        found = ErrorFields(text)
    if not tidy(found.message):
        found.message = f"upstream answered status {status} without a message{hint(found)}"
    failure = _failure(status, found, dialect)
    failure.headers = failure_headers({**found.headers, **headers} if found.headers else headers)
    failure.request_id = _header_value(found.request_id) or _header_value(request_id(dialect, headers))
    return failure


def read_error_payload(payload: Any, dialect: Dialect) -> Failure:
    """Return the failure that an in-band error reports, with the status that its type or code implies.

    The payload may be of any form, also a text. Never raises.
    """
    found = find_error(payload) or ErrorFields(payload.strip() if type(payload) is str else "")
    if not tidy(found.message):
        found.message = f"upstream reported an error without a message{hint(found)}"
    failure = _failure(200, found, dialect)
    failure.request_id = _header_value(found.request_id)
    if found.headers:
        failure.headers = failure_headers(found.headers)
    return failure


def read_error_event(data: bytes, dialect: Dialect) -> Failure:
    """Return the failure that an event named `error` reports. Its data may be JSON of any form, or a text.

    Never raises.
    """
    payload = parse_body(data)
    return read_error_payload(plain_text(data) if payload is None else payload, dialect)


def reply_object(body: bytes, dialect: Dialect, parse: Callable[[bytes], Any] = loads) -> Json:
    """Return the JSON object of a complete reply.

    Raises UpstreamProtocolError, or UpstreamStatusError for an error in place of a reply, in any form.
    """
    try:
        payload = parse(body)
    except ValueError:
        raise UpstreamProtocolError("upstream answered with a body that is not JSON") from None
    # Every complete reply has this member. An object without it may be an error.
    if (type(payload) is not dict or payload.get(dialect.facts.content[0]) is None) and reports_error(payload):
        raise UpstreamStatusError(read_error_payload(payload, dialect))
    if type(payload) is not dict:
        raise UpstreamProtocolError("upstream answered with a body that is not a JSON object")
    return payload


_ENVELOPES = ("data", "response", "result")
"""Members that hold the reply of a service which answers in an envelope of its own (mnfst/llm-gateway#2557: Cline's
`data`; Google's Code Assist has `response`, Cloudflare `result`)."""


def unwrapped(payload: Json, dialect: Dialect) -> Json:
    """Return the reply in an envelope, or the object itself if it is a reply, or has none."""
    key = dialect.facts.content[0]
    if key not in payload:
        for name in _ENVELOPES:
            if type(inner := payload.get(name)) is dict and inner.get(key) is not None:
                return inner
    return payload


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
        return redact_parsed(payload, body, secrets)
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


def _failure(status: int, found: ErrorFields, dialect: Dialect) -> Failure:
    found.message = found.message[:TEXT_MAX]
    unwrap(found)
    if status < 400:
        status = found.status or 200
    kind, implied = classify(status, (found.code, found.type), found.message)
    if status < 400 and kind is _K.OVERLOADED and dialect.facts.overloaded_status:
        implied = dialect.facts.overloaded_status
    return Failure(
        kind,
        tidy(found.message),
        implied,
        native_type=found.type,
        code=found.code,
        param=found.param if found.param in _SHARED_PARAMS else None,
        unread=found.unread,
    )


def record_unread(failure: Failure, losses: Losses) -> None:
    """Record the members of an error that have no place in the client's."""
    for path in failure.unread:
        losses.add_unknown(path)


_TOKEN = re.compile(r"[\x21-\x7e]{1,200}")


def _header_value(value: str | None) -> str | None:
    """Return a request id if it may be the value of a header, else None."""
    return value if value and _TOKEN.fullmatch(value) else None

"""The file of a capture: a line with a summary, and a line with the requests and replies. Both are JSON.

It is made in a thread from a `Recording` that is complete. Everything is masked here, before it is written.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from dragoman import Failure, Translation
from dragoman.gateway import redact
from dragoman.wire import Json, json_dumps
from dragoman_server.observability.captures.hide_texts import Declared, declared, hide_texts
from dragoman_server.observability.captures.mask_secrets import mask_secrets, shown_headers, shown_target
from dragoman_server.observability.captures.recording import Pieces, RecordedAttempt, Recording

VERSION: Final = 1
_TYPE_MAX: Final = 200
"""Longest type of a body that is kept, in characters."""
_TIMES: Final = 6
"""Decimal places of times in seconds."""


class CaptureDocument:
    """Makes the file of one recording, with `facts` in its summary and its receipt. With `texts`, texts are kept."""

    def __init__(self, recording: Recording, facts: Json, receipt: Json, *, texts: bool) -> None:
        self._recording = recording
        self._facts = facts
        self._receipt = receipt
        self._texts = texts
        self._secrets = recording.secrets
        self._names = Declared()
        self._masks: set[int] = set()

    def lines(self) -> bytes:
        """Return the content of the file."""
        recording = self._recording
        request = recording.request_body or b""
        if not self._texts:
            self._names = declared(request)
            for attempt in recording.attempts:
                self._names |= declared(attempt.body)
        exchange = {
            "client": {
                "request": {
                    "method": recording.method,
                    "path": shown_target(recording.path, self._secrets),
                    "headers": shown_headers(recording.client_headers, self._secrets),
                    **self._body(request, recording.request_size, recording.request_omitted),
                },
                "reply": {
                    "status": recording.reply_status,
                    "headers": shown_headers(recording.reply_headers, self._secrets),
                    **self._pieces(recording.reply, "writes"),
                    "heartbeats": _rounded(recording.heartbeats),
                },
            },
            "attempts": [self._attempt(attempt) for attempt in recording.attempts],
            "receipt": self._receipt,
            "replay": self._replay(recording.translation),
        }
        summary = {
            "object": "dragoman.capture",
            "version": VERSION,
            "id": recording.request_id,
            **self._facts,
            "reason": recording.reason,
            "texts": self._texts,
            "truncated": recording.truncated,
            "attempts": len(recording.attempts),
            "seconds": round(recording.seconds(), _TIMES),
        }
        return json_dumps(summary) + b"\n" + json_dumps(exchange) + b"\n"

    def _attempt(self, attempt: RecordedAttempt) -> Json:
        error = attempt.error
        return {
            "provider": attempt.provider,
            "upstream_model": attempt.upstream_model,
            "began": round(attempt.began, _TIMES),
            "request": {
                "url": shown_target(attempt.url, self._secrets),
                "headers": shown_headers(attempt.headers.items(), self._secrets),
                **self._body(attempt.body, attempt.body_size, attempt.omitted),
            },
            "reply": None
            if attempt.status is None
            else {
                "status": attempt.status,
                "answered": None if attempt.answered is None else round(attempt.answered, _TIMES),
                "headers": shown_headers(attempt.reply_headers.items(), self._secrets),
                **self._pieces(attempt.reply, "reads"),
            },
            "error": None if error is None else self._failure(error),
        }

    def _failure(self, failure: Failure) -> Json:
        """Return the failure of a connection or of a timer. Its message is Dragoman's own, and names no text."""
        data = {**asdict(failure), "headers": {}}
        return {name: redact(value, self._secrets) if type(value) is str else value for name, value in data.items()}

    def _body(self, body: bytes, size: int, omitted: str) -> Json:
        part: Json = {"bytes": size, "truncated": len(body) < size, **_written(self._masked(body))}
        if omitted:
            part["omitted"] = redact(omitted[:_TYPE_MAX], self._secrets)
        return part

    def _pieces(self, pieces: Pieces, name: str) -> Json:
        body = b"".join(pieces.data)
        parts = [[time, len(data)] for time, data in zip(_rounded(pieces.times), pieces.data, strict=True)]
        return {name: parts, **self._body(body, pieces.size, pieces.omitted)}

    def _masked(self, body: bytes) -> bytes:
        """Return a body without credentials and, by default, without texts. Its length stays."""
        buffer = bytearray(body) if self._texts else hide_texts(body, self._names)
        self._masks |= mask_secrets(buffer, self._secrets)
        return bytes(buffer)

    def _replay(self, translation: Translation | None) -> Json | None:
        """Return what the translation depends on, apart from the requests and replies; None if there was none."""
        if translation is None or self._recording.endpoint:
            return None
        context, readings = translation.context, self._recording.readings
        return {
            "client": translation.direction.client.dialect,
            "upstream": translation.direction.upstream.dialect,
            "upstream_model": translation.upstream_model,
            "stream": translation.stream,
            "created": context.created,
            "request_id": context.request_id,
            "input_estimate": context.input_estimate,
            "request_usage": context.remove_usage,
            "own_key": context.own_key,
            "clock": readings.values if readings is not None else None,
            "masks": sorted(self._masks),
            "profile": asdict(context.profile),
            "knobs": asdict(context.knobs),
            "limits": asdict(context.limits),
        }


def _rounded(times: Iterable[float]) -> list[float]:
    return [round(time, _TIMES) for time in times]


def _written(body: bytes) -> Json:
    """Return the bytes as text, or in base64 if they are not UTF-8."""
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(body).decode()}


def body_of(part: Mapping[str, Any]) -> bytes:
    """Return the bytes of a request or a reply in a capture. Raises ValueError or KeyError for other data."""
    text = part.get("text")
    return text.encode() if type(text) is str else b64decode(part["base64"])


def pieces_of(part: Mapping[str, Any], name: str) -> list[bytes]:
    """Return the body of a reply in the pieces in which it came. Raises ValueError or KeyError for other data."""
    body, pieces, at = body_of(part), [], 0
    lengths: Sequence[int] = [length for _, length in part[name]]
    for length in lengths:
        pieces.append(body[at : at + length])
        at += length
    return pieces

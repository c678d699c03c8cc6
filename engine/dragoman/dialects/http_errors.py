"""Errors as complete HTTP responses of a dialect, and upstream responses read as errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.errors.read import read_error_response, redact_failure
from dragoman.errors import Failure
from dragoman.wire.body_opening import document_in
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse_parser import Parser

_LONGEST = 64 * 1024
"""Bytes of an error body in which its events are found."""


@dataclass(slots=True)
class ErrorResponse:
    """A response that reports an error: its status, headers and JSON body, and the failure that it was made from."""

    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    failure: Failure


def error_response(client: Dialect, failure: Failure, request_id: str = "") -> ErrorResponse:
    """Return the response that reports `failure` to a client of the dialect `client`.

    The headers are those of the failure (such as `retry-after`) and the dialect's request id header, if there is an id:
    the upstream's if the failure has one, else `request_id`.
    """
    request_id = failure.request_id or request_id
    status, body = CODECS[client].write_failure(failure, request_id)
    headers = {client.request_id_header: request_id} if request_id else {}
    return ErrorResponse(status, headers | failure.headers, dumps(body), failure)


def error_document(body: bytes) -> bytes:
    """Return the JSON of an error body that is an event stream: the last of its events that is an error, else its last
    event. Any other body is returned unchanged."""
    document = body if body.startswith(b"{") else document_in(body)
    if document is not None:
        return document
    parser = Parser()
    frames = parser.parse(body[:_LONGEST])
    found = [frame.data for frame in [*frames, *parser.finish()] if frame.data]
    errors = [data for data in found if b'"error"' in data]
    return (errors or found or [body])[-1]


def read_error(
    upstream: Dialect, status: int, body: bytes, headers: Mapping[str, str], *, secrets: Sequence[str] = ()
) -> Failure:
    """Return the failure that an upstream's response reports, with `secrets` and whatever looks like a key masked.

    Any status and any body is read; nothing is raised. The failure's headers are `retry-after` and its relatives and
    the rate limits, under the upstream's names.
    """
    return redact_failure(read_error_response(status, error_document(body), headers, upstream), secrets)

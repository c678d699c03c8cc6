"""Errors as complete HTTP responses of a dialect, and upstream responses read as errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.errors.read import read_error_response, redact_failure
from dragoman.errors import Failure
from dragoman.wire.json_codec import dumps


@dataclass(slots=True)
class ErrorResponse:
    """A response that reports an error: its status, headers and JSON body, and the failure that it was made from."""

    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    failure: Failure


def error_response(client: Dialect, failure: Failure, request_id: str = "") -> ErrorResponse:
    """Returns the response that reports `failure` to a client of the dialect `client`.

    The headers are those of the failure (such as `retry-after`) and the dialect's request id header, if there is an id:
    the upstream's if the failure has one, else `request_id`.
    """
    request_id = failure.request_id or request_id
    status, body = CODECS[client].write_failure(failure, request_id)
    headers = {client.request_id_header: request_id} if request_id else {}
    return ErrorResponse(status, headers | failure.headers, dumps(body), failure)


def read_error(
    upstream: Dialect, status: int, body: bytes, headers: Mapping[str, str], *, secrets: Sequence[str] = ()
) -> Failure:
    """Returns the failure that an upstream's response reports, with `secrets` and whatever looks like a key masked.

    Any status and any body is read; nothing is raised. The failure's headers are `retry-after` and its relatives and
    the rate limits, under the upstream's names.
    """
    return redact_failure(read_error_response(status, body, headers, upstream), secrets)

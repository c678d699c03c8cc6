"""The record of one vendor: the parts that are common to its APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dragoman_server.simulator.error_replies import ErrorReply, RequestRejected
from dragoman_server.simulator.parse_request import Json


def unchanged(body: Json) -> Json:
    """Return the request."""
    return body


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor. The module of each has one, `VENDOR`."""

    keyless_text: str
    """The message of the error for a request without a key."""
    reply_headers: Callable[[str, float], dict[str, str]]
    """Returns the headers of every response, given the request's id and the time."""
    rejection: Callable[[RequestRejected, str], ErrorReply]
    """Returns the response to a rejected request, given the request's id."""
    scripted_error: Callable[[int, str, str, float], ErrorReply]
    """Returns the response of `sim-error-STATUS`, given status, variant, the request's id, and when to retry, in
    seconds.

    Variant `quota` is the 429 that clients must not retry, `context` the 400 for a prompt that is too long.
    """
    model: Callable[[str], Json]
    """Returns the object of a model."""
    model_list: Callable[[Iterable[str], Mapping[str, str]], Json]
    """Returns a page of the list of models, given the names of all and the request's query."""
    key_header: str = ""
    """The header of a key, besides `Authorization`, if there is one."""
    keyless_status: int = 401
    canonical: Callable[[Json], Json] = unchanged
    """Returns a request in which each field has its one documented name."""

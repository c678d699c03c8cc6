"""The betas that clients of Messages name in `anthropic-beta`, as an upstream of Messages gets them.

Clouds refuse a request that names a beta which they do not have, also if nothing in the request needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from dragoman import ClientRequestError
from dragoman.wire import json_dumps
from dragoman_server.config.provider import Provider

HEADER: Final = "anthropic-beta"
FIELD: Final = "anthropic_beta"
"""The field of a body that has the same names, in a list."""


class Betas(NamedTuple):
    """The betas of a request."""

    sent: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Those that the upstream does not take."""


NONE: Final = Betas()


def betas_of(provider: Provider, headers: Mapping[str, str]) -> Betas:
    """Return the betas of a client of Messages, by the profile of the provider.

    Raises ClientRequestError for a name that a header cannot carry.
    """
    getall = getattr(headers, "getall", None)
    lines = getall(HEADER, ()) if getall else [value for name, value in headers.items() if name.lower() == HEADER]
    sent: dict[str, None] = {}
    refused: dict[str, None] = {}
    for name in filter(None, (word.strip() for line in lines for word in line.split(","))):
        if not (name.isascii() and name.isprintable()):
            raise ClientRequestError("", f"the header {HEADER} has characters that a header cannot carry")
        other = provider.profile.beta_as(name)
        if other is None:
            refused[name] = None
        else:
            sent[other] = None
    return Betas(tuple(sent), tuple(refused))


def header_of(provider: Provider, betas: Betas) -> str:
    """Return the value of the header for a provider; empty if it is not sent."""
    return "" if provider.door.betas == "body" else ",".join(betas.sent)


def fields_of(provider: Provider, betas: Betas) -> dict[str, bytes]:
    """Return the fields of the body for a provider, each as JSON."""
    in_body = betas.sent and provider.door.betas in ("body", "both")
    return {FIELD: json_dumps(betas.sent)} if in_body else {}

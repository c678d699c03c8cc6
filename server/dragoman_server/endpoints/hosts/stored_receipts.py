"""The receipts that hosts store for each other: the name of their owner, and the error while they cannot be read."""

from __future__ import annotations

from hashlib import sha256

from dragoman import DragomanError, Failure
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.threads import StoreError


def owner_of(digest: bytes) -> str:
    """Return the name under which the receipts of a client are stored.

    `digest` is that of its key, empty without keys.
    """
    return sha256(b"owner of receipts" + digest).hexdigest()[:32] if digest else ""


def unavailable(_: StoreError) -> DragomanError:
    """Return the error (503) for a receipt that is not here, while those of other hosts cannot be read."""
    message = "the receipts of other hosts are not available at the moment; try again later"
    failure = Failure(FailureKind.OVERLOADED, message, 503, origin=FailureOrigin.PROXY, reason="store")
    failure.headers["retry-after"] = "1"
    return DragomanError(failure)

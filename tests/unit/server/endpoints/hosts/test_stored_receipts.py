"""The owner of stored receipts."""

from __future__ import annotations

from dragoman.threads import StoreError
from dragoman_server.config.provider import Secret
from dragoman_server.endpoints.hosts.stored_receipts import owner_of, unavailable


def test_the_owner_does_not_show_the_digest_of_its_key() -> None:
    digest = Secret("key").digest
    assert owner_of(b"") == ""
    assert owner_of(digest) == owner_of(digest) != owner_of(Secret("other").digest)
    assert owner_of(digest) not in digest.hex()


def test_receipts_that_cannot_be_read_are_a_503() -> None:
    failure = unavailable(StoreError("redis://secret")).failure
    assert (failure.status, failure.headers["retry-after"]) == (503, "1")
    assert "secret" not in failure.message

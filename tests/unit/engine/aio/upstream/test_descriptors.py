"""A connection that cannot be opened for want of a descriptor is the gateway's failure, not the upstream's."""

from __future__ import annotations

import errno
import socket

import pytest

from dragoman.aio.upstream import descriptors
from dragoman.errors import FailureOrigin


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_it_is_no_failure_of_the_upstream(number: int) -> None:
    error = descriptors.unopened(OSError(number, "too many open files"))
    assert error is not None
    assert (error.failure.status, error.failure.origin) == (503, FailureOrigin.PROXY)
    assert "ulimit -n" in error.failure.message


def test_a_lookup_is_judged_by_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    error = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    assert descriptors.unopened(error) is None
    monkeypatch.setattr(descriptors, "exhausted", lambda: True)
    assert descriptors.unopened(error) is not None
    assert descriptors.unopened(OSError(errno.ECONNREFUSED, "refused")) is None


def test_descriptors_are_free_here() -> None:
    assert not descriptors.exhausted()

"""A connection that cannot be opened for want of a descriptor is the gateway's failure, not the upstream's."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from dragoman.aio.upstream import descriptors
from dragoman.errors import FailureOrigin


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_it_is_no_failure_of_the_upstream(number: int) -> None:
    error = descriptors.descriptor_failure(OSError(number, "too many open files"))
    assert error is not None
    assert (error.failure.status, error.failure.origin) == (503, FailureOrigin.PROXY)
    assert "ulimit -n" in error.failure.message


def test_a_lookup_is_judged_by_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    error = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    assert descriptors.descriptor_failure(error) is None
    monkeypatch.setattr(descriptors, "descriptors_exhausted", lambda: True)
    assert descriptors.descriptor_failure(error) is not None
    assert descriptors.descriptor_failure(OSError(errno.ECONNREFUSED, "refused")) is None


def test_descriptors_are_free_here() -> None:
    assert not descriptors.descriptors_exhausted()


@pytest.mark.parametrize(("number", "expected"), [(errno.EMFILE, True), (errno.ENFILE, True), (errno.EBADF, False)])
def test_only_a_missing_descriptor_counts(monkeypatch: pytest.MonkeyPatch, number: int, expected: bool) -> None:
    def fail(_: int) -> int:
        raise OSError(number, "no descriptor")

    monkeypatch.setattr(os, "dup", fail)
    assert descriptors.descriptors_exhausted() is expected

"""A process without free file descriptors reports that, once."""

from __future__ import annotations

import errno

import pytest

from dragoman_server.observability.descriptor_watch import DescriptorWatch


def test_it_is_logged_once_with_the_cure(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[OSError] = []

    def probe() -> None:
        if failures:
            raise failures[0]

    watch = DescriptorWatch(probe)
    watch.update()
    assert not watch.exhausted
    failures.append(OSError(errno.EMFILE, "too many"))
    for _ in range(3):
        watch.update()
    assert watch.exhausted
    failures.clear()
    watch.update()
    assert not watch.exhausted
    first, second = [record.getMessage() for record in caplog.records]
    assert "raise `ulimit -n`" in first
    assert "again" in second


def test_another_failure_is_none_of_these() -> None:
    def probe() -> None:
        raise OSError(errno.EBADF, "no standard error")

    watch = DescriptorWatch(probe)
    watch.update()
    assert not watch.exhausted


def test_a_process_with_free_descriptors() -> None:
    watch = DescriptorWatch()
    watch.update()
    assert not watch.exhausted

"""A process without free file descriptors reports that, once."""

from __future__ import annotations

import pytest

from dragoman_server.observability.descriptor_watch import DescriptorWatch


def test_it_is_logged_once_with_the_cure(caplog: pytest.LogCaptureFixture) -> None:
    exhausted = False
    watch = DescriptorWatch(lambda: exhausted)
    watch.update()
    assert not watch.exhausted
    exhausted = True
    for _ in range(3):
        watch.update()
    assert watch.exhausted
    exhausted = False
    watch.update()
    assert not watch.exhausted
    first, second = [record.getMessage() for record in caplog.records]
    assert "raise `ulimit -n`" in first
    assert "again" in second


def test_a_process_with_free_descriptors() -> None:
    watch = DescriptorWatch()
    watch.update()
    assert not watch.exhausted

"""Notifications to systemd, and their absence without its socket."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dragoman_server.workers.systemd import notify


@pytest.mark.parametrize("abstract", [False, True])
def test_the_sent_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name[1:] if abstract else name)
        notify("READY=1")
        state, clock = manager.recv(1000).decode().split("\n")
    assert state == "READY=1"
    assert int(clock.removeprefix("MONOTONIC_USEC=")) > 0


def test_without_a_listener_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    notify("READY=1")
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")

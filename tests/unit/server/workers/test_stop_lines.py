"""The lines of a stop."""

from __future__ import annotations

import pytest

from dragoman_server.workers.stop_lines import print_leaving, print_stopped, print_stopping


def test_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_leaving(5)
    for count, seconds in ((0, 10.0), (1, 10.0), (2, 0.5), (2, 0.0)):
        print_stopping(count, seconds)
    for ended, hurried in ((0, True), (1, False), (2, False), (2, True)):
        print_stopped(ended, hurried=hurried)
    assert capsys.readouterr().err.splitlines() == [
        "dragoman stops in 5 s, and is not ready meanwhile; a second Ctrl-C ends the wait",
        "dragoman stops",
        "dragoman stops: 1 request is open, waiting up to 10 s; a second Ctrl-C ends it",
        "dragoman stops: 2 requests are open, waiting up to 0.5 s; a second Ctrl-C ends them",
        "dragoman stops: 2 requests are open, and not waited for",
        "dragoman stopped",
        "dragoman stopped: 1 request ended by the deadline",
        "dragoman stopped: 2 requests ended by the deadline",
        "dragoman stopped: 2 requests ended by a second signal",
    ]

"""`dragoman bench`: the rig's command line, with the short run as its default."""

from __future__ import annotations

import sys

import pytest

from dragoman_bench import cli
from dragoman_server.cli.main import main


@pytest.mark.parametrize(
    ("words", "handed_over"),
    [
        ([], ["--quick"]),
        (["--directions", "messages-chat"], ["--quick", "--directions", "messages-chat"]),
        (["--full", "--rounds", "2"], ["--rounds", "2"]),
        (["--quick"], ["--quick"]),
        (["peers", "list"], ["peers", "list"]),
    ],
)
def test_words_go_to_the_rig(words: list[str], handed_over: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def rig(given: list[str]) -> int:
        seen.append(given)
        return 7

    monkeypatch.setattr(cli, "main", rig)
    assert main(["bench", *words]) == 7
    assert seen == [handed_over]


def test_a_failed_import_of_the_rig_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "dragoman_bench.cli", None)
    assert main(["bench"]) == 2
    assert "it needs Linux" in capsys.readouterr().err


def test_it_is_among_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "benchmark gateways side by side" in capsys.readouterr().out

"""Completion scripts of shells."""

from __future__ import annotations

import argparse
import sys

import pytest

from dragoman_server.cli.shell_completion import SHELLS, main


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_completes_options_and_files(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser(prog="dragoman")
    command = parser.add_subparsers().add_parser("serve")
    file = command.add_argument("file", metavar="FILE")
    assert main(argparse.Namespace(shell=shell), parser) == 0
    script = capsys.readouterr().out
    assert "dragoman" in script
    assert "serve" in script
    assert vars(file)["complete"]


def test_without_shtab_it_names_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(argparse.Namespace(shell="bash"), argparse.ArgumentParser()) == 1
    assert "install Dragoman with the extra completion" in capsys.readouterr().err

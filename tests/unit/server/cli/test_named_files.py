"""The files of a command: read, written, and not overwritten by accident."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from dragoman_server.cli.named_files import read_input, write_output, write_result


def test_a_file_or_standard_input_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"in a file\r\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"at the input")))
    assert read_input(str(tmp_path / "a")) == b"in a file\r\n"
    assert read_input("-") == b"at the input"


def test_a_file_is_overwritten_with_force_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out"
    assert write_output("ä\n", str(path), force=False)
    assert not write_output("b\n", str(path), force=False)
    assert path.read_text("utf-8") == "ä\n"
    assert f"{path} exists; --force" in capsys.readouterr().err
    assert write_output("b\n", str(path), force=True)
    assert path.read_text("utf-8") == "b\n"


def test_standard_output_is_written(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert write_output("a", "-", force=False)
    write_result(b"b")
    write_result(b"c\n")
    assert capsysbinary.readouterr().out == b"ab\nc\n"

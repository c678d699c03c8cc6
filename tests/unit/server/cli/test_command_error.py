"""The errors of commands that cannot be run as they were given."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman_server.cli.main import main


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("keys", "list"), "dragoman keys: --config: there is no ./dragoman.toml: name the configuration\n"),
        (("usage",), "dragoman usage: --config: there is no ./dragoman.toml: name the configuration\n"),
        (
            ("tree", "--url", "nowhere", "req_1"),
            "dragoman tree: --url: expected http://… or https://…; got ",
        ),
        (("replay", "missing"), "dragoman replay: missing: "),
    ],
)
def test_the_message_begins_with_the_command(
    words: tuple[str, ...],
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(expected)


def test_a_wrong_file_is_a_wrong_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dragoman.toml"
    path.write_text("[store]\nkind = 5\n")
    assert main(["keys", "list", "-c", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"wrong configuration in {path}:\nstore.kind: ")

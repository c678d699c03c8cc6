"""`dragoman import`."""

from __future__ import annotations

import io
import sys
import tomllib
from pathlib import Path

import pytest

from dragoman_server.cli.imports import command
from dragoman_server.cli.main import main
from dragoman_server.config.json_schema import SCHEMA_FILE
from support.json_schemas import schema_problems
from support.paths import TESTS

FIXTURES = TESTS / "fixtures/imports"
CASES = [("litellm", "litellm_team.yaml"), ("litellm", "litellm_small.yaml"), ("ccr", "ccr_full.json")]


@pytest.mark.turns
@pytest.mark.parametrize(("origin", "file"), CASES, ids=[file for _, file in CASES])
def test_what_is_written_passes_the_check(
    origin: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dragoman.toml"
    assert main(["import", origin, str(FIXTURES / file), "-o", str(path)]) == 0
    report = capsys.readouterr().err
    assert f"wrote {path}" in report
    assert "to correct by hand" not in report
    assert (tmp_path / SCHEMA_FILE).exists()
    for line in report.splitlines():
        for name in (
            line.removeprefix("environment variables to set: ").split(", ") if "variables to set" in line else ()
        ):
            monkeypatch.setenv(name, "http://example.com")
    assert main(["check", str(path)]) == 0
    assert "the configuration is valid" in capsys.readouterr().err
    assert schema_problems(tomllib.loads(path.read_text("utf-8"))) == []
    # An existing file is kept.
    assert main(["import", origin, str(FIXTURES / file), "-o", str(path)]) == 1
    assert "--force overwrites it" in capsys.readouterr().err
    assert main(["import", origin, str(FIXTURES / file), "-o", str(path), "--force"]) == 0


def test_standard_output_has_the_file_and_standard_error_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "litellm", str(FIXTURES / "litellm_team.yaml")]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("#:schema")
    assert "\n[providers.azure]\n" in shown.out
    assert "without a counterpart:\n  model_list[3].litellm_params.temperature: " in shown.err
    assert "canary" not in shown.out + shown.err


def test_standard_input_is_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = (FIXTURES / "litellm_small.yaml").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["import", "litellm", "-"]) == 0
    assert 'model = "qwen"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("origin", "text", "message"),
    [
        ("litellm", 'a: "canary\n', "is not YAML: line"),
        ("litellm", "canary", "is not a configuration of LiteLLM's proxy: expected a table"),
        ("ccr", '{"APIKEY": canary}', "is not JSON: line 1, column 12"),
        ("ccr", "[" * 100_000, "is not JSON"),
        ("ccr", "[]", "is not a configuration of Claude Code Router: expected a table"),
    ],
)
def test_other_files_are_refused_without_being_quoted(
    origin: str, text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    assert main(["import", origin, str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "canary" not in error


def test_a_file_without_a_usable_provider(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("model_list:\n- model_name: m\n  litellm_params: {model: bedrock/m}\n")
    assert main(["import", "litellm", str(path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "model_list[0] (m): Bedrock is reached by its other APIs" in shown.err
    assert "no provider of" in shown.err


def test_what_needs_a_hand_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "model_list:\n- model_name: m\n  litellm_params: {model: ollama/m, api_base: your_ollama_api_base}\n"
    )
    assert main(["import", "litellm", str(path)]) == 0
    assert "to correct by hand:\n  providers.ollama.base_url: expected a URL" in capsys.readouterr().err


def test_without_pyyaml_the_extra_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert main(["import", "litellm", str(FIXTURES / "litellm_small.yaml")]) == 2
    assert "install Dragoman with the extra import" in capsys.readouterr().err
    assert set(command.ORIGINS) == {"litellm", "ccr"}
    assert main(["import", "ccr", str(FIXTURES / "ccr_full.json")]) == 0

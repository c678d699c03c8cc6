"""`dragoman prices import`: the prices of the configured models, and what was not taken."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Usage
from dragoman.gateway import ServiceReport
from dragoman_server.cli.main import main
from dragoman_server.config.load import load_config

CONFIG = """
[providers.claude]
dialect = "messages"
base_url = "https://api.anthropic.com"
[providers.local]
dialect = "chat"
base_url = "http://127.0.0.1:1/v1"
[prices]
file = "prices.toml"
[prices.claude-own]
input = 1.0
[[routes]]
model = "claude-*"
provider = "claude"
[[routes]]
model = "best"
provider = "claude"
upstream_model = "opus"
[[routes]]
model = "mine"
provider = "local"
[[routes]]
model = "novel"
provider = "claude"
"""


def litellm(vendor: str, **more: Any) -> dict[str, Any]:
    return {"litellm_provider": vendor, "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, **more}


LITELLM = {
    "claude-sonnet": litellm("anthropic", input_cost_per_token_flex=1.5e-06, output_cost_per_token_flex=7.5e-06),
    "claude-own": litellm("anthropic"),
    "opus": litellm("anthropic", input_cost_per_image=1),
    "haiku": litellm("anthropic"),
    "groq/mine": litellm("groq"),
    "gpt": litellm("openai"),
}
COST = {"input": 3, "output": 15}
MODELS_DEV = {
    "anthropic": {"models": {"claude-sonnet": {"cost": COST}, "opus": {"cost": {**COST, "input_audio": 1}}}},
    "groq": {"models": {"mine": {"cost": COST}}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dragoman.toml").write_text(CONFIG)
    (tmp_path / "litellm.json").write_text(json.dumps(LITELLM))
    (tmp_path / "api.json").write_text(json.dumps(MODELS_DEV))
    return tmp_path


def run(folder: Path, *words: str, file: str = "litellm.json") -> int:
    return main(["prices", "import", str(folder / file), "-c", str(folder / "dragoman.toml"), *words])


@pytest.mark.parametrize(("file", "left"), [("litellm.json", "input_cost_per_image"), ("api.json", "cost.input_audio")])
def test_the_file_has_the_prices_of_routed_models(
    folder: Path, file: str, left: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = folder / "prices.toml"
    assert run(folder, "-o", str(output), file=file) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "provider local: name its vendor as the list does, --vendor local=NAME" in shown.err
    assert "not in the list: novel of provider claude\n" in shown.err
    assert f"not taken: {left} of 1 model\n" in shown.err
    assert f'[prices] file = "{output}"' in shown.err
    config = load_config(folder / "dragoman.toml")
    assert {*config.price_file.providers} == {"claude"}
    assert {*config.price_file.providers["claude"]} == {"claude-sonnet", "opus"}
    table = config.price_table()
    assert table.cost(Usage(1_000_000), "claude-sonnet", "claude") == 3
    assert table.cost(Usage(1_000_000), "claude-own", "claude") == 1
    if file == "litellm.json":
        assert table.cost(Usage(1_000_000), "claude-sonnet", "claude", ServiceReport("flex")) == 1.5
    # An existing file is kept.
    assert run(folder, "-o", str(output), file=file) == 1
    assert "--force overwrites it" in capsys.readouterr().err
    assert run(folder, "-o", str(output), "--force", file=file) == 0


def test_a_vendor_can_be_named_and_all_its_models_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "--vendor", "local=groq") == 0
    assert "[providers.local.prices.mine]" in capsys.readouterr().out
    assert run(folder, "--all", "--vendor", "local=groq") == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.endswith("haiku]")] == ["[providers.claude.prices.haiku]"]
    assert "gpt" not in out


def test_a_list_without_the_models_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "litellm.json").write_text(json.dumps({"gpt": litellm("openai")}))
    assert run(folder, "-o", str(folder / "x.toml")) == 1
    assert "no price of the list is for a model of the configuration" in capsys.readouterr().err
    assert not (folder / "x.toml").exists()


def test_standard_input_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(LITELLM).encode())))
    assert main(["prices", "import", "-", "-c", str(folder / "dragoman.toml"), "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("# Prices of LiteLLM's list in US dollars")


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '{"a": 1}', '{"a": {"models": 1}, "b": {"b": {}}}', "{" * 9999])
def test_a_file_that_is_no_list_is_rejected(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "litellm.json").write_text(text)
    assert run(folder) in (1, 2)
    err = capsys.readouterr().err
    assert "is not JSON" in err or "is neither LiteLLM's" in err or "no price of the list" in err


@pytest.mark.parametrize(
    ("pair", "part"),
    [("lokal=groq", 'unknown provider "lokal"'), ("local=grok", 'no vendor "grok" (did you mean "groq"?)')],
)
def test_a_wrong_vendor_is_rejected(folder: Path, pair: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "--vendor", pair) != 0
    assert part in capsys.readouterr().err


def test_without_a_configuration_nothing_is_selected(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "dragoman.toml").unlink()
    monkeypatch.chdir(folder)
    assert main(["prices", "import", "litellm.json"]) != 0
    assert "name the configuration" in capsys.readouterr().err

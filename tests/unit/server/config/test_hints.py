"""A configuration in another form gets a hint in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import load_config

LOCAL = '[providers.local]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9000/v1"\n'
ROUTE = 'model = "claude-*"\nprovider = "local"\n'


def _problems(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return [(where.replace(str(path), "FILE"), what) for where, what in caught.value.problems]


@pytest.mark.parametrize("table", ["[routes]", "[routes.first]"])
def test_one_bracket_around_routes(tmp_path: Path, table: str) -> None:
    expected = "expected [[routes]] (two brackets) for each route; got [routes]"
    assert _problems(tmp_path / "a.toml", f"{LOCAL}{table}\n{ROUTE}") == [("routes", expected)]


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (LOCAL.replace(".local", ""), "a provider has a name: write [providers.NAME], such as [providers.local]"),
        (LOCAL.replace(".local", "") + "[providers.headers]\nx = 'y'\n", "a provider has a name: write"),
        (LOCAL.replace("[providers.local]", "[[providers]]"), "expected [providers.NAME], such as [providers.local]"),
        ('providers = "local"\n', "expected [providers.NAME], such as [providers.local]; got a string"),
    ],
)
def test_a_provider_without_a_name(tmp_path: Path, text: str, got: str) -> None:
    """And nothing of the routes, which would find theirs then."""
    ((where, what),) = _problems(tmp_path / "a.toml", f"{text}[[routes]]\n{ROUTE}")
    assert (where, what.startswith(got)) == ("providers", True), what


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("openai", "chat is OpenAI's Chat Completions, responses its Responses"),
        ("OpenAI", "chat is OpenAI's Chat Completions, responses its Responses"),
        ("openai-compatible", 'write "chat"'),
        ("anthropic", 'write "messages"'),
        ("google", 'write "generate"'),
        ("openai-responses", 'write "responses"'),
    ],
)
def test_a_vendor_is_no_dialect(tmp_path: Path, word: str, hint: str) -> None:
    ((where, what),) = _problems(tmp_path / "a.toml", LOCAL.replace('"chat"', f'"{word}"'))
    assert where == "providers.local.dialect"
    assert what.startswith(f'expected one of chat, messages, responses, generate; got "{word}"')
    assert what.endswith(f": {hint}")


LITELLM = """\
# a proxy
model_list:
  - model_name: gpt-5
    litellm_params:
      model: openai/gpt-5
      api_base: http://127.0.0.1:9000
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.toml", "# mine\nserver:\n  port: 80\n", "It seems to be YAML; the configuration is TOML"),
        ("a.yaml", "- x\n", "It seems to be YAML"),
        ("a.toml", LITELLM, "It is LiteLLM's. Here an api_base is the base_url of a [providers.NAME]"),
        ("a.toml", '{"providers": {}}', "It seems to be JSON"),
        ("a.toml", "[server\nport = 1\n", "is not TOML: "),
    ],
)
def test_another_language(tmp_path: Path, name: str, text: str, expected: str) -> None:
    ((where, what),) = _problems(tmp_path / name, text)
    assert where == "FILE"
    assert expected in what
    assert ("It " in expected) == (". It " in what)


def test_litellm_s_keys_in_toml(tmp_path: Path) -> None:
    text = '[[model_list]]\nmodel_name = "x"\n[general_settings]\nmaster_key = "sk-1"\n' + LOCAL
    assert [where for where, what in _problems(tmp_path / "a.toml", text) if "is LiteLLM's" in what] == [
        "model_list",
        "general_settings",
    ]
    text = LOCAL.replace("base_url", "api_base") + f"[[routes]]\n{ROUTE}".replace("model =", "model_name =")
    assert dict(_problems(tmp_path / "a.toml", text)) == {
        "providers.local.base_url": "is required",
        "providers.local.api_base": 'unknown key (did you mean "base_url"?)',
        "routes[0].model": "is required",
        "routes[0].model_name": 'unknown key (did you mean "model"?)',
    }


@pytest.mark.parametrize("text", ["", "[server]\nport = 1\n", "[providers]\n"])
def test_a_file_that_serves_nothing(tmp_path: Path, text: str) -> None:
    assert _problems(tmp_path / "a.toml", text) == [
        ("FILE", "has no provider: write a [providers.NAME]; `dragoman init` writes an example")
    ]


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("my config.yaml", LITELLM, "dragoman import litellm 'my config.yaml'"),
        ("config.json", '{"Providers": [], "Router": {"default": "a,b"}}', "dragoman import ccr config.json"),
        ("config.json", "// mine\n{Providers: [{name: 'a'}]}", "dragoman import ccr config.json"),
    ],
)
def test_another_gateway_s_configuration_can_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    with pytest.raises(ConfigError, match=f"`{command}` converts it"):
        load_config(name)

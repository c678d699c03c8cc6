"""The file that an import writes."""

from __future__ import annotations

import re
import tomllib

import pytest

from dragoman_server.cli.imports.imported import (
    Imported,
    ImportedProvider,
    ImportedRoute,
    exact_model,
    printable,
    provider_name,
    toml_value,
    variable_name,
)


def test_the_file_is_a_configuration_with_its_notes_as_comments() -> None:
    found = Imported("a test", server={"port": 1}, timeouts={"first_byte": 1.5}, knobs={"on_loss": "reject"})
    name = found.add_provider("my vendor", ImportedProvider("chat", "http://h/v1", "${KEY}", {"x-a.b": "c"}, 5))
    found.routes.append(ImportedRoute("m", name, "n"))
    found.listed.append("m")
    found.note("a.b", "line\nbreak ${NOT_A_REFERENCE}")
    found.skip("c")
    text = found.toml()
    assert tomllib.loads(text) == {
        "server": {"port": 1, "timeouts": {"first_byte": 1.5}},
        "knobs": {"on_loss": "reject"},
        "providers": {
            "my-vendor": {
                "dialect": "chat",
                "base_url": "http://h/v1",
                "api_key": "${KEY}",
                "headers": {"x-a.b": "c"},
                "profile_flags": {"max_output_tokens": 5},
            }
        },
        "routes": [{"model": "m", "provider": "my-vendor", "upstream_model": "n"}],
        "models": {"listed": ["m"]},
    }
    assert "#   a.b: line break" in text
    assert "#   c: has no counterpart" in text
    assert found.variables() == ["KEY"]
    assert found.problems() == []


def test_equal_providers_are_one_and_others_get_a_number() -> None:
    found = Imported("a test")
    names = [found.add_provider("a", ImportedProvider("chat", url)) for url in ("http://1", "http://2", "http://1")]
    assert names == ["a", "a-2", "a"]


def test_what_is_wrong_is_found() -> None:
    found = Imported("a test")
    found.add_provider("a", ImportedProvider("chat", "your_api_base"))
    assert [path for path, _ in found.problems()] == ["providers.a.base_url"]


@pytest.mark.parametrize("text", ['a"b', "\\n", "tab\t", "\x7f\x00", "ümläut", "line\nbreak"])
def test_texts_are_toml(text: str) -> None:
    assert tomllib.loads(f"key = {toml_value(text)}") == {"key": text}


def test_names() -> None:
    assert provider_name("model scope/ü") == "model-scope"
    assert provider_name("$$") == "upstream"
    assert variable_name("my-vendor", "api_key") == "MY_VENDOR_API_KEY"
    assert variable_name("3rd") == "_3RD"
    assert printable("a\x1b[2J\nb") == "a [2J b"
    assert exact_model("claude-*") == "claude-*"
    pattern = exact_model("a[b]?*")
    assert re.fullmatch(pattern.strip("/"), "a[b]?rest")
    assert not re.fullmatch(pattern.strip("/"), "ab?rest")

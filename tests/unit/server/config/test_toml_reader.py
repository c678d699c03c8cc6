"""Values of a configuration file, each with its path in a problem."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from dragoman.profiles.profile import BUILTIN_PROFILES
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Secret


def provider(**more: Any) -> dict[str, Any]:
    return {"providers": {"local": {"dialect": "chat", "base_url": "http://127.0.0.1:9000/v1", **more}}}


def problems(data: dict[str, Any], env: dict[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(data, env or {})
    assert len(caught.value.problems) == len(dict(caught.value.problems)), "one problem told twice"
    return dict(caught.value.problems)


def test_the_message_reads_as_documented() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(provider(dialect="chatt"), {})
    assert str(caught.value) == (
        'providers.local.dialect: expected one of chat, messages, responses, generate; got "chatt" '
        '(did you mean "chat"?)'
    )


def test_all_problems_are_reported_together() -> None:
    data = tomllib.loads("""
colour = "red"
[server]
port = 70000
hots = "x"
[server.timeouts]
idle = "long"
connect = 0
[server.limits]
blocks = -1
[knobs]
orphans = "repare"
stop_emulation = true
[provider.local]
dialect = "chat"
[providers.a]
dialect = "chat"
base_url = "localhost:9000"
profile = "compatibel"
auth = "none"
api_key = "${NOT_THERE}"
[providers.a.profile_flags]
text_part = true
pdf = "yes"
efforts = ["high", "low"]
[[routes]]
model = "/(/"
provider = "aa"
[[routes]]
provider = "a"
knobs = { on_los = "reject" }
""")
    found = problems(data)
    assert found == {
        "colour": "unknown key",
        "provider": 'unknown key (did you mean "providers"?)',
        "server.port": "expected a port from 0 (any free one) to 65535; got 70000",
        "server.hots": 'unknown key (did you mean "host"?)',
        "server.timeouts.idle": 'expected a number; got "long"',
        "server.timeouts.connect": "expected seconds above 0; got 0",
        "server.limits.blocks": "expected 0 or more; got -1",
        "knobs.orphans": 'expected one of repair, strip, reject; got "repare" (did you mean "repair"?)',
        "knobs.stop_emulation": 'expected one of on, off; got true (did you mean "on"?)',
        "providers.a.base_url": 'expected a URL like https://host/v1; got "localhost:9000"',
        "providers.a.profile": (
            f"expected one of {', '.join(name for dialect, name in BUILTIN_PROFILES if dialect == 'chat')}; "
            'got "compatibel" (did you mean "compatible"?)'
        ),
        "providers.a.auth": 'expected one of configured, passthrough; got "none"',
        "providers.a.api_key": "the environment variable NOT_THERE is not set",
        "providers.a.profile_flags.text_part": 'unknown key (did you mean "text_parts"?)',
        "providers.a.profile_flags.pdf": 'expected a boolean; got "yes"',
        "providers.a.profile_flags.efforts": (
            "expected rising order without repetition: none, minimal, low, medium, high, xhigh, max"
        ),
        "routes[0].model": 'bad pattern "/(/": missing ), unterminated subpattern at position 0',
        "routes[0].provider": 'unknown provider "aa"; there are: a (did you mean "a"?)',
        "routes[1].model": "is required",
        "routes[1].knobs.on_los": 'unknown key (did you mean "on_loss"?)',
    }


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"server": []}, "server"),
        ({"server": {"port": True}}, "server.port"),
        ({"server": {"port": "8080"}}, "server.port"),
        ({"server": {"host": 5}}, "server.host"),
        ({"server": {"host": ""}}, "server.host"),
        ({"server": {"keys": "one"}}, "server.keys"),
        ({"server": {"keys": ["a", 1]}}, "server.keys[1]"),
        ({"server": {"allowed_hosts": "x"}}, "server.allowed_hosts"),
        ({"server": {"allowed_hosts": ["x", "http://x"]}}, "server.allowed_hosts[1]"),
        ({"server": {"allowed_hosts": ["x:8080"]}}, "server.allowed_hosts[0]"),
        ({"server": {"allowed_hosts": ["a*.example.com"]}}, "server.allowed_hosts[0]"),
        ({"server": {"cors_origins": ["https://x/"]}}, "server.cors_origins[0]"),
        ({"server": {"cors_origins": ["*", "x.example"]}}, "server.cors_origins[1]"),
        ({"server": {"backlog": 0}}, "server.backlog"),
        ({"server": {"max_connections": -1}}, "server.max_connections"),
        ({"server": {"max_connections_per_address": -1}}, "server.max_connections_per_address"),
        ({"server": {"timeouts": {"head": 0}}}, "server.timeouts.head"),
        ({"server": {"limits": {"blocks": 1.5}}}, "server.limits.blocks"),
        ({"server": {"limits": {"blocks": 0}}}, "server.limits.blocks"),
        ({"server": {"limits": {"blocks": True}}}, "server.limits.blocks"),
        ({"server": {"timeouts": {"idle": float("nan")}}}, "server.timeouts.idle"),
        ({"server": {"timeouts": {"idle": float("inf")}}}, "server.timeouts.idle"),
        ({"server": {"timeouts": {"idle": -1}}}, "server.timeouts.idle"),
        ({"server": {"timeouts": {"heartbeat": 0}}}, "server.timeouts.heartbeat"),
        ({"server": {"timeouts": {"early_reply": -1}}}, "server.timeouts.early_reply"),
        ({"routes": {"model": "x"}}, "routes"),
        ({"routes": ["x"]}, "routes[0]"),
        ({"providers": {"a": "http://x"}}, "providers.a"),
        ({"models": {"unknown": "smal"}}, "models.unknown"),
        ({"models": {"big": "${NOT_THERE}"}}, "models.big"),
        ({"models": {"unknown": "small"}}, "models.unknown"),
        ({"models": {"unknown": "pass"}}, "models.unknown"),
        (provider(base_url="ftp://x/v1"), "providers.local.base_url"),
        (provider(base_url="http://x:99999/v1"), "providers.local.base_url"),
        (provider(base_url="http://[::1/v1"), "providers.local.base_url"),
        (provider(base_url="http:///v1"), "providers.local.base_url"),
        (provider(base_url="http://x/v1\nx"), "providers.local.base_url"),
        (provider(base_url="http://x/v1#a"), "providers.local.base_url"),
        (provider(base_url="http://x/v1/chat/completions"), "providers.local.base_url"),
        (provider(headers={"a b": "x"}), "providers.local.headers"),
        (provider(headers={"x": "a\r\nb: c"}), "providers.local.headers.x"),
        (provider(headers={"Content-Length": "1"}), "providers.local.headers.content-length"),
        (provider(headers={"x": 1}), "providers.local.headers.x"),
        (provider(profile="anthropic"), "providers.local.profile"),
        (provider(auth="passthrough", api_key="x"), "providers.local.api_key"),
        (provider(api_key="${lower-case!}"), "providers.local.api_key"),
        (provider(profile_flags={"max_output_tokens": -1}), "providers.local.profile_flags.max_output_tokens"),
        (provider(profile_flags={"efforts": ["loud"]}), "providers.local.profile_flags.efforts"),
        (provider(profile_flags={"anthropic_version": "2024"}), "providers.local.profile_flags.anthropic_version"),
        ({"providers": {"a/b": {"dialect": "chat", "base_url": "http://x"}}}, 'providers."a/b"'),
        ({**provider(), "routes": [{"model": "a*b*", "provider": "local", "upstream_model": "x-*"}]},
         "routes[0].upstream_model"),
        ({**provider(), "routes": [{"model": "a[*]", "provider": "local", "upstream_model": "x-*"}]},
         "routes[0].upstream_model"),
        ({**provider(), "routes": [{"model": "/(?i)a(.)/", "provider": "local", "upstream_model": r"\2"}]},
         "routes[0].upstream_model"),
        ({**provider(), "routes": [{"model": "[z-a]", "provider": "local"}]}, "routes[0].model"),
        ({**provider(), "routes": [{"model": "x", "provider": "local", "client": "chatt"}]}, "routes[0].client"),
    ],
)  # fmt: skip
def test_each_wrong_value_is_named_once_at_its_path(data: dict[str, Any], path: str) -> None:
    assert list(problems(data)) == [path]


def test_environment_references() -> None:
    data = {
        "server": {"port": "${PORT:-8081}", "host": "${HOST}"},
        **provider(api_key="${EMPTY:-}", headers={"x-both": "${HOST}/${PORT:-1}"}),
    }
    config = parse_config(data, {"HOST": "::1", "EMPTY": ""})
    assert (config.server.host, config.server.port) == ("::1", 8081)
    assert config.providers["local"].api_key is None
    assert config.providers["local"].headers == {"x-both": "::1/1"}
    assert problems({"server": {"port": "${PORT}"}}, {"PORT": "http"}) == {
        "server.port": "expected an integer from ${PORT}"
    }


def test_a_key_read_from_a_file_keeps_no_line_end() -> None:
    config = parse_config(provider(api_key="${K}"), {"K": "abc\n"})
    assert config.providers["local"].api_key == Secret("abc")
    assert list(problems(provider(api_key="${K}"), {"K": "a\nb"})) == ["providers.local.api_key"]

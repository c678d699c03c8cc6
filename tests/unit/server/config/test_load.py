"""Configuration: what is read, and that everything wrong is named at its path, all at once, with no key in sight."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from dragoman.limits import MIB, Limits
from dragoman.profiles.profile import BUILTIN_PROFILES
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import load_config, parse_config, simulated_config
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models, Server

CANARY = "sk-canary-7f3a"

FULL = """
[server]
host = "0.0.0.0"
port = 9090
keys = ["${GATEWAY_KEY}", "second"]
[server.timeouts]
connect = 5
idle = 30.5
heartbeat = 20
[server.limits]
request_body = 1048576
[knobs]
orphans = "strip"
[providers.local]
dialect = "chat"
base_url = "http://127.0.0.1:9000/v1"
api_key = "${LOCAL_KEY}"
profile = "compatible"
headers = { "X-Team" = "a-${TEAM:-none}" }
[providers.local.profile_flags]
text_parts = true
efforts = ["low", "high"]
max_temperature = 1
[providers.claude]
dialect = "messages"
base_url = "https://api.anthropic.com"
[[routes]]
model = "claude-*"
provider = "local"
upstream_model = "qwen3"
knobs = { on_loss = "reject" }
[[routes]]
model = "/gpt-[0-9]+/"
provider = "claude"
client = "chat"
[models]
big = "local/gpt-x"
small = "local/gpt-x-mini"
unknown = "reject"
"""

ENV = {"GATEWAY_KEY": CANARY, "LOCAL_KEY": CANARY + "-local"}


def test_a_full_file_is_read() -> None:
    config = parse_config(tomllib.loads(FULL), ENV)
    assert (config.server.host, config.server.port) == ("0.0.0.0", 9090)
    assert [key.reveal() for key in config.server.keys] == [CANARY, "second"]
    assert config.server.timeouts == Timeouts(connect=5, idle=30.5, heartbeat=20)
    assert config.server.limits == Limits(request_body=MIB)
    assert config.knobs == Knobs(orphans="strip")
    local, claude = config.providers["local"], config.providers["claude"]
    assert local.dialect is Dialect.CHAT
    assert config.routes[1].client is Dialect.CHAT
    assert local.api_key is not None
    assert local.api_key.reveal() == CANARY + "-local"
    assert local.headers == {"x-team": "a-none"}
    assert local.profile == replace(
        BUILTIN_PROFILES["chat", "compatible"],
        family="local",
        text_parts=True,
        efforts=("low", "high"),
        max_temperature=1,
    )
    assert claude.profile == replace(BUILTIN_PROFILES["messages", "anthropic"], family="claude")
    assert claude.auth is Auth.CONFIGURED
    assert list(config.routes) == [
        Route("claude-*", "local", "qwen3", None, {"on_loss": "reject"}),
        Route("/gpt-[0-9]+/", "claude", None, Dialect.CHAT),
    ]
    assert config.models == Models("local/gpt-x", "local/gpt-x-mini", "reject")
    assert not config.simulated


def test_an_empty_file_has_the_documented_defaults() -> None:
    config = parse_config({}, {})
    assert config == Config()
    server = config.server
    assert (server.host, server.port, server.keys) == ("127.0.0.1", 8080, ())
    assert asdict(server.timeouts) == {
        "connect": 10,
        "first_byte": 300,
        "idle": 120,
        "tool_stall": 120,
        "write": 60,
        "heartbeat": 15,
        "early_reply": 0,
        "body": 60,
        "head": 30,
        "keep_alive": 660,
    }
    assert (server.allowed_hosts, server.cors_origins, server.backlog) == ((), (), 1024)
    assert (server.max_connections, server.max_connections_per_address) == (0, 0)
    assert config.models.policy == "reject"
    assert Models(small="x").policy == Models(big="x").policy == "small"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.toml: cannot be read: No such file"):
        load_config(tmp_path / "nowhere.toml")
    path = tmp_path / "a.toml"
    for content in (b"[server", b"x = '\xff'"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"a.toml: is not TOML"):
            load_config(path)


def test_a_file_is_read_with_this_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PORT", "99")
    monkeypatch.delenv("BIG_MODEL_NAME", raising=False)
    monkeypatch.delenv("SMALL_MODEL_NAME", raising=False)
    path = tmp_path / "a.toml"
    local = b'[providers.local]\ndialect = "chat"\nbase_url = "http://h/v1"\n'
    path.write_bytes(b'\xef\xbb\xbf[server]\nport = "${SOME_PORT}"\n' + local)
    local_only = {"local": Provider("local", Dialect.CHAT, "http://h/v1")}
    assert load_config(str(path)) == Config(local_only, server=Server(port=99))


def test_the_simulated_configuration_has_each_dialect() -> None:
    config = simulated_config()
    assert config.simulated
    assert sorted(config.providers) == sorted(f"simulated-{dialect}" for dialect in Dialect)
    config.check()
    filled = config.with_simulator("http://127.0.0.1:5000", models=["sim-text"])
    filled.check()
    assert filled.models_listed == ("sim-text",)
    assert {name: p.endpoint("models") for name, p in filled.providers.items()} == {
        f"simulated-{dialect}": f"http://127.0.0.1:5000/{dialect.facts.version}/models" for dialect in Dialect
    }
    simulated = filled.providers["simulated-messages"]
    assert simulated.profile == replace(BUILTIN_PROFILES["messages", "anthropic"], family=simulated.name)


def test_no_key_shows_anywhere() -> None:
    config = parse_config(tomllib.loads(FULL.replace("a-${TEAM:-none}", "${LOCAL_KEY}")), ENV)
    secret = Secret(CANARY)
    assert f"{secret} {secret!r} {secret!s:>5} {[secret]}".count("***") == 4
    for text in (repr(config), str(config), repr(asdict(config)["server"]), repr(config.providers)):
        assert CANARY not in text
    # Invalid as a word, a URL, an integer and a header: reported without the value of the reference.
    data = {
        "server": {"port": "${KEY}", "keys": [5]},
        "providers": {
            "a": {
                "dialect": "${KEY}",
                "base_url": f"https://user:{CANARY}@host/v1",
                "api_key": ["${KEY}", CANARY],
                "auth": "passthrough",
                "headers": {"x": f"{CANARY}\n"},
            },
            "b": {"dialect": "chat", "base_url": f"https://user:{CANARY}@host:x/v1"},
        },
    }
    with pytest.raises(ConfigError) as caught:
        parse_config(data, {"KEY": CANARY})
    assert len(caught.value.problems) == 7
    assert CANARY not in str(caught.value) + repr(caught.value)


def test_a_problem_shows_a_reference_and_not_its_value() -> None:
    """Found by fuzzing: a key that is written in place of a provider's name was in the error."""
    data = {
        "providers": {"up": {"dialect": "chat", "base_url": "http://127.0.0.1:1/v1"}},
        "routes": [{"model": "m", "providers": ["${SOME_KEY}", "${SOME_KEY}"]}],
    }
    with pytest.raises(ConfigError) as raised:
        parse_config(data, {"SOME_KEY": "sk-proj-4mQ0bYzW1eVtL8"})
    assert "sk-proj" not in str(raised.value)
    assert 'unknown provider "${SOME_KEY}"' in str(raised.value)


def test_an_error_knows_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[server]\nport = true\n")
    with pytest.raises(ConfigError, match=r"server\.port: expected an integer; got true") as caught:
        load_config(path)
    assert caught.value.file == str(path)
    assert caught.value.__notes__ == [f"in {path}"]  # for a program that prints no more than a traceback

"""Configuration: what is read, and that everything wrong is named at its path, all at once, with no key in sight."""

from __future__ import annotations

import copy
import pickle
import tomllib
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from dragoman.limits import MIB, Limits
from dragoman.profiles.profile import BUILTIN_PROFILES, PROFILE_FIELDS, Profile
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.load import NothingConfigured, load_config, parse_config, simulated_config
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.schema import Config, Models, Route, Server
from dragoman_server.config.toml_reader import ConfigError
from support.paths import ROOT

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


def provider(**more: Any) -> dict[str, Any]:
    return {"providers": {"local": {"dialect": "chat", "base_url": "http://127.0.0.1:9000/v1", **more}}}


def problems(data: dict[str, Any], env: dict[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(data, env or {})
    assert len(caught.value.problems) == len(dict(caught.value.problems)), "one problem told twice"
    return dict(caught.value.problems)


def test_a_full_file_is_read() -> None:
    config = parse_config(tomllib.loads(FULL), ENV)
    assert (config.server.host, config.server.port) == ("0.0.0.0", 9090)
    assert [key.reveal() for key in config.server.keys] == [CANARY, "second"]
    assert config.server.timeouts == Timeouts(connect=5, idle=30.5, heartbeat=20)
    assert config.server.limits == Limits(request_body=MIB)
    assert config.knobs == Knobs(orphans="strip")
    local, claude = config.providers["local"], config.providers["claude"]
    assert local.dialect is Dialect.CHAT
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


def test_the_message_reads_as_documented() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(provider(dialect="chatt"), {})
    assert str(caught.value) == (
        'providers.local.dialect: expected one of chat, messages, responses; got "chatt" (did you mean "chat"?)'
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
        "server.timeouts.idle": "expected a number, got a string",
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
        "providers.a.profile_flags.pdf": "expected a boolean, got a string",
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


@pytest.mark.parametrize(("given", "count"), [(3, 3), (0, 0), ("auto", 0), ("${N}", 4), ("${M}", 0)])
def test_workers_are_a_number_or_auto(given: Any, count: int) -> None:
    config = parse_config({"server": {"workers": given}}, {"N": "4", "M": "auto"})
    assert config.server.workers == count


@pytest.mark.parametrize(
    ("key", "wrong", "message"),
    [
        ("workers", -1, "expected 0 (one for each core) to 256; got -1"),
        ("workers", 257, "expected 0 (one for each core) to 256; got 257"),
        ("workers", "many", 'expected an integer or "auto"; got "many"'),
        ("reload_drain", -1, "expected 0 seconds or more; got -1"),
        ("reload_drain", "auto", "expected an integer, got a string"),
    ],
)
def test_what_workers_cannot_be(key: str, wrong: Any, message: str) -> None:
    assert problems({"server": {key: wrong}})[f"server.{key}"] == message


def test_hosts_origins_and_counts_of_connections_are_read() -> None:
    message = {
        "allowed_hosts": ["llm.example.com", "*.example.org", "*", "${NAME}", "192.0.2.1", "[::1]"],
        "cors_origins": ["https://x.example:8443", "null", "*", "chrome-extension://*"],
        "backlog": 7,
        "max_connections": 8,
        "max_connections_per_address": 9,
    }
    server = parse_config({"server": message}, {"NAME": "from-the-environment"}).server
    assert server.allowed_hosts == (*message["allowed_hosts"][:3], "from-the-environment", "192.0.2.1", "[::1]")  # type: ignore[index]
    assert server.cors_origins == tuple(message["cors_origins"])  # type: ignore[arg-type]
    assert (server.backlog, server.max_connections, server.max_connections_per_address) == (7, 8, 9)


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


@pytest.mark.parametrize("keys", [[], [""], ["${X:-}"], ["  "]])
def test_inbound_keys_that_would_let_everybody_in_are_refused(keys: list[str]) -> None:
    assert [path.partition("[")[0] for path in problems({"server": {"keys": keys}})] == ["server.keys"]


def test_a_missing_inbound_key_is_reported_once() -> None:
    assert problems({"server": {"keys": ["${X}"]}}) == {"server.keys[0]": "the environment variable X is not set"}


def test_passthrough_and_inbound_keys_exclude_each_other() -> None:
    assert list(problems({"server": {"keys": ["k"]}, **provider(auth="passthrough")})) == ["providers.local.auth"]


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


def test_secrets_compare_and_copy() -> None:
    secret = Secret(CANARY)
    assert secret == Secret(CANARY)
    assert secret != Secret("other")
    assert secret != CANARY
    assert copy.deepcopy(secret) == pickle.loads(pickle.dumps(secret)) == secret
    assert len({secret, Secret(CANARY)}) == 1
    given: Any = CANARY
    assert CANARY not in repr(Provider("a", Dialect.CHAT, "http://x", given))
    assert CANARY not in repr(Server(keys=(given,)))


@pytest.mark.parametrize(
    ("dialect", "base_url", "path", "url"),
    [
        ("chat", "http://h:9000/v1", "chat/completions", "http://h:9000/v1/chat/completions"),
        ("chat", "http://h:9000/v1/", "/chat/completions", "http://h:9000/v1/chat/completions"),
        ("chat", "http://h:9000", "models", "http://h:9000/v1/models"),
        ("chat", "http://h:9000/", "models", "http://h:9000/v1/models"),
        ("chat", "https://h/api/paas/v4", "chat/completions", "https://h/api/paas/v4/chat/completions"),
        ("chat", "https://h/v1beta/openai/", "chat/completions", "https://h/v1beta/openai/chat/completions"),
        ("responses", "https://api.openai.com/v1", "responses", "https://api.openai.com/v1/responses"),
        ("responses", "https://h/o/v1?api-version=7", "responses", "https://h/o/v1/responses?api-version=7"),
        ("responses", "https://h?api-version=7", "responses", "https://h/v1/responses?api-version=7"),
        ("messages", "https://api.anthropic.com", "messages", "https://api.anthropic.com/v1/messages"),
        ("messages", "https://api.anthropic.com/v1/", "messages", "https://api.anthropic.com/v1/messages"),
        ("messages", "https://h/anthropic", "messages/count_tokens", "https://h/anthropic/v1/messages/count_tokens"),
        ("messages", "http://[::1]:80", "models", "http://[::1]:80/v1/models"),
    ],
)
def test_endpoint_urls(dialect: str, base_url: str, path: str, url: str) -> None:
    upstream = Provider("p", Dialect(dialect), base_url)
    assert upstream.endpoint(path) == url
    assert upstream.endpoint(path, "beta=true") == url + ("&" if "?" in url else "?") + "beta=true"


@pytest.mark.parametrize(
    ("dialect", "base_url", "profile"),
    [
        ("chat", "https://api.openai.com/v1", "openai"),
        ("chat", "https://API.OpenAI.com/v1", "openai"),
        ("responses", "https://api.openai.com/v1", "openai"),
        ("messages", "https://api.anthropic.com", "anthropic"),
        ("chat", "https://api.anthropic.com/v1", "compatible"),
        ("messages", "https://api.openai.com", "compatible"),
        ("chat", "https://api.openai.com.evil.example/v1", "compatible"),
        ("chat", "http://127.0.0.1:9000/v1", "compatible"),
    ],
)
def test_the_default_profile_is_the_vendors_for_its_host_only(dialect: str, base_url: str, profile: str) -> None:
    expected = replace(BUILTIN_PROFILES[dialect, profile], family="p")
    assert Provider("p", Dialect(dialect), base_url).profile == expected
    data = {"providers": {"p": {"dialect": dialect, "base_url": base_url}}}
    assert parse_config(data, {}).providers["p"].profile == expected


def test_a_family_is_the_providers_name_unless_it_is_configured() -> None:
    """So that what one upstream sealed goes back to it only, or to those that share its keys."""
    data: dict[str, Any] = {"providers": {name: dict(provider()["providers"]["local"]) for name in ("a", "b", "c")}}
    for name in ("b", "c"):
        data["providers"][name]["profile_flags"] = {"family": "account"}
    config = parse_config(data, {})
    assert {name: p.profile.family for name, p in config.providers.items()} == {
        "a": "a",
        "b": "account",
        "c": "account",
    }
    assert Provider("p", Dialect.CHAT, "http://x", profile=Profile(family="own")).profile.family == "own"
    assert Provider("p", Dialect.CHAT, "http://x", profile=Profile()).profile.family == "p"


def test_big_and_small_come_from_the_environment_too() -> None:
    env = {"BIG_MODEL_NAME": "b", "SMALL_MODEL_NAME": "s"}
    assert parse_config(provider(), env).models == Models("b", "s")
    assert parse_config({**provider(), "models": {"big": "file"}}, env).models == Models("file", "s")


def test_a_big_model_of_no_known_provider_is_a_problem() -> None:
    data = provider()
    data["providers"]["other"] = {"dialect": "messages", "base_url": "http://o"}
    data["models"] = {"big": "gpt-x", "small": "other/mini"}
    assert problems(data) == {
        "models.big": 'no provider is known for "gpt-x": write "provider/gpt-x", or give it a route'
    }
    data["routes"] = [{"model": "gpt-*", "provider": "local"}]
    assert parse_config(data, {}).models.big == "gpt-x"


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


def test_a_configuration_made_in_python_is_judged_alike() -> None:
    local = Provider("local", Dialect.CHAT, "http://127.0.0.1:9000/v1")
    Config(providers={"local": local}, routes=[Route("a", "local")]).check()
    wrong = Config(
        providers={"lokal": local, "b": Provider("b", Dialect.CHAT, "nothing", profile=Profile(max_output_tokens=-1))},
        routes=[Route("a", "locl", knobs={"orphans": "x", "y": "z"})],
        server=Server(port=-1, timeouts=Timeouts(idle=0), receipts=-1, prefix_diagnostics=-1),
    )
    with pytest.raises(ConfigError) as caught:
        wrong.check()
    assert [path for path, _ in caught.value.problems] == [
        "server.port",
        "server.receipts",
        "server.prefix_diagnostics",
        "server.timeouts.idle",
        "providers.lokal",
        "providers.b.base_url",
        "providers.b.profile_flags.max_output_tokens",
        "routes[0].provider",
        "routes[0].knobs.orphans",
        "routes[0].knobs.y",
    ]


# --- without a file ---------------------------------------------------------------------------------------------------


def test_nothing_configured_is_an_error() -> None:
    for env in ({}, {"OPENAI_API_KEY": " "}, {"OPENAI_BASE_URL": "http://x"}, {"BIG_MODEL_NAME": "m"}):
        with pytest.raises(NothingConfigured, match="OPENAI_API_KEY"):
            config_from_environment(env)


def test_the_simulated_configuration_has_each_dialect() -> None:
    config = simulated_config()
    assert config.simulated
    assert sorted(config.providers) == ["simulated-chat", "simulated-messages", "simulated-responses"]
    config.check()
    filled = config.with_simulator("http://127.0.0.1:5000", models=["sim-text"])
    filled.check()
    assert filled.models_listed == ("sim-text",)
    assert {name: p.endpoint("models") for name, p in filled.providers.items()} == dict.fromkeys(
        filled.providers, "http://127.0.0.1:5000/v1/models"
    )
    simulated = filled.providers["simulated-messages"]
    assert simulated.profile == replace(BUILTIN_PROFILES["messages", "anthropic"], family=simulated.name)


def test_vendor_keys_make_vendor_providers() -> None:
    config = config_from_environment({"ANTHROPIC_API_KEY": "a"})
    assert list(config.providers) == ["anthropic"]
    assert config.models.policy == "pass"

    both = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "ANTHROPIC_BASE_URL": "http://proxy:1"}
    config = config_from_environment(both)
    assert list(config.providers) == ["openai", "openai-responses", "anthropic"]
    assert config.providers["anthropic"].endpoint("messages") == "http://proxy:1/v1/messages"
    assert config.providers["anthropic"].profile == replace(
        BUILTIN_PROFILES["messages", "compatible"], family="anthropic"
    )

    assert config_from_environment(both, dialect="responses").providers["openai"].dialect is Dialect.RESPONSES
    assert list(config_from_environment(both, dialect="responses").providers) == ["openai"]
    assert list(config_from_environment(both, dialect="messages").providers) == ["anthropic"]
    with pytest.raises(ConfigError, match=r"^dialect: messages needs a base URL, or ANTHROPIC_API_KEY"):
        config_from_environment({"OPENAI_API_KEY": "o"}, dialect="messages")


def test_openais_key_makes_both_of_its_surfaces() -> None:
    config = config_from_environment({"OPENAI_API_KEY": "o"})
    chat, responses = config.providers["openai"], config.providers["openai-responses"]
    assert list(config.providers) == ["openai", "openai-responses"]
    assert (chat.dialect, chat.base_url, chat.api_key) == ("chat", "https://api.openai.com/v1", Secret("o"))
    assert (responses.dialect, responses.base_url, responses.api_key) == ("responses", chat.base_url, chat.api_key)
    assert chat.profile == replace(BUILTIN_PROFILES["chat", "openai"], family="openai")
    assert responses.profile == replace(BUILTIN_PROFILES["responses", "openai"], family="openai")
    # Of a server that is not OpenAI's, only Chat is known.
    other = config_from_environment({"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert list(other.providers) == ["openai"]
    assert other.models.policy == "pass"
    assert list(config_from_environment({"OPENAI_API_KEY": "o"}, dialect="chat").providers) == ["openai"]


def test_the_command_lines_upstream_stands_alone() -> None:
    env = {"OPENAI_API_KEY": CANARY, "ANTHROPIC_API_KEY": CANARY, "MY_KEY": "mine"}
    config = config_from_environment(env, base_url="http://127.0.0.1:9000/v1", api_key="${MY_KEY}")
    assert list(config.providers) == ["upstream"]
    assert config.providers["upstream"].api_key == Secret("mine")
    assert config.providers["upstream"].dialect is Dialect.CHAT
    assert config.models.policy == "pass"
    # No vendor's key leaves for another host; a neutral variable keeps keys out of the process list.
    assert config_from_environment(env, base_url="http://evil/v1").providers["upstream"].api_key is None
    neutral = config_from_environment({**env, "UPSTREAM_API_KEY": "u"}, base_url="http://h/v1", dialect="responses")
    assert neutral.providers["upstream"].api_key == Secret("u")
    assert neutral.providers["upstream"].dialect is Dialect.RESPONSES
    claude = config_from_environment(env, base_url="https://api.anthropic.com").providers["upstream"]
    assert (claude.dialect, claude.api_key) == ("messages", Secret(CANARY))
    keyed = config_from_environment({}, dialect="messages", api_key="k").providers["upstream"]
    assert keyed.endpoint("messages") == "https://api.anthropic.com/v1/messages"


@pytest.mark.parametrize(
    ("env", "more", "path"),
    [
        ({"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "nowhere"}, {}, "OPENAI_BASE_URL"),
        ({"OPENAI_API_KEY": "o\nx"}, {}, "OPENAI_API_KEY"),
        ({}, {"base_url": "nowhere"}, "base_url"),
        ({}, {"base_url": "http://h", "api_key": "${NONE}"}, "api_key"),
        ({}, {"base_url": "http://h", "dialect": "mesages"}, "dialect"),
        ({}, {"api_key": "k"}, "api_key"),
    ],
)
def test_environment_problems_name_the_variable_or_option(env: dict[str, str], more: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_environment(env, **more)
    assert [where for where, _ in caught.value.problems] == [path]


def test_the_reference_page_names_every_key() -> None:
    page = (ROOT / "docs/reference/configuration.md").read_text("utf-8")
    names = [f.name for kind in (Timeouts, Limits, Knobs) for f in fields(kind)] + list(PROFILE_FIELDS)
    assert [name for name in names if f"`{name}`" not in page] == []

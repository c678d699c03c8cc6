"""The table `[state.compaction]`."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Dialect, builtin_profile
from dragoman_server.config.compaction_options import CompactionOptions
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Provider

PROVIDER = {"providers": {"up": {"dialect": "chat", "base_url": "http://127.0.0.1:9/v1"}}}


def parsed(**compaction: Any) -> CompactionOptions:
    return parse_config({**PROVIDER, "state": {"compaction": compaction}}, {}).state.compaction


def parsed_with_state(**compaction: Any) -> CompactionOptions:
    return parse_config({**PROVIDER, "state": {"kind": "memory", "compaction": compaction}}, {}).state.compaction


def test_the_settings_of_a_file() -> None:
    assert parse_config(PROVIDER, {}).state.compaction == CompactionOptions()
    windows = {"qwen3*": 32_768, "*": 100}
    options = parsed_with_state(model="small", share=0.8, context_windows=windows)
    assert options == CompactionOptions("small", 0.8, (("qwen3*", 32_768), ("*", 100)))


def test_the_window_of_a_model() -> None:
    profile = builtin_profile("chat").replace({"context_window": 7})
    provider = Provider("up", Dialect.CHAT, "http://127.0.0.1:9", profile=profile)
    options = CompactionOptions(context_windows=(("qwen3-?", 1), ("qwen3*", 2)))
    assert [options.window(model, provider) for model in ("qwen3-a", "qwen3-ab", "other")] == [1, 2, 7]


@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        ({"share": 1.0}, r"state\.compaction\.share: expected a share from 0 to below 1; got 1"),
        ({"share": -0.1}, r"state\.compaction\.share: expected a share"),
        ({"context_windows": {"a*": 0}}, r'context_windows\."a\*": expected 1 or more; got 0'),
        ({"context_windows": {"a": "many"}}, r"context_windows\.a: expected an integer"),
    ],
)
def test_problems(state: Any, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        parsed_with_state(**state)


def test_a_share_needs_a_store() -> None:
    assert parsed(share=0.5).share == 0.5  # in memory, by default
    table = {**PROVIDER, "state": {"compaction": {"share": 0.5}}}
    for more in ({"server": {"workers": 2}}, {"state": {"kind": "off", "compaction": {"share": 0.5}}}):
        with pytest.raises(ConfigError, match="has no effect without a store"):
            parse_config({**table, **more}, {})


def test_an_unknown_key_is_a_problem() -> None:
    with pytest.raises(ConfigError, match=r"state\.compaction\.modle"):
        parsed(modle="small")

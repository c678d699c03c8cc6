"""The settings that make a profile agree with its host, by the message of an error."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.cli.tool_calls.question import request_for
from dragoman_server.cli.tool_calls.repairs import Repair, of_error
from dragoman_server.config.door import Door
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Provider

CHAT, MESSAGES, RESPONSES, *_ = Dialect


def repair(dialect: Dialect, message: str, *, door: Door | None = None, **flags: Any) -> str:
    profile = builtin_profile(dialect).replace(flags)
    provider = Provider("my host", dialect, "http://h/v1", profile=profile, door=door or Door())
    found = of_error(provider, message, request_for(dialect, "m", provider))
    assert found is None or found.table == 'providers."my host"'
    return str(found or "")


@pytest.mark.parametrize(
    ("dialect", "message", "flags", "expected"),
    [
        (CHAT, "unknown field max_completion_tokens", {}, 'profile_flags.max_tokens_field = "max_tokens"'),
        (CHAT, "property 'tools.0.function.strict' is unsupported", {}, "profile_flags.strict_tools = false"),
        (CHAT, "Unexpected role developer", {}, 'profile_flags.instruction_role = "system"'),
        (CHAT, "tool_choice: no", {}, 'profile_flags.tool_choice = "unforced"'),
        (CHAT, "tool_choice: no", {"tool_choice": "unforced"}, 'profile_flags.tool_choice = "auto"'),
        (CHAT, "tool_choice: no", {"tool_choice": "auto"}, 'profile_flags.refused_fields = ["tool_choice"]'),
        (CHAT, "a restricted value", {}, ""),
        (CHAT, "schemas with additionalProperties", {}, 'profile_flags.schema_refused = ["additionalProperties"]'),
        (RESPONSES, "Argument not supported: store", {}, 'profile_flags.refused_fields = ["store"]'),
        (RESPONSES, "no store", {"refused_fields": ("seed",)}, 'profile_flags.refused_fields = ["seed","store"]'),
        (RESPONSES, "no store", {"refused_fields": ("store",)}, ""),
        (RESPONSES, "parallel_tool_calls", {}, "profile_flags.parallel_tool_calls = false"),
        (MESSAGES, "tool_choice: Extra inputs", {}, "profile_flags.rewrite = true"),
        (MESSAGES, "tool_choice: Extra inputs", {"rewrite": True}, 'omit = ["tool_choice"]'),
        (MESSAGES, "the messages are too long", {}, ""),
    ],
)
def test_an_error_names_its_repair(dialect: Dialect, message: str, flags: dict[str, Any], expected: str) -> None:
    assert repair(dialect, message, **flags) == expected


def test_fields_that_are_left_out_already_stay_so() -> None:
    found = repair(MESSAGES, "tool_choice: Extra inputs", door=Door(omit=("seed",)), rewrite=True)
    assert found == 'omit = ["seed","tool_choice"]'


@pytest.mark.parametrize("value", ["system", False, 9, ("a", "b")])
def test_a_repair_is_a_line_of_toml(value: Any) -> None:
    found = Repair('providers."my host"', "profile_flags.x", value)
    (table,) = tomllib.loads(f"[{found.table}]\n{found}")["providers"].values()
    assert table["profile_flags"]["x"] == (list(value) if isinstance(value, tuple) else value)
    assert found.path == 'providers."my host".profile_flags.x'


def test_a_repair_is_taken_by_the_configuration() -> None:
    line = repair(CHAT, "unknown field max_completion_tokens")
    text = f'[providers.up]\ndialect = "chat"\nbase_url = "http://h/v1"\n{line}'
    config = parse_config(tomllib.loads(text), {})
    assert config.problems() == []
    assert config.providers["up"].profile.max_tokens_field == "max_tokens"

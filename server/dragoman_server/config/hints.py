"""Hints for common mistakes in a configuration: another file format, another tool's keys, tables of the wrong shape."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from dragoman import Dialect
from dragoman_server.config.config_error import Problem
from dragoman_server.config.value_problems import kind_of


def _alone(dialect: Dialect) -> bool:
    """True if the vendor of the dialect has no other one."""
    return [each.facts.vendor for each in Dialect].count(dialect.facts.vendor) == 1


def _names(dialect: Dialect) -> tuple[str, str]:
    """Return the names of a dialect's vendor."""
    return dialect.facts.vendor, dialect.facts.maker.lower()


DIALECTS = {
    **dict.fromkeys(("openai", "open-ai", "open_ai"), "chat is OpenAI's Chat Completions, responses its Responses"),
    **dict.fromkeys(("openai-compatible", "openai_compatible", "ollama", "vllm"), 'write "chat"'),
    **dict.fromkeys(("chat_completions", "chat-completions", "completions"), 'write "chat"'),
    "claude": 'write "messages"',
    **dict.fromkeys(("openai-responses", "openai_responses", "response"), 'write "responses"'),
    **{word: f'write "{dialect}"' for dialect in Dialect if _alone(dialect) for word in _names(dialect)},
}
"""A word given as `dialect` that is not one → the hint."""

_EXAMPLE = "`dragoman init` writes an example"
_IMPORT = "`dragoman import {origin} {file}` converts it"
_LITELLM = (
    "is LiteLLM's. Here an api_base is the base_url of a [providers.NAME], and a model_name the model of a [[routes]]"
    " with provider and upstream_model"
)
_LITELLM_KEYS = ("model_list", "litellm_params", "litellm_settings", "general_settings", "router_settings")
_LITELLM_TEXT = re.compile(rf"^[ \t-]*({'|'.join(_LITELLM_KEYS)}):", re.MULTILINE)
_ROUTER_TEXT = re.compile(r"""["']?Providers["']?\s*:\s*\[""")
_YAML = re.compile(r"\A(?:\s*(?:#[^\n]*)?\n)*(?:---|[ \t]*-[ \t]|[ \t]*[\w\"'.-]+:(?:[ \t\n]|\Z))")
_ONE_PROVIDER = frozenset({"dialect", "base_url", "api_key", "auth", "profile"})


def other_format(text: str, name: str) -> str:
    """Return a hint on the likely format of a file that is not TOML, as the end of a sentence; empty if unknown."""
    file = shlex.quote(name)
    if name.endswith((".yaml", ".yml")) or _YAML.match(text):
        if _LITELLM_TEXT.search(text):
            return f"{_LITELLM}; {_IMPORT.format(origin='litellm', file=file)}"
        return f"seems to be YAML; the configuration is TOML; {_EXAMPLE}"
    if name.endswith(".json") or text.lstrip().startswith(("{", "//", "/*")):
        if _ROUTER_TEXT.search(text):
            return f"is Claude Code Router's; {_IMPORT.format(origin='ccr', file=file)}"
        return f"seems to be JSON; the configuration is TOML; {_EXAMPLE}"
    return ""


def without_common_mistakes(data: Mapping[str, Any], problems: list[Problem]) -> Mapping[str, Any]:
    """Report known mistakes (LiteLLM's keys, tables of the wrong shape) and return the data without them.

    Reports go to `problems`; without the removal the reader would report each of them again, in worse words.
    """
    kept = dict(data)
    problems += [(key, f"{_LITELLM}; {_EXAMPLE}") for key in _LITELLM_KEYS if kept.pop(key, None) is not None]
    routes = kept.get("routes")
    if type(routes) is dict:
        del kept["routes"]
        problems.append(("routes", "expected [[routes]] (two brackets) for each route; got [routes]"))
    providers = kept.get("providers")
    if type(providers) is list:
        del kept["providers"]
        problems.append(("providers", "expected [providers.NAME], such as [providers.local]; got [[providers]]"))
    elif type(providers) is dict and (loose := {key for key in providers if type(providers[key]) is not dict}):
        if loose & _ONE_PROVIDER:
            # The keys of one provider: its sub-tables (headers, profile_flags) would be read as providers.
            del kept["providers"]
            message = "a provider has a name: write [providers.NAME], such as [providers.local]; got [providers]"
            problems.append(("providers", message))
    elif providers is not None and type(providers) is not dict:
        del kept["providers"]
        problems.append(
            ("providers", f"expected [providers.NAME], such as [providers.local]; got {kind_of(providers)}")
        )
    return kept

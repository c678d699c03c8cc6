"""The coding agents of `dragoman run`: their programs, and the arguments and variables that make them use a gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman import Dialect

KEY = "DRAGOMAN_RUN_KEY"
"""Environment variable with the gateway's key, for agents whose configuration names a variable."""
_OPENCODE = "OPENCODE_CONFIG_CONTENT"
_NPM = {
    Dialect.CHAT: "@ai-sdk/openai-compatible",
    Dialect.MESSAGES: "@ai-sdk/anthropic",
    Dialect.RESPONSES: "@ai-sdk/openai",
}
_VENDOR_KEY = {
    Dialect.CHAT: "OPENAI_API_KEY",
    Dialect.MESSAGES: "ANTHROPIC_API_KEY",
    Dialect.RESPONSES: "OPENAI_API_KEY",
}
_OTHER_CLOUDS = tuple(
    f"CLAUDE_CODE_USE_{cloud}"
    for cloud in ("ANTHROPIC_AWS", "ANTHROPIC_GOOGLE_CLOUD", "BEDROCK", "FOUNDRY", "MANTLE", "VERTEX")
)
"""If one of these is set, Claude Code ignores ANTHROPIC_BASE_URL."""


@dataclass(frozen=True, slots=True)
class Access:
    """The gateway that an agent is to use.

    Without a `key` the agent sends its own, which is passed on to the upstream. `model` is the model to request, if one
    was chosen; `models` are all known names. `dialect` is the one in which requests for the model pass through
    untranslated, or else Chat.
    """

    url: str
    key: str | None
    model: str | None = None
    models: tuple[str, ...] = ()
    dialect: Dialect = Dialect.CHAT


@dataclass(frozen=True, slots=True)
class Launch:
    """Start of an agent: `words` precede the user's arguments, `env` is set, the variables `without` are removed."""

    words: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent. `install` is the command that installs it; `launch(access, env)` returns how to start it."""

    name: str
    title: str
    install: str
    launch: Callable[[Access, Mapping[str, str]], Launch]
    needs_model: bool = False


def _claude(access: Access, env: Mapping[str, str]) -> Launch:
    environment = {"ANTHROPIC_BASE_URL": access.url}
    without: tuple[str, ...] = _OTHER_CLOUDS
    if access.key is not None:
        # As a token: Claude Code asks the user before it uses a key in ANTHROPIC_API_KEY.
        environment["ANTHROPIC_AUTH_TOKEN"] = access.key
        without += ("ANTHROPIC_API_KEY",)
    if access.model is not None:
        sizes = [f"ANTHROPIC_DEFAULT_{size}_MODEL" for size in ("OPUS", "SONNET", "HAIKU")]
        environment |= dict.fromkeys(("ANTHROPIC_MODEL", *sizes), access.model)
    return Launch((), environment, without)


def _codex(access: Access, env: Mapping[str, str]) -> Launch:
    provider = {
        "name": "Dragoman",
        "base_url": f"{access.url}/v1",
        "env_key": KEY if access.key is not None else _VENDOR_KEY[Dialect.RESPONSES],
        "wire_api": "responses",
    }
    table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in provider.items())
    words = ["-c", 'model_provider="dragoman"', "-c", f"model_providers.dragoman={{{table}}}"]
    if access.model is not None:
        words += ["-c", f"model={json.dumps(access.model)}"]
    return Launch(tuple(words), {KEY: access.key} if access.key is not None else {})


def _opencode(access: Access, env: Mapping[str, str]) -> Launch:
    models = dict.fromkeys((*filter(None, [access.model]), *access.models))
    variable = KEY if access.key is not None else _VENDOR_KEY[access.dialect]
    chosen = f"dragoman/{access.model or access.models[0]}"
    config: dict[str, Any] = _inline(env)
    providers = config.get("provider")
    config |= {
        "model": chosen,
        "small_model": chosen,
        "provider": {
            **(providers if isinstance(providers, dict) else {}),
            "dragoman": {
                "npm": _NPM[access.dialect],
                "name": "Dragoman",
                "options": {"baseURL": f"{access.url}/v1", "apiKey": f"{{env:{variable}}}"},
                "models": {name: {"name": name} for name in models},
            },
        },
    }
    environment = {_OPENCODE: json.dumps(config)}
    return Launch((), environment | ({KEY: access.key} if access.key is not None else {}))


def _inline(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration that the user already has in the same variable."""
    try:
        given = json.loads(env.get(_OPENCODE, ""))
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


AGENTS = {
    agent.name: agent
    for agent in (
        Agent("claude", "Claude Code", "npm install -g @anthropic-ai/claude-code", _claude),
        Agent("codex", "Codex", "npm install -g @openai/codex", _codex),
        Agent("opencode", "opencode", "npm install -g opencode-ai", _opencode, needs_model=True),
    )
}

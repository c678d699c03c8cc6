"""The coding agents of `dragoman run`: their programs, and the arguments and variables that make them use a gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman import Dialect
from dragoman.gateway import DEFAULT_DIALECT

KEY = "DRAGOMAN_RUN_KEY"
"""Environment variable with the gateway's key, for agents whose configuration names a variable."""
_CLAUDE_WINDOW = "CLAUDE_CODE_MAX_CONTEXT_TOKENS"
_OPENCODE = "OPENCODE_CONFIG_CONTENT"
_OUTPUT = 32_000
"""opencode's largest output without a limit, in tokens."""
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
    untranslated, or else Chat. `windows` has the context windows of models, in tokens, where they are known; `window`
    is that of the model that the agent requests, or 0.
    """

    url: str
    key: str | None
    model: str | None = None
    models: tuple[str, ...] = ()
    dialect: Dialect = DEFAULT_DIALECT
    windows: Mapping[str, int] = field(default_factory=dict)
    window: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """Start of an agent: `words` precede the user's arguments, `env` is set, the variables `without` are removed."""

    words: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent. `install` is the command that installs it; `launch(access, env)` returns how to start it.

    An agent with models of its own requests one of them unless another is set: `example` is one, all begin with
    `family`, and requests are in `dialect`. `model_variable` is the variable by which users set another one.
    """

    name: str
    title: str
    install: str
    launch: Callable[[Access, Mapping[str, str]], Launch]
    dialect: Dialect
    example: str = ""
    family: str = ""
    model_variable: str = ""

    @property
    def needs_model(self) -> bool:
        """True if it has no models of its own."""
        return not self.example

    def has_model(self, words: Sequence[str], env: Mapping[str, str]) -> bool:
        """True if the user sets the agent's model by its own arguments, or in the environment."""
        given = any(word in ("-m", "--model") or word.startswith(("--model=", "model=")) for word in words)
        return not self.needs_model and (given or bool(env.get(self.model_variable)))


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
        # Claude Code assumes 200,000 tokens for a model that it does not know.
        if access.window and _CLAUDE_WINDOW not in env:
            environment[_CLAUDE_WINDOW] = str(access.window)
    return Launch((), environment, without)


def _codex(access: Access, env: Mapping[str, str]) -> Launch:
    provider = {
        "name": "Dragoman",
        "base_url": f"{access.url}/v1",
        "env_key": KEY if access.key is not None else AGENTS["codex"].dialect.facts.key_variable,
        "wire_api": "responses",
    }
    table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in provider.items())
    words = ["-c", 'model_provider="dragoman"', "-c", f"model_providers.dragoman={{{table}}}"]
    if access.model is not None:
        words += ["-c", f"model={json.dumps(access.model)}"]
    if access.window:
        words += ["-c", f"model_context_window={access.window}"]
    return Launch(tuple(words), {KEY: access.key} if access.key is not None else {})


def _opencode(access: Access, env: Mapping[str, str]) -> Launch:
    models = dict.fromkeys((*filter(None, [access.model]), *access.models))
    variable = KEY if access.key is not None else access.dialect.facts.key_variable
    chosen = f"dragoman/{access.model or access.models[0]}"
    config: dict[str, Any] = _inline(env)
    providers = config.get("provider")
    config |= {
        "model": chosen,
        "small_model": chosen,
        "provider": {
            **(providers if isinstance(providers, dict) else {}),
            "dragoman": {
                "npm": access.dialect.facts.sdk_package,
                "name": "Dragoman",
                "options": {"baseURL": f"{access.url}/v1", "apiKey": f"{{env:{variable}}}"},
                "models": {name: _opencode_model(name, access.windows.get(name, 0)) for name in models},
            },
        },
    }
    environment = {_OPENCODE: json.dumps(config)}
    return Launch((), environment | ({KEY: access.key} if access.key is not None else {}))


def _opencode_model(name: str, window: int) -> dict[str, Any]:
    """Return a model's entry. The limits belong together: opencode compacts at the window without the output."""
    if not window:
        return {"name": name}
    return {"name": name, "limit": {"context": window, "output": min(_OUTPUT, window // 4)}}


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
        Agent(
            "claude",
            "Claude Code",
            "npm install -g @anthropic-ai/claude-code",
            _claude,
            Dialect.MESSAGES,
            example="claude-sonnet-5-5",
            family="claude",
            model_variable="ANTHROPIC_MODEL",
        ),
        Agent(
            "codex",
            "Codex",
            "npm install -g @openai/codex",
            _codex,
            Dialect.RESPONSES,
            example="gpt-5.5",
            family="gpt",
        ),
        Agent("opencode", "opencode", "npm install -g opencode-ai", _opencode, DEFAULT_DIALECT),
    )
}

"""The lines of `dragoman serve` when it listens: its version, where models lead, and what clients need."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dragoman import DragomanError
from dragoman_server.cli.agents import AGENTS
from dragoman_server.cli.describe_config import provider_line, target_of
from dragoman_server.config.address import reachable
from dragoman_server.config.lint import remarks, warn_if_exposed
from dragoman_server.config.provider import Auth
from dragoman_server.config.schema import SIMULATED, Config
from dragoman_server.config.stored_files import stored_files
from dragoman_server.observability.installed_version import installed_version, revision
from dragoman_server.observability.logs import print_line
from dragoman_server.routing.router import Router

_LINES, _NAMES = 3, 6
"""Most lines of one kind, and most names of one line."""
_CLAUDE = "claude-opus-5"
"""A name that Claude Code may send without `--model`."""


def print_remarks(config: Config) -> None:
    """Print the remarks on a configuration that is about to be served."""
    for sentence in (*warn_if_exposed(config), *remarks(config)):
        print_line(sentence, logging.WARNING)


def announce(url: str, config: Config, workers: int | None = None) -> None:
    """Print that a gateway listens on `url`, with so many workers if any, and how to use it, in up to 12 lines."""
    several = f" with workers: {workers}" if workers is not None else ""
    print_line(f"dragoman listens on {url}{several} (version {installed_version()}, revision {revision()})")
    for line in (*_served(url, config), *_clients(reachable(url), config)):
        print_line(f"  {line}")


def _served(url: str, config: Config) -> Iterator[str]:
    if config.server.ui:
        yield f"console: {url}/ui/"
    if config.simulated:
        yield "replies come from the simulated upstream (models sim-text, sim-tools, …) and carry x-dragoman-simulated"
        *names, last = [f"{dialect}/NAME" for dialect in SIMULATED]
        yield f"any model name leads to it; {', '.join(names)} and {last} select its API"
    else:
        yield from _shortened([provider_line(each) for each in config.providers.values()], "providers")
        sizes = ", ".join(_sizes(config))
        yield from _shortened([*filter(None, [sizes]), *_routes(config)], "lines of models")
    if files := [file.path for file in stored_files(config)]:
        yield f"files: {', '.join(files)}"


def _shortened(lines: Sequence[str], what: str) -> Sequence[str]:
    if len(lines) <= _LINES:
        return lines
    return [*lines[: _LINES - 1], f"and {len(lines) - _LINES + 1} more {what}, which `dragoman check` shows"]


def _routes(config: Config) -> Iterator[str]:
    """Yield where routes lead: one line for all names with the same target."""
    groups: dict[str, list[str]] = {}
    for route in config.routes:
        # A name that is only without its PROVIDER/ at the provider needs no mention.
        plain = replace(route, upstream_model=None) if route.upstream_model == "*" else route
        groups.setdefault(target_of(plain), []).append(route.model)
    for target, names in groups.items():
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        yield f"model{'s' * (len(names) > 1)} {', '.join(names[:_NAMES])}{more} → {target}"


def _sizes(config: Config) -> Iterator[str]:
    """Yield where Claude's names and unknown ones lead without a route."""
    models = config.models
    for size, name in (("big", models.big), ("small", models.small)):
        if name:
            yield f"{size} models → {name}"
    if not any(route.takes_all and route.client is None for route in config.routes):
        others = {"pass": next(iter(config.providers), ""), "small": models.small or models.big, "reject": ""}
        if other := others[models.policy]:
            yield f"other models → {other}"


def _clients(url: str, config: Config) -> Iterator[str]:
    """Yield the variables that lead the vendors' clients to the gateway."""
    passed = any(provider.auth is Auth.PASSTHROUGH for provider in config.providers.values())
    key = "KEY" if config.requires_key or passed else "any"
    yield f"Claude Code: ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY={key} claude{_model_option(config)}"
    yield f"OpenAI clients: OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY={key}"
    sources = ["one of server.keys"] * bool(config.server.keys)
    sources += ["a key of `dragoman keys add`"] * config.named_keys
    if key == "KEY":
        yield f"KEY: {' or '.join(sources) or 'that of the provider, to which it is passed on'}"


def _model_option(config: Config) -> str:
    """Return the option that Claude Code needs where its own names of models lead to none, or to another vendor's."""
    router = Router(config)
    try:
        target = router.resolve(_CLAUDE, AGENTS["claude"].dialect)
    except DragomanError:
        target = None
    if target is not None and (
        config.simulated or target.upstream_model != _CLAUDE or target.provider.profile_name == "anthropic"
    ):
        return ""
    return f" --model {next((name for name, _ in router.known_models()), 'NAME')}"

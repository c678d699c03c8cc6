"""The model of an agent that is started without `--model`: the only one there is, or one that the user chooses."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from dragoman import DragomanError
from dragoman.gateway import CLIENT_DIALECTS, quote
from dragoman_server.cli.agents import Agent
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.list_models import UpstreamList
from dragoman_server.observability.logs import print_line
from dragoman_server.routing.model_names import ModelNames
from dragoman_server.routing.model_sizes import model_sizes
from dragoman_server.routing.router import Router

SHOWN_MAX = 40
"""Most models that are shown."""
_NOT_FOR_AGENTS = ("embed", "rerank")
"""Parts of the names of models that no agent can use, which Ollama and LM Studio list among the others."""


def choices(agent: Agent, router: Router, lists: Sequence[UpstreamList]) -> list[str]:
    """Return the models to choose from, by the names that clients send; empty if the agent is to choose itself.

    An agent that has models of its own chooses itself, unless the configuration leads to an upstream that lists its
    models and has none of them.
    """
    if agent.needs_model and (configured := router.known_models()):
        return [configured[0][0]]
    if agent.example and _leads_somewhere(agent, router, lists):
        return []
    found = known_names(router, lists)
    return [name for name in found if not any(word in name.lower() for word in _NOT_FOR_AGENTS)] or found


def known_names(router: Router, lists: Sequence[UpstreamList]) -> list[str]:
    """Return the names that clients can send: those of the configuration, and one for each listed model."""
    found, names = [name for name, _ in router.known_models()], ModelNames(router)
    for each in lists if router.config.models.discover else ():
        for model in each.models:
            found += names.of(each.provider, model.name, CLIENT_DIALECTS)[:1]
    return list(dict.fromkeys(found))


def _leads_somewhere(agent: Agent, router: Router, lists: Sequence[UpstreamList]) -> bool:
    """True if the agent's own models are mapped to others, or if the upstream may have them."""
    try:
        target = router.resolve(agent.example, agent.dialect)
    except DragomanError:
        return False
    models = next((each.models for each in lists if each.provider.name == target.provider.name), ())
    mapped = target.upstream_model != agent.example
    return mapped or not models or any(model.name.startswith(agent.family) for model in models)


def choose(agent: Agent, names: Sequence[str], command: str) -> str:
    """Return the only name, or the one that the user chooses on the terminal.

    Without a terminal, raises CommandError with the names, and with `command`, which `--model NAME` completes.
    """
    if len(names) == 1:
        return names[0]
    shown = [quote(name) for name in names[:SHOWN_MAX]]
    more = [f"and {len(names) - SHOWN_MAX} more"] if len(names) > SHOWN_MAX else []
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        there = ", ".join([*shown, *more])
        raise CommandError("", f"there are several models: {there}\nname one: {command} --model {shown[0]}")
    for number, name in enumerate(shown, 1):
        print(f"{number:4}. {name}", file=sys.stderr)
    for line in more:
        print(f"      {line}", file=sys.stderr)
    while True:
        print(f"model for {agent.title}, by number or name [1]: ", file=sys.stderr, end="", flush=True)
        line = sys.stdin.readline()
        word = line.strip() or "1"
        if not line:
            raise CommandError("--model", f"none was chosen: {command} --model {shown[0]}")
        if word in names:
            return word
        if word.isascii() and word.isdigit() and 1 <= int(word[:6]) <= len(names):
            return names[int(word[:6]) - 1]
        print_line(f'there is no model "{quote(word)}"')


def context_windows(
    router: Router, lists: Sequence[UpstreamList], names: Iterable[str], agent: Agent
) -> Mapping[str, int]:
    """Return the context windows in tokens of models by their names for an agent, where they are known.

    An agent knows its own models better than the vendor's documentation, so their windows are left out unless the
    configuration or the upstream's list states them.
    """
    by_provider = {each.provider.name: each for each in lists}
    windows = {}
    for name in names:
        try:
            target = router.resolve(name, agent.dialect)
        except DragomanError:
            continue
        provider, model = target.provider, target.upstream_model
        there = by_provider.get(provider.name)
        own = bool(agent.family) and model.startswith(agent.family)
        listed = there.find(model) if there is not None else None
        sizes = model_sizes(router.config.models, name, provider, "" if own else model, listed)
        if sizes.context_window:
            windows[name] = sizes.context_window
    return windows

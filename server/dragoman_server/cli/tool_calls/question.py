"""The questions: a client's dialect, a provider and its model; and the requests that ask for one call of one tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from dragoman import Dialect
from dragoman.gateway import CLIENT_DIALECTS
from dragoman.wire import Json
from dragoman_server.cli.command_error import CommandError
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.schema import Config
from dragoman_server.config.value_problems import unknown
from dragoman_server.routing.router import Router

TOOL: Final = "get_weather"
ARGUMENTS: Final[Mapping[str, type]] = {"city": str, "days": int}
"""The tool's parameters, all required, with the types of their values."""
OUTPUT_MAX: Final = 512
"""The output limit of a request, in tokens: a call has about 20, and models that reason first need some hundred."""
SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
ABOUT: Final = "The weather of a city."
SYSTEM: Final = "Answer with a call of the tool."
USER: Final = "What will the weather in Oslo be in the next 2 days?"
UNFORCED: Final = ("unforced", "auto")
"""Values of the flag `tool_choice` of upstreams that take no forced choice."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a provider, by the provider's name for it. `knobs` are those of its route."""

    provider: Provider
    name: str
    knobs: Mapping[str, Any] = field(default_factory=dict, compare=False)


def models_to_ask(config: Config, asked: Sequence[str]) -> list[Model]:
    """Return the models to ask: those that are named, as PROVIDER/MODEL, else all that the configuration names.

    Raises CommandError for a name without a provider.
    """
    if asked:
        return list(dict.fromkeys(_named(config, name) for name in asked))
    return list(dict.fromkeys(each for each in _configured(config) if each.provider.auth is not Auth.PASSTHROUGH))


def unasked(config: Config, models: Sequence[Model]) -> Iterator[tuple[Provider, str]]:
    """Yield the providers of which no model is asked, each with the reason."""
    asked = {model.provider.name for model in models}
    for provider in config.providers.values():
        if provider.name in asked:
            continue
        if provider.auth is Auth.PASSTHROUGH:
            yield provider, "clients send their own keys"
        else:
            yield provider, f"no route names a model of it: add --ask {provider.name}/MODEL"


def _named(config: Config, name: str) -> Model:
    prefix, slash, rest = name.partition("/")
    if slash and rest and prefix in config.providers:
        provider, name = config.providers[prefix], rest
    elif len(config.providers) == 1:
        (provider,) = config.providers.values()
    else:
        raise CommandError("--ask", f"{unknown('provider', prefix, config.providers)}; write PROVIDER/MODEL")
    if provider.auth is Auth.PASSTHROUGH:
        raise CommandError("--ask", f"{provider.name} has no key of its own: clients send theirs")
    return Model(provider, name)


def _configured(config: Config) -> Iterator[Model]:
    """Yield the models that exact names and the targets of routes have."""
    router = Router(config)
    for name, _ in router.known_models():
        for client in CLIENT_DIALECTS:
            target = router.resolve(name, client)
            knobs = next((route.knobs for route in config.routes if route.model == target.route), {})
            for each in target.candidates:
                yield Model(config.providers[each.provider.name], each.upstream_model, knobs)
    for route in config.routes:
        # Routes with patterns, whose models may have names of their own.
        parts = [(each.provider, each.upstream_model or route.upstream_model) for each in route.targets]
        for provider, exact in parts or [(route.provider, route.upstream_model)]:
            if exact is not None and _is_exact(exact):
                yield Model(config.providers[provider], exact, route.knobs)


def _is_exact(upstream_model: str) -> bool:
    """True for a model's name that does not depend on the name that the client sends."""
    return not {"*", "\\"} & {*upstream_model}


def request_for(client: Dialect, model: str, provider: Provider) -> Json:
    """Return the request of a client. In the provider's own dialect it has what it takes by the profile."""
    own = provider.profile if client is provider.dialect else None
    body: Json = import_module(f"dragoman_server.cli.tool_calls.{client}").request(model, own)
    return body

"""What a configuration that is right does not do, though whoever wrote it may think so. `dragoman check` and the start
tell it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from dragoman_server.config.lint_context_window import unknown_windows
from dragoman_server.config.schema import Config
from dragoman_server.routing.router import Router


def remarks(config: Config) -> Iterator[str]:
    """A sentence for each thing that will not happen."""
    if not config.providers:
        if not config.simulated:
            yield "there is no provider, so every model is refused (404): write a [providers.NAME]"
    elif not (config.routes or config.models.big or config.models.small or config.models.policy == "pass"):
        first = next(iter(config.providers))
        yield f"there is no route, so models are known as PROVIDER/MODEL only, such as {first}/…: write [[routes]]"
    yield from _hidden_routes(config)
    yield from _not_listed(config)
    yield from unknown_windows(config)


def open_doors(config: Config) -> Iterator[str]:
    """A sentence if others than this machine's users may spend the providers' keys. Only for who listens by it."""
    host = config.server.host
    spent = any(provider.api_key is not None for provider in config.providers.values())
    if spent and not config.server.keys and not _is_local(host):
        yield f"whoever reaches {host or 'this machine'} uses the providers' keys: set server.keys"


def _hidden_routes(config: Config) -> Iterator[str]:
    before: dict[str, list[int]] = {}
    for index, route in enumerate(config.routes):
        rivals = [*before.get(route.model, ())]
        if route.pattern() is not None:  # an exact name is looked for before all patterns, wherever it stands
            rivals += before.get("*", ())
        for rival in rivals:
            if config.routes[rival].client in (None, route.client):
                taken = config.routes[rival].model
                yield f"routes[{index}] ({route.model}) is never reached: routes[{rival}] ({taken}) is before it"
                break
        before.setdefault(route.model, []).append(index)


def _not_listed(config: Config) -> Iterator[str]:
    known = {name for name, _ in Router(config).known_models()} if config.models_listed else ()
    for name in config.models_listed:
        if name not in known:
            yield f"models.listed: {name} is not listed, as no route leads from it"


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

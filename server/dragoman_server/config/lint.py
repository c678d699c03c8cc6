"""Checks for settings of a valid configuration that have no effect, or another one than they seem to have.

`dragoman check` prints the remarks, and the start of the gateway logs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_address

from dragoman import DragomanError
from dragoman.gateway import CLIENT_DIALECTS, DEFAULT_DIALECT
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.store.options import MEMORY
from dragoman_server.config.provider import Auth
from dragoman_server.config.schema import Config
from dragoman_server.config.stored_files import files_left_behind
from dragoman_server.routing.plan import Candidate
from dragoman_server.routing.router import Router


def remarks(config: Config) -> Iterator[str]:
    """Yield a sentence for each setting that has no effect, or a surprising one."""
    if not config.providers:
        if not config.simulated:
            yield "there is no provider, so every model is refused (404): write a [providers.NAME]"
    elif not (config.routes or config.models.big or config.models.small or config.models.policy == "pass"):
        first = next(iter(config.providers))
        yield f"there is no route, so models are known as PROVIDER/MODEL only, such as {first}/…: write [[routes]]"
    yield from _hidden_routes(config)
    yield from _hidden_providers(config)
    yield from _not_listed(config)
    yield from unknown_windows(config)
    yield from _forgotten_budgets(config)
    yield from models_without_price(config, config.keys.values())
    yield from _keys_of_clients(config)
    yield from files_left_behind(config)
    attached = [provider.name for provider in config.providers.values() if provider.background]
    if attached and not (config.state.has_runs and (config.state.background or config.server.resume.seconds)):
        yield f"providers.{attached[0]}.background has no effect, as no run is in a store that processes share"
    if config.capture.texts:
        yield f"capture.texts = true writes the texts of prompts and replies to {config.capture.directory}"
    elif not config.capture.enabled and (captured := [name for name, key in config.keys.items() if key.capture]):
        yield f"keys.{captured[0]}.capture has no effect without capture.directory"
    if config.telemetry.endpoint and not (config.telemetry.traces or config.telemetry.metrics):
        yield "telemetry.endpoint has no effect without telemetry.traces = true or telemetry.metrics = true"
    if config.server.ui and not config.server.receipts:
        yield "the console of server.ui shows no request while server.receipts is 0"
    if config.server.ui and not config.requires_key and not is_local(config.server.host):
        yield "the console of server.ui answers only on this machine, as no key is required: set server.keys"


def warn_if_exposed(config: Config) -> Iterator[str]:
    """Yield a sentence if other users than those of this machine can use the providers' keys.

    It concerns only a gateway that listens by itself on the configuration's `host`.
    """
    host = config.server.host
    uses_keys = any(provider.has_key for provider in config.providers.values())
    if uses_keys and not config.requires_key and not is_local(host):
        yield f"whoever reaches {host or 'this machine'} uses the providers' keys: set server.keys"


def unknown_windows(config: Config) -> Iterator[str]:
    """Yield a sentence for each provider whose `token_budget` has no effect, as its context window is not known."""
    budgets = [(provider, config.knobs.token_budget) for provider in config.providers]
    budgets += [
        (name, route.knobs["token_budget"])
        for route in config.routes
        if "token_budget" in route.knobs
        for name in route.provider_names
    ]
    for name in dict.fromkeys(name for name, budget in budgets if budget != "off"):
        if not config.providers[name].profile.context_window:
            yield (
                f"token_budget does nothing for provider {name}: "
                f"set providers.{name}.profile_flags.context_window to the model's tokens"
            )


def _forgotten_budgets(config: Config) -> Iterator[str]:
    limits = [(name, key.limits) for name, key in config.keys.items()]
    budgets = [name for name, each in limits if each.daily_tokens or each.monthly_tokens or each.has_cost]
    if budgets and config.store.for_limits().kind == MEMORY:
        yield f'the budget of key {budgets[0]} begins again at each restart: set store.kind = "sqlite" or "redis"'


def models_without_price(
    config: Config, records: Iterable[KeyRecord], known: Iterable[KeyRecord] = ()
) -> Iterator[str]:
    """Yield a sentence for each model that a key with a budget of cost cannot use, of those that routes name.

    Those that a key of `known` cannot use are left out.
    """
    keys, others = ([each for each in group if each.limits.has_cost] for group in (records, known))
    if not keys:
        return
    if not config.price_table():
        if not others:
            yield (
                f"key {keys[0].name} has a budget of cost and no model has a price, so it can use none:"
                ' write [prices."*"], or run `dragoman prices import`'
            )
        return
    reported = _unpriced(config, others)
    for (model, provider), key in _unpriced(config, keys).items():
        if (model, provider) not in reported:
            yield f"key {key} has a budget of cost, and the model {model} of provider {provider} has no price (403)"


def _unpriced(config: Config, keys: Sequence[KeyRecord]) -> dict[tuple[str, str], str]:
    """Return the models and providers without a price, each with the first key that may use it."""
    found: dict[tuple[str, str], str] = {}
    table, router = config.price_table(), Router(config)
    for name, _ in router.known_models() if keys else ():
        owner = next((record.name for record in keys if record.permits(name)), "")
        for each in _candidates(router, name) if owner else ():
            if not table.has(each.upstream_model, each.provider.name):
                found.setdefault((each.upstream_model, each.provider.name), owner)
    return found


def _candidates(router: Router, model: str) -> Iterator[Candidate]:
    """Yield the providers and models that a model's requests can be sent to, for clients of each dialect."""
    for client in CLIENT_DIALECTS:
        with suppress(DragomanError):  # a route for clients of another dialect
            yield from router.resolve(model, client).candidates


def _keys_of_clients(config: Config) -> Iterator[str]:
    for index, route in enumerate(config.routes):
        names = [name for name in route.provider_names if config.providers[name].auth is Auth.PASSTHROUGH]
        if len({config.providers[name].address() for name in names}) > 1:
            yield f"routes[{index}] ({route.model}) sends the client's own key to several hosts: {', '.join(names)}"


def _hidden_routes(config: Config) -> Iterator[str]:
    earlier: dict[str, list[int]] = {}
    for index, route in enumerate(config.routes):
        rivals = [*earlier.get(route.model, ())]
        if route.pattern() is not None:  # exact names are matched before all patterns, regardless of their order
            rivals += earlier.get("*", ())
        for rival in rivals:
            if config.routes[rival].client in (None, route.client):
                taken = config.routes[rival].model
                yield f"routes[{index}] ({route.model}) is never reached: routes[{rival}] ({taken}) is before it"
                break
        earlier.setdefault(route.model, []).append(index)


def _hidden_providers(config: Config) -> Iterator[str]:
    """Yield a sentence for each route whose pattern takes names such as PROVIDER/MODEL from their provider."""
    router = Router(config)
    for index, route in enumerate(config.routes):
        pattern = None if route.takes_all else route.pattern()
        if pattern is None:
            continue
        words = re.sub(r"\W", "", route.model) if route.is_regex else re.sub(r"[*?]", "", route.model)
        meant = {name for same in config.routes if same.model == route.model for name in same.provider_names}
        client = route.client or DEFAULT_DIALECT
        for name in config.providers:
            if name in meant:
                continue
            samples = filter(pattern.fullmatch, (f"{name}/MODEL", f"{name}/{words}"))
            taken = next((each for each in samples if router.resolve(each, client).route == route.model), None)
            if taken is not None:
                yield (
                    f"routes[{index}] ({route.model}) also takes names of provider {name}, such as {taken}:"
                    f" a route for {name}/* before it prevents that"
                )


def _not_listed(config: Config) -> Iterator[str]:
    known = {name for name, _ in Router(config).known_models()} if config.models_listed else ()
    for name in config.models_listed:
        if name not in known:
            yield f"models.listed: {name} is not listed, as no route leads from it"


def is_local(host: str) -> bool:
    """True if only this machine can reach a server that listens on `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

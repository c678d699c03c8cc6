"""The summary of a configuration that `serve` and `check` print. It has no keys and no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from dragoman_server.accounts.keys.record import KeyRecord, written_moment
from dragoman_server.accounts.usage.options import OFF as USAGE_OFF
from dragoman_server.accounts.usage.options import STDOUT
from dragoman_server.config.lint import remarks, warn_if_exposed
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.config.shown_url import shown_url
from dragoman_server.config.state_options import DAY, HOUR, MEMORY
from dragoman_server.config.state_options import OFF as STATE_OFF
from dragoman_server.config.store_urls import POSTGRES
from dragoman_server.observability.logs import print_line


def describe(config: Config) -> None:
    """Print a summary of the configuration, without keys."""
    if config.simulated:
        print_line(
            "  replies come from the simulated upstream (models sim-text, sim-tools, …) and carry x-dragoman-simulated"
        )
    for provider in config.providers.values():
        print_line(f"  {provider_line(provider)}")
    for route in config.routes:
        print_line(f"  model {route.model} → {target_of(route)}")
    models = config.models
    for size, name in (("big", models.big), ("small", models.small)):
        if name:
            print_line(f"  {size} models → {name}")
    for record in config.keys.values():
        print_line(f"  key {describe_key(record)}")
    for line in _kept(config):
        print_line(f"  {line}")
    for sentence in (*warn_if_exposed(config), *remarks(config)):
        print_line(f"  {sentence}")


def provider_line(provider: Provider) -> str:
    """Return a provider in one line, without its keys."""
    key = "with a key" if provider.api_key is not None else "without a key"
    if provider.credential is not None:
        key = f"with a credential ({provider.credential.source})"
    if len(provider.api_keys) > 1:
        key = f"with {len(provider.api_keys)} keys"
    where = shown_url(provider.base_url) or "(simulated)"
    profile = f", profile {provider.profile_name}" if provider.profile_name else ""
    return f"provider {provider.name}: {provider.dialect} at {where}, {key}{profile}"


def target_of(route: Route) -> str:
    """Return where a route leads to."""
    only = f" (for {route.client} clients)" if route.client else ""
    to = f" as {route.upstream_model}" if route.upstream_model else ""
    return f"{', '.join(_target(target) for target in route.targets) or route.provider}{to}{only}"


def describe_key(record: KeyRecord) -> str:
    """Return a key in one line, without its hash."""
    parts = [f"{record.name} ({record.id}): models {', '.join(record.models) or 'all'}"]
    parts += [f"{name.replace('_', ' ')} {value:g}" for name, value in asdict(record.limits).items() if value]
    if record.expires is not None:
        parts.append(f"until {written_moment(record.expires)}")
    if record.admin:
        parts.append("admin")
    if record.capture:
        parts.append("captured")
    if record.tag is not None:
        parts.append(f"tag {record.tag}")
    return "; ".join(parts)


def _kept(config: Config) -> Iterator[str]:
    """Yield where limits and keys are kept, usage is written, and responses and captures are stored."""
    store, usage, state = config.store, config.usage, config.state
    if config.named_keys and store.kind != MEMORY:
        where = shown_url(store.url) if store.url else store.path
        kept = "keys of clients" if store.kind == POSTGRES else "keys of clients and their limits"
        yield f"{kept if store.keys else 'the limits'} are kept in {where} ({store.kind})"
        if store.limits_url:
            yield f"their limits are kept in {shown_url(store.limits_url)} (redis)"
    if usage.kind != USAGE_OFF:
        where = shown_url(usage.url) if usage.url else usage.file
        yield f"usage is written to {'standard output' if where == STDOUT else where} ({usage.kind})"
    if state.kind == MEMORY:
        if config.server.workers == 1:
            yield f"responses are stored in memory, a conversation for {state.ttl / HOUR:g} h"
        else:
            yield 'responses are not stored: several workers need state.kind = "sqlite", "redis" or "postgresql"'
    elif state.kind != STATE_OFF:
        where = shown_url(state.url) if state.url else state.file
        yield f"responses are stored in {where} ({state.kind}), a conversation for {state.ttl / DAY:g} days"
        if state.background and not state.most_background:
            yield "responses do not run in the background: set state.runs_url to a Redis"
    if config.capture.enabled:
        yield f"captures are written to {config.capture.directory}"


def _target(target: RouteTarget) -> str:
    model = f" as {target.upstream_model}" if target.upstream_model else ""
    weight = f" weight {target.weight:g}" if target.weight != 1 else ""
    return f"{target.priority}. {target.provider}{model}{weight}"

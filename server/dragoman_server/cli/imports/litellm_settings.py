"""The settings of LiteLLM's configuration besides its models, and values of LiteLLM's file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from dragoman_server.cli.imports.imported import Imported, ImportedRoute, ImportedTarget, exact_model
from dragoman_server.config.routing_options import ATTEMPTS_MAX

ENVIRONMENT = "os.environ/"
"""Beginning of a reference to a variable of the environment."""
_GROUPS = ("general_settings", "litellm_settings", "router_settings")
_BALANCES = {"simple-shuffle": "weighted", "least-busy": "least-busy"}
"""Routing strategy → the balance of a route."""
_FALLBACKS = ("fallbacks", "default_fallbacks")
_WHY = {
    "router_settings.retry_policy": "has no counterpart: the kinds of failures that are retried are fixed",
    "router_settings.allowed_fails_policy": "has no counterpart: the kinds of failures that count are fixed",
    "router_settings.enable_pre_call_checks": "has no counterpart; the knob token_budget keeps prompts in a window",
    "litellm_settings.context_window_fallbacks": "is not imported: name a provider of the route with larger = true",
    "litellm_settings.content_policy_fallbacks": "has no counterpart: a refusal is passed on",
    "router_settings.context_window_fallbacks": "is not imported: name a provider of the route with larger = true",
    "router_settings.content_policy_fallbacks": "has no counterpart: a refusal is passed on",
    "router_settings.redis_host": 'is not imported: [store] with kind = "redis" shares limits and budgets',
    "router_settings.redis_port": "is part of the URL of [store]",
    "router_settings.redis_password": "is part of the URL of [store]",
    "router_settings.redis_url": 'is not imported: [store] with kind = "redis" shares limits and budgets',
    "litellm_settings.json_logs": "is an option here: dragoman serve --log-format json",
    "litellm_settings.set_verbose": "is an option here: dragoman serve --verbose",
    "litellm_settings.cache": "has no counterpart: replies are not cached",
    "litellm_settings.cache_params": "has no counterpart: replies are not cached",
    "litellm_settings.callbacks": "has no counterpart; metrics for Prometheus are at GET /metrics without a setting",
    "litellm_settings.success_callback": "has no counterpart; metrics for Prometheus are at GET /metrics",
    "litellm_settings.failure_callback": "has no counterpart; metrics for Prometheus are at GET /metrics",
    "general_settings.database_url": "is not needed: make new keys with `dragoman keys add`",
    "general_settings.store_model_in_db": "has no counterpart: models are in this file",
    "environment_variables": "is not imported: set these variables in the environment of the gateway",
}


def import_settings(found: Imported, data: Mapping[str, Any]) -> None:
    """Add the settings to an import that has the models already."""
    _general(found, table_of(data, "general_settings"))
    aliases: list[tuple[str, Mapping[str, Any]]] = []
    for group in _GROUPS[1:]:
        for key, value in table_of(data, group).items():
            if key == "model_group_alias" and isinstance(value, dict):
                # Last: an alias has the fallbacks of its model.
                aliases.append((f"{group}.{key}", value))
            elif not _setting(found, f"{group}.{key}", key, value):
                found.skip(f"{group}.{key}", _WHY.get(f"{group}.{key}", "has no counterpart"))
    for at, names in aliases:
        _aliases(found, at, names)
    for key in data:
        if key not in (*_GROUPS, "model_list", "credential_list"):
            found.skip(str(key), _WHY.get(str(key), "has no counterpart"))


def _general(found: Imported, settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        at = f"general_settings.{key}"
        if key == "master_key" and isinstance(value, str) and value:
            if value.startswith(ENVIRONMENT):
                found.server["keys"] = [text_of(value)]
            else:
                found.server["keys"] = ["${LITELLM_MASTER_KEY}"]
                found.note(at, "a key is not copied: set LITELLM_MASTER_KEY to it")
            found.note(at, "every client with this key may use all models; `dragoman keys add` makes keys with limits")
        else:
            found.skip(at, _WHY.get(at, "has no counterpart"))


def _setting(found: Imported, at: str, key: str, value: Any) -> bool:
    """Add a setting of `litellm_settings` or `router_settings`. Return False if it has no counterpart."""
    if key == "drop_params" and isinstance(value, bool):
        if not value:
            found.knobs["on_loss"] = "reject"
    elif key in ("request_timeout", "timeout") and is_positive(value):
        found.timeouts["first_byte"] = float(value)
        found.note(at, "is the time to a reply's first event here; a stream that has begun may take longer")
    elif key == "num_retries" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        found.retries["attempts"] = min(value + 1, ATTEMPTS_MAX)
        found.note(at, "becomes attempts, which count the first request and fallbacks too")
    elif key == "cooldown_time" and is_positive(value):
        found.retries["cooldown"] = float(value)
    elif key == "allowed_fails" and is_positive(value):
        found.retries["failures"] = int(value) + 1
        found.note(at, "counts failures in a row here, not those of a minute")
    elif key == "routing_strategy" and value in _BALANCES:
        found.balance = _BALANCES[value]
    elif key in _FALLBACKS:
        _fallbacks(found, at, key, value)
    else:
        return False
    return True


def _fallbacks(found: Imported, at: str, key: str, value: Any) -> None:
    """Add further providers to routes: `[{MODEL: [MODEL, ...]}, ...]`, or a list of models for all routes."""
    entries = [{"*": value}] if key == "default_fallbacks" else list_of(value)
    for index, entry in enumerate(entries):
        for name, models in (entry if isinstance(entry, dict) else {}).items():
            here = at if key == "default_fallbacks" else f"{at}[{index}]"
            routes = [route for route in found.routes if name == "*" or route.model == exact_model(str(name))]
            if not routes:
                found.skip(here, "is for a model that is not imported")
            for model in list_of(models):
                targets = list(_targets(found, model)) if isinstance(model, str) else []
                if not targets:
                    found.skip(here, "names a model that is not imported, or a pattern")
                for route in routes:
                    _append(route, targets)


def _targets(found: Imported, model: str) -> Iterator[ImportedTarget]:
    """Yield the providers of a model that is no pattern, with its name there."""
    for route in found.routes:
        if route.model == exact_model(model) and "*" not in model:
            first = ImportedTarget(route.provider, route.upstream_model)
            for target in (first, *route.further):
                if target is first or target.priority == 1:  # not the fallbacks of that model itself
                    yield ImportedTarget(target.provider, target.upstream_model or model)


def _append(route: ImportedRoute, targets: list[ImportedTarget]) -> None:
    """Add targets that the route does not have yet."""
    for target in targets:
        present = [(route.provider, route.upstream_model or route.model)]
        present += [(each.provider, each.upstream_model or route.model) for each in route.further]
        if (target.provider, target.upstream_model) not in present:
            route.further.append(target)


def _aliases(found: Imported, at: str, aliases: Mapping[Any, Any]) -> None:
    for alias, target in aliases.items():
        name = str(target.get("model") if isinstance(target, dict) else target)
        route = next((route for route in found.routes if route.model == exact_model(name)), None)
        if route is None or "*" in str(alias) or "*" in name:
            found.skip(f"{at}.{alias}", "has no route to the model that it stands for")
            continue
        further = [replace(each, upstream_model=each.upstream_model or name) for each in route.further]
        upstream = route.upstream_model or name
        copy = ImportedRoute(exact_model(str(alias)), route.provider, upstream, route.weight, further)
        found.routes.insert(0, copy)


def text_of(value: str) -> str:
    """Return a text of LiteLLM's file as one of this gateway's: `os.environ/NAME` is `${NAME}` here."""
    value = value.strip()
    return f"${{{value.removeprefix(ENVIRONMENT)}}}" if value.startswith(ENVIRONMENT) else value


def table_of(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a table of the data, empty if it is absent or something else."""
    value = data.get(key)
    return {str(name): each for name, each in value.items()} if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def is_positive(value: Any) -> TypeGuard[float]:
    """True for a number above 0."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0

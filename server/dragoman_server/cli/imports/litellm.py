"""LiteLLM's proxy configuration (config.yaml) as a configuration of this gateway.

https://docs.litellm.ai/docs/proxy/configs and /config_settings describe it. A `model_list` entry becomes a provider
(shared by entries with the same address and key) and a route. Keys that are written in the file are not copied: the
result refers to an environment variable instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman_server.cli.imports.imported import Imported, ImportedProvider, ImportedRoute, exact_model, variable_name
from dragoman_server.cli.imports.vendors import PLACEHOLDERS, REFUSED, VENDORS, Vendor, base_of

PORT = 4000
"""LiteLLM's port, so that clients need no change."""
_ENVIRONMENT = "os.environ/"
_OPENAI_NAMES = re.compile(r"\*\Z|gpt-|chatgpt-|o[0-9]|ft:")
_CHAT_MODES = (None, "chat", "responses")
_SECRET_HEADER = re.compile(r"auth|key|token|cookie|secret", re.IGNORECASE)
_USED = frozenset({"model", "custom_llm_provider", "api_base", "base_url", "api_key", "extra_headers", "organization"})
_NOT_NEEDED = frozenset({"api_version", "drop_params", "litellm_credential_name"})
_DEPLOYMENT = "has no counterpart: a deployment has no limits or timeouts of its own"
_REQUEST_DEFAULT = "has no counterpart: requests are sent with the client's own parameters"
_BALANCING = "is not imported: add it by hand, as far as this gateway has it"
_WHY = {
    "router_settings.fallbacks": _BALANCING,
    "router_settings.num_retries": _BALANCING,
    "router_settings.routing_strategy": _BALANCING,
    "router_settings.allowed_fails": _BALANCING,
    "router_settings.cooldown_time": _BALANCING,
    "router_settings.retry_policy": _BALANCING,
    "litellm_settings.fallbacks": _BALANCING,
    "litellm_settings.default_fallbacks": _BALANCING,
    "litellm_settings.num_retries": _BALANCING,
    "litellm_settings.allowed_fails": _BALANCING,
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


def import_litellm(data: Mapping[str, Any]) -> Imported:
    """Return what LiteLLM's configuration becomes. Its values may be of any type; wrong ones are reported."""
    found = Imported("a LiteLLM configuration", server={"host": "127.0.0.1", "port": PORT})
    credentials = _credentials(data)
    for index, entry in enumerate(_list(data.get("model_list"))):
        if isinstance(entry, dict):
            _Deployment(found, f"model_list[{index}]", entry, credentials).add()
        else:
            found.skip(f"model_list[{index}]", "is not a table")
    found.routes.sort(key=_specificity)
    _general(found, _table(data, "general_settings"))
    _litellm(found, _table(data, "litellm_settings"))
    _router(found, _table(data, "router_settings"))
    for key in data:
        known = ("model_list", "general_settings", "litellm_settings", "router_settings", "credential_list")
        if key not in known:
            found.skip(str(key), _WHY.get(str(key), "has no counterpart"))
    return found


class _Deployment:
    """One entry of `model_list`."""

    def __init__(
        self, found: Imported, at: str, entry: Mapping[str, Any], credentials: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._found = found
        self._at = at
        self._name = str(entry.get("model_name") or "")
        params = _table(entry, "litellm_params")
        kept = credentials.get(str(params.get("litellm_credential_name")), {})
        self._params = {**kept, **params}
        self._info = _table(entry, "model_info")

    def add(self) -> None:
        """Add the provider and the route, or report why the entry cannot be imported."""
        at, params = self._at, self._params
        written = params.get("model")
        if not self._name or not isinstance(written, str) or not written:
            self._found.skip(at, "has no model_name or no litellm_params.model")
            return
        mode = self._info.get("mode")
        if mode not in _CHAT_MODES:
            self._found.skip(f"{at} ({self._name})", "is not a chat model; only those are translated")
            return
        prefix, model = self._split(written)
        vendor = VENDORS.get(prefix)
        if vendor is None:
            why = REFUSED.get(prefix, "has a provider that is not known here: add it by hand if it has one of the APIs")
            self._found.skip(f"{at} ({self._name})", why)
            return
        base_url = self._base_url(vendor)
        if base_url is None:
            self._found.skip(f"{at} ({self._name})", "has no api_base")
            return
        dialect = vendor.dialect
        if dialect == "chat" and (model.startswith("responses/") or mode == "responses"):
            dialect, model = "responses", model.removeprefix("responses/")
        if any(route.model == exact_model(self._name) for route in self._found.routes):
            self._found.skip(
                f"{at} ({self._name})",
                "is a further deployment of its model: add it by hand, as far as this gateway has it",
            )
            return
        provider = ImportedProvider(dialect, base_url, self._api_key(prefix, vendor), self._headers(prefix))
        chosen = self._found.add_provider(prefix if dialect == vendor.dialect else f"{prefix}-{dialect}", provider)
        self._add_route(chosen, model)
        self._report_rest()

    def _split(self, written: str) -> tuple[str, str]:
        """Return the vendor's prefix and the model of `PREFIX/MODEL`, which is also inferred from some names."""
        named = self._params.get("custom_llm_provider")
        prefix, slash, rest = written.partition("/")
        if isinstance(named, str) and named:
            return named, rest if slash and prefix == named else written
        if slash and (prefix in VENDORS or prefix in REFUSED):
            return prefix, rest
        if written.startswith("claude"):
            return "anthropic", written
        if _OPENAI_NAMES.match(written) or self._address() is not None:
            if written == "*":
                self._found.note(self._at, 'the model "*" goes to OpenAI only; LiteLLM infers the vendor from the name')
            return "openai", written
        return prefix, rest

    def _address(self) -> str | None:
        value = self._params.get("api_base") or self._params.get("base_url")
        return _text(value) if isinstance(value, str) and value.strip() else None

    def _base_url(self, vendor: Vendor) -> str | None:
        given = self._address()
        base = base_of(given) if given is not None else vendor.base_url
        if base is None:
            return None
        if vendor.suffix == "/openai/v1" and "/openai/" in base:
            base = base.partition("/openai/")[0]
            self._found.note(f"{self._at}.litellm_params.api_base", "the path is that of Azure's v1 API")
        if base.startswith("${") and vendor.suffix:
            self._found.note(f"{self._at}.litellm_params.api_base", "the variable's value must not end in a slash")
        return base if not vendor.suffix or base.endswith(vendor.suffix) else base + vendor.suffix

    def _api_key(self, prefix: str, vendor: Vendor) -> str | None:
        value = self._params.get("api_key")
        if value is None:
            return f"${{{vendor.key}}}" if vendor.key else None
        if not isinstance(value, str) or value.strip().lower() in PLACEHOLDERS:
            return None
        return self._secret(value, "api_key", vendor.key or variable_name(prefix, "api_key"))

    def _secret(self, value: str, key: str, variable: str) -> str:
        """Return a reference to the environment for a key; a key in the file is not copied."""
        if value.startswith(_ENVIRONMENT):
            return _text(value)
        chosen = variable_name(self._name.replace("*", "any"), variable)
        self._found.note(f"{self._at}.litellm_params.{key}", f"a key is not copied: set {chosen} to it")
        return f"${{{chosen}}}"

    def _headers(self, prefix: str) -> dict[str, str]:
        headers = {}
        for name, value in _table(self._params, "extra_headers").items():
            if not isinstance(value, str):
                self._found.skip(f"{self._at}.litellm_params.extra_headers.{name}", "is not a text")
            elif _SECRET_HEADER.search(str(name)):
                variable = variable_name(prefix, str(name))
                headers[str(name).lower()] = self._secret(value, f"extra_headers.{name}", variable)
            else:
                headers[str(name).lower()] = _text(value)
        organization = self._params.get("organization")
        if isinstance(organization, str):
            headers["openai-organization"] = _text(organization)
        elif organization is not None:
            self._found.skip(f"{self._at}.litellm_params.organization", "names several organizations")
        return headers

    def _add_route(self, provider: str, model: str) -> None:
        pattern = exact_model(self._name)
        upstream: str | None = model
        if model == self._name or (self._name.count("*") != 1 and model.count("*")):
            upstream = None
        elif pattern != self._name:
            upstream = model.replace("\\", "\\\\").replace("*", "\\1")
        self._found.routes.append(ImportedRoute(pattern, provider, upstream))

    def _report_rest(self) -> None:
        for key in self._params:
            if key in _USED or key in _NOT_NEEDED:
                continue
            limits = (
                "rpm",
                "tpm",
                "weight",
                "order",
                "timeout",
                "stream_timeout",
                "max_parallel_requests",
                "max_retries",
            )
            why = _DEPLOYMENT if key in limits else _REQUEST_DEFAULT
            if key in ("input_cost_per_token", "output_cost_per_token"):
                why = 'is not imported: prices are in [prices."MODEL"], per million tokens'
            self._found.skip(f"{self._at}.litellm_params.{key}", why)


def _specificity(route: ImportedRoute) -> tuple[bool, int]:
    """Sort key: exact names first, then patterns from the most specific on, as LiteLLM matches them."""
    pattern = "*" in route.model or route.model.startswith("/")
    return pattern, -len(route.model) if pattern else 0


def _general(found: Imported, settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        at = f"general_settings.{key}"
        if key == "master_key" and isinstance(value, str) and value:
            if value.startswith(_ENVIRONMENT):
                found.server["keys"] = [_text(value)]
            else:
                found.server["keys"] = ["${LITELLM_MASTER_KEY}"]
                found.note(at, "a key is not copied: set LITELLM_MASTER_KEY to it")
            found.note(at, "every client with this key may use all models; `dragoman keys add` makes keys with limits")
        else:
            found.skip(at, _WHY.get(at, "has no counterpart"))


def _litellm(found: Imported, settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        at = f"litellm_settings.{key}"
        if key == "drop_params" and isinstance(value, bool):
            if not value:
                found.knobs["on_loss"] = "reject"
        elif key == "request_timeout" and _is_seconds(value):
            _set_timeout(found, at, float(value))
        else:
            found.skip(at, _WHY.get(at, "has no counterpart"))


def _router(found: Imported, settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        at = f"router_settings.{key}"
        if key == "model_group_alias" and isinstance(value, dict):
            _aliases(found, at, value)
        elif key == "timeout" and _is_seconds(value):
            _set_timeout(found, at, float(value))
        else:
            found.skip(at, _WHY.get(at, "has no counterpart"))


def _aliases(found: Imported, at: str, aliases: Mapping[Any, Any]) -> None:
    for alias, target in aliases.items():
        name = str(target.get("model") if isinstance(target, dict) else target)
        route = next((route for route in found.routes if route.model == name), None)
        if route is None or "*" in str(alias):
            found.skip(f"{at}.{alias}", "has no route to the model that it stands for")
            continue
        upstream = route.upstream_model or route.model
        found.routes.insert(0, ImportedRoute(exact_model(str(alias)), route.provider, upstream))


def _set_timeout(found: Imported, at: str, seconds: float) -> None:
    found.timeouts["first_byte"] = seconds
    found.note(at, "is the time to a reply's first event here; a stream that has begun may take longer")


def _credentials(data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    listed = [entry for entry in _list(data.get("credential_list")) if isinstance(entry, dict)]
    return {str(entry.get("credential_name")): _table(entry, "credential_values") for entry in listed}


def _text(value: str) -> str:
    """Return a text of LiteLLM's file as one of this gateway's: `os.environ/NAME` is `${NAME}` here."""
    value = value.strip()
    return f"${{{value.removeprefix(_ENVIRONMENT)}}}" if value.startswith(_ENVIRONMENT) else value


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return {str(name): each for name, each in value.items()} if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0

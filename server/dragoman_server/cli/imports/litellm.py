"""LiteLLM's proxy configuration (config.yaml) as a configuration of this gateway.

https://docs.litellm.ai/docs/proxy/configs and /config_settings describe it. A `model_list` entry becomes a provider
(shared by entries with the same address and key) and a route. Keys that are written in the file are not copied: the
result refers to an environment variable instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman.gateway import DEFAULT_DIALECT
from dragoman_server.cli.imports.imported import (
    Imported,
    ImportedProvider,
    ImportedRoute,
    ImportedTarget,
    exact_model,
    variable_name,
)
from dragoman_server.cli.imports.litellm_settings import (
    ENVIRONMENT,
    import_settings,
    is_positive,
    list_of,
    table_of,
    text_of,
)
from dragoman_server.cli.imports.vendors import PLACEHOLDERS, REFUSED, VENDORS, ImportedVendor, base_of

PORT = 4000
"""LiteLLM's port, so that clients need no change."""
_OPENAI_NAMES = re.compile(r"\*\Z|gpt-|chatgpt-|o[0-9]|ft:")
_RESPONSES = "responses"
_CHAT_MODES = (None, "chat", _RESPONSES)
_SECRET_HEADER = re.compile(r"auth|key|token|cookie|secret", re.IGNORECASE)
_USED = frozenset({"model", "custom_llm_provider", "api_base", "base_url", "api_key", "extra_headers", "organization"})
_NOT_NEEDED = frozenset({"api_version", "drop_params", "litellm_credential_name"})
_DEPLOYMENT = "has no counterpart: a deployment has no limits or timeouts of its own"
_LIMITS = frozenset(
    {"rpm", "tpm", "weight", "order", "timeout", "stream_timeout", "max_parallel_requests", "max_retries"}
)
_REQUEST_DEFAULT = "has no counterpart: requests are sent with the client's own parameters"


def import_litellm(data: Mapping[str, Any]) -> Imported:
    """Return what LiteLLM's configuration becomes. Its values may be of any type; wrong ones are reported."""
    found = Imported("a LiteLLM configuration", server={"host": "127.0.0.1", "port": PORT})
    credentials = _credentials(data)
    for index, entry in enumerate(list_of(data.get("model_list"))):
        if isinstance(entry, dict):
            _Deployment(found, f"model_list[{index}]", entry, credentials).add()
        else:
            found.skip(f"model_list[{index}]", "is not a table")
    found.routes.sort(key=_specificity)
    import_settings(found, data)
    return found


class _Deployment:
    """One entry of `model_list`."""

    def __init__(
        self, found: Imported, at: str, entry: Mapping[str, Any], credentials: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._found = found
        self._at = at
        self._name = str(entry.get("model_name") or "")
        params = table_of(entry, "litellm_params")
        kept = credentials.get(str(params.get("litellm_credential_name")), {})
        self._params = {**kept, **params}
        self._info = table_of(entry, "model_info")

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
        if dialect == DEFAULT_DIALECT and (model.startswith("responses/") or mode == _RESPONSES):
            dialect, model = _RESPONSES, model.removeprefix("responses/")
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
        return text_of(value) if isinstance(value, str) and value.strip() else None

    def _base_url(self, vendor: ImportedVendor) -> str | None:
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

    def _api_key(self, prefix: str, vendor: ImportedVendor) -> str | None:
        value = self._params.get("api_key")
        if value is None:
            return f"${{{vendor.key}}}" if vendor.key else None
        if not isinstance(value, str) or value.strip().lower() in PLACEHOLDERS:
            return None
        return self._secret(value, "api_key", vendor.key or variable_name(prefix, "api_key"))

    def _secret(self, value: str, key: str, variable: str) -> str:
        """Return a reference to the environment for a key; a key in the file is not copied."""
        if value.startswith(ENVIRONMENT):
            return text_of(value)
        chosen = variable_name(self._name.replace("*", "any"), variable)
        self._found.note(f"{self._at}.litellm_params.{key}", f"a key is not copied: set {chosen} to it")
        return f"${{{chosen}}}"

    def _headers(self, prefix: str) -> dict[str, str]:
        headers = {}
        for name, value in table_of(self._params, "extra_headers").items():
            if not isinstance(value, str):
                self._found.skip(f"{self._at}.litellm_params.extra_headers.{name}", "is not a text")
            elif _SECRET_HEADER.search(str(name)):
                variable = variable_name(prefix, str(name))
                headers[str(name).lower()] = self._secret(value, f"extra_headers.{name}", variable)
            else:
                headers[str(name).lower()] = text_of(value)
        organization = self._params.get("organization")
        if isinstance(organization, str):
            headers["openai-organization"] = text_of(organization)
        elif organization is not None:
            self._found.skip(f"{self._at}.litellm_params.organization", "names several organizations")
        return headers

    def _add_route(self, provider: str, model: str) -> None:
        pattern, weight = exact_model(self._name), self._weight()
        upstream: str | None = model
        if model == self._name or (self._name.count("*") != 1 and model.count("*")):
            upstream = None
        elif pattern != self._name:
            upstream = model.replace("\\", "\\\\").replace("*", "\\1")
        same = next((route for route in self._found.routes if route.model == pattern), None)
        if same is None:
            self._found.routes.append(ImportedRoute(pattern, provider, upstream, weight))
        else:
            same.further.append(ImportedTarget(provider, upstream, 1, weight))

    def _weight(self) -> float | None:
        """Return the share of a deployment, by its own weight or, as LiteLLM does, by its requests per minute."""
        for key in ("weight", "rpm"):
            if is_positive(value := self._params.get(key)):
                if key == "rpm":
                    at = f"{self._at}.litellm_params.rpm"
                    self._found.note(at, "is a weight if the model has several deployments, not a limit")
                return float(value)
        return None

    def _report_rest(self) -> None:
        for key in self._params:
            if key in _USED or key in _NOT_NEEDED:
                continue
            if key in ("rpm", "weight") and is_positive(self._params[key]):
                continue
            why = _DEPLOYMENT if key in _LIMITS else _REQUEST_DEFAULT
            if key in ("input_cost_per_token", "output_cost_per_token"):
                why = 'is not imported: prices are in [prices."MODEL"], per million tokens'
            self._found.skip(f"{self._at}.litellm_params.{key}", why)


def _specificity(route: ImportedRoute) -> tuple[bool, int]:
    """Sort key: exact names first, then patterns from the most specific on, as LiteLLM matches them."""
    pattern = "*" in route.model or route.model.startswith("/")
    return pattern, -len(route.model) if pattern else 0


def _credentials(data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    listed = [entry for entry in list_of(data.get("credential_list")) if isinstance(entry, dict)]
    return {str(entry.get("credential_name")): table_of(entry, "credential_values") for entry in listed}

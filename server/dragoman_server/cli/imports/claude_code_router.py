"""Claude Code Router's configuration (config.json) as a configuration of this gateway.

https://github.com/musistudio/claude-code-router describes it. Its file is read as JSON5, of which comments and commas
before a closing bracket are understood. Keys that are written in the file are not copied: the result refers to an
environment variable instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from dragoman import Dialect
from dragoman.gateway import DEFAULT_DIALECT
from dragoman_server.cli.imports.imported import Imported, ImportedProvider, ImportedRoute, variable_name
from dragoman_server.cli.imports.vendors import PLACEHOLDERS, base_of

PORT = 3456
"""The router's port, so that clients need no change."""
_GEMINI = "https://generativelanguage.googleapis.com/v1beta"
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_STRING = r'("(?:[^"\\]|\\.)*")'
_COMMENTS = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMAS = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_BUILT_IN = frozenset(
    {"anthropic", "openai", "deepseek", "openrouter", "groq", "gemini", "reasoning", "sampling", "cleancache"}
)
"""Transformers whose work the translation and the upstream's profile do."""
_REFUSED = frozenset({"vertex-gemini", "vertex-claude", "gemini-cli", "qwen-cli", "rovo-cli"})
_BY_CONTENT = "has no counterpart: requests are routed by the model's name, not by their content"
_WHY = {
    "LOG": "is not needed: the log goes to standard error",
    "LOG_LEVEL": "is an option here: dragoman serve --log-level",
    "NON_INTERACTIVE_MODE": "is not needed",
    "CUSTOM_ROUTER_PATH": "has no counterpart: scripts are not run; write [[routes]]",
    "transformers": "has no counterpart: scripts are not run",
    "CLAUDE_PATH": "is an option here: dragoman run claude",
}


def read_json5(text: str) -> Any:
    """Return the data of a JSON text with comments and commas before a closing bracket. Raises ValueError."""
    for pattern in (_COMMENTS, _LAST_COMMAS):
        text = pattern.sub(lambda match: match[1] or " ", text)
    return json.loads(text)


def import_router(data: Mapping[str, Any]) -> Imported:
    """Return what the router's configuration becomes. Its values may be of any type; wrong ones are reported."""
    found = Imported("a configuration of Claude Code Router", server={"host": "127.0.0.1", "port": PORT})
    names: dict[str, str] = {}
    key = "Providers" if "Providers" in data else "providers"
    for index, entry in enumerate(_list(data.get(key))):
        if isinstance(entry, dict):
            _add_provider(found, f"{key}[{index}]", entry, names)
        else:
            found.skip(f"{key}[{index}]", "is not a table")
    _routes(found, data.get("Router"), names)
    for name, value in data.items():
        if name not in (key, "Router"):
            _setting(found, name, value)
    return found


def _dialect_of(url: str, uses: set[str]) -> Dialect:
    """Return the dialect of an endpoint, by its transformers and the end of its URL."""
    if "anthropic" in uses:
        return next(dialect for dialect in Dialect if dialect.facts.vendor == "anthropic")
    for dialect in Dialect:
        facts = dialect.facts
        if url.endswith(f"/{facts.path}" if facts.version_in_base else f"/{facts.version}/{facts.path}"):
            return dialect
    return DEFAULT_DIALECT


def _add_provider(found: Imported, at: str, entry: Mapping[str, Any], names: dict[str, str]) -> None:
    name, url = entry.get("name"), entry.get("api_base_url")
    if not isinstance(name, str) or not isinstance(url, str) or not name or not url.strip():
        found.skip(at, "has no name or no api_base_url")
        return
    uses = _transformers(entry.get("transformer"))
    if refused := next((use for use, _ in uses if use in _REFUSED), None):
        found.skip(f"{at} ({name})", f"uses the transformer {refused}, which signs in to a vendor's own client")
        return
    url = _text(url.strip())
    dialect = _dialect_of(url.rstrip("/"), {use for use, _ in uses}).value
    base = base_of(url)
    if base.startswith(_GEMINI) and "/openai" not in base:
        base = f"{_GEMINI}/openai"
        found.note(f"{at}.api_base_url", "Gemini is used by its Chat Completions API")
    provider = ImportedProvider(dialect, base, _key(found, at, name, entry.get("api_key")))
    for use, options in uses:
        _transformer(found, f"{at}.transformer", provider, use, options)
    for model in entry.get("transformer") or () if isinstance(entry.get("transformer"), dict) else ():
        if model != "use":
            found.skip(f"{at}.transformer.{model}", "has no counterpart: a profile is that of a provider")
    for rest in entry:
        if rest not in ("name", "api_base_url", "api_key", "models", "transformer"):
            found.skip(f"{at}.{rest}")
    chosen = found.add_provider(name, provider)
    names.setdefault(name, chosen)
    for model in _list(entry.get("models")):
        found.listed.append(f"{chosen}/{model}")


def _transformers(value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the names and options of a provider's transformers, names in lower case."""
    uses: list[tuple[str, Mapping[str, Any]]] = []
    for item in _list(value.get("use")) if isinstance(value, dict) else ():
        parts = item if isinstance(item, list) and item else [item]
        options = parts[1] if len(parts) > 1 and isinstance(parts[1], dict) else {}
        uses.append((str(parts[0]).lower(), options))
    return uses


def _transformer(found: Imported, at: str, provider: ImportedProvider, use: str, options: Mapping[str, Any]) -> None:
    if use == "maxtoken":
        most = options.get("max_tokens")
        if isinstance(most, int) and not isinstance(most, bool) and most > 0:
            provider.max_output_tokens = most
            return
    if use == "openrouter":
        headers = {"referer": "http-referer", "title": "x-title"}
        for option, value in options.items():
            if option in headers and isinstance(value, str):
                provider.headers[headers[option]] = _text(value)
            elif value:
                found.skip(f"{at} openrouter.{option}")
        return
    if use not in _BUILT_IN:
        found.skip(f"{at} {use}")


def _key(found: Imported, at: str, name: str, value: Any) -> str | None:
    if not isinstance(value, str) or value.strip().lower() in PLACEHOLDERS:
        return None
    if _REFERENCE.fullmatch(value.strip()):
        return _text(value.strip())
    variable = variable_name(name, "api_key")
    found.note(f"{at}.api_key" if at else "APIKEY", f"a key is not copied: set {variable} to it")
    return f"${{{variable}}}"


def _routes(found: Imported, router: Any, names: Mapping[str, str]) -> None:
    """Add the routes: names of `/model PROVIDER,MODEL` first, then `background` and `default`."""
    for original, name in names.items():
        if any(mark in original for mark in "*?["):
            continue
        found.routes.append(ImportedRoute(f"{original},*", name, "*"))
    for name in names.values():
        # The route of `background` matches names such as PROVIDER/claude-haiku too, so they need a route before it.
        found.routes.append(ImportedRoute(f"{name}/*", name, "*"))
    settings = router if isinstance(router, dict) else {}
    patterns = {"background": "*haiku*", "default": "*"}
    for key, pattern in patterns.items():
        target = settings.get(key)
        if target is None:
            continue
        provider, comma, model = str(target).partition(",")
        if not comma or provider.strip() not in names:
            found.skip(f"Router.{key}", "names a provider that is not imported")
            continue
        found.routes.append(ImportedRoute(pattern, names[provider.strip()], model.strip()))
        if key == "background":
            found.note("Router.background", "is used for names with haiku, which Claude Code uses for such requests")
    for key, value in settings.items():
        if key not in patterns and value not in (None, ""):
            found.skip(f"Router.{key}", _BY_CONTENT)


def _setting(found: Imported, name: str, value: Any) -> None:
    if name == "APIKEY":
        if isinstance(value, str) and value:
            found.server["keys"] = [_key(found, "", "ccr", value)]
    elif name == "HOST" and isinstance(value, str) and value:
        found.server["host"] = _text(value)
    elif name == "PORT" and str(value).isdigit():
        found.server["port"] = int(value)
    elif name == "API_TIMEOUT_MS" and str(value).isdigit() and int(value) > 0:
        found.timeouts["first_byte"] = int(value) / 1000
        found.note(name, "is the time to a reply's first event here; a stream that has begun may take longer")
    elif name == "PROXY_URL" and value:
        found.server["transport"] = "aiohttp"
        found.note(name, "set HTTPS_PROXY to it; the transport aiohttp uses proxies of the environment")
    else:
        found.skip(name, _WHY.get(name, "has no counterpart"))


def _text(value: str) -> str:
    """Return a text with the router's references, `$NAME` and `${NAME}`, as this gateway's."""
    return _REFERENCE.sub(lambda match: f"${{{match[1] or match[2]}}}", value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

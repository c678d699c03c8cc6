"""The configuration as frozen dataclasses with defaults. It is read from a file or the environment, or made in Python:

    Config(providers={"local": Provider("local", Dialect.CHAT, "http://127.0.0.1:9000/v1")},
           routes=[Route("claude-*", "local")])

`Config.problems()` checks every rule on values, so that a configuration made in Python is checked like a file. Errors
that only a file can have (types, unknown keys, environment references) are checked in `toml_reader`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from socket import gethostname

from dragoman import Dialect, Knobs, Limits
from dragoman.aio import PoolOptions, Timeouts
from dragoman.gateway import KNOBS, changed_fields
from dragoman_server.accounts.keys.record import KEYS_MAX, KeyRecord
from dragoman_server.accounts.store.options import MEMORY, NEEDS_REDIS, StoreOptions
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.price import Price
from dragoman_server.accounts.usage.price_table import PriceTable
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.config_error import ConfigError, Problem, join
from dragoman_server.config.overload import Overload
from dragoman_server.config.price_tables import PriceFile
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions
from dragoman_server.config.setting import (
    Above,
    Each,
    Filled,
    Form,
    Members,
    Range,
    Words,
    section,
    setting,
    setting_problems,
)
from dragoman_server.config.state_options import OFF, StateOptions
from dragoman_server.config.store_urls import POSTGRES
from dragoman_server.config.telemetry import Telemetry
from dragoman_server.config.value_problems import value_problem
from dragoman_server.config.websocket import WebSocketOptions

SIMULATED = {dialect: f"simulated-{dialect}" for dialect in Dialect}
"""Dialect → name of the simulated upstream's provider."""


UNKNOWN_MODEL = ("small", "reject", "pass")
"""Policies for a model name without a route."""


@dataclass(frozen=True)
class Models:
    """Targets of Claude's model names (mapping §12.2), and the policy for names without a route."""

    big: str | None = setting(None, Filled(), "text_or_variable", variable="BIG_MODEL_NAME")
    """Target of names with opus, sonnet, fable or mythos: a model, or provider/model."""
    small: str | None = setting(None, Filled(), "text_or_variable", variable="SMALL_MODEL_NAME")
    """Target of names with haiku."""
    unknown: str | None = setting(None, Words(UNKNOWN_MODEL))
    """Policy for a name that nothing matches."""
    discover: bool = setting(True)
    """Include the models that upstreams list in GET /v1/models."""
    context_windows: tuple[tuple[str, int], ...] = setting((), getter="named_integers")
    """Context windows in tokens, by a pattern of the models' names, as clients send them; `*` and `?` match."""

    def context_window(self, name: str) -> int:
        """Return the context window that is configured for a model by its name for clients, in tokens; 0 for none."""
        return next((tokens for pattern, tokens in self.context_windows if fnmatchcase(name, pattern)), 0)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the context windows."""
        for pattern, tokens in self.context_windows:
            if tokens < 1:
                yield join("models.context_windows", pattern), f"expected 1 or more; got {tokens}"

    @property
    def policy(self) -> str:
        """Policy for unknown names; default `small` if big or small is configured, else `reject` (mapping §12.2)."""
        return self.unknown or ("small" if self.big or self.small else "reject")


WORKERS_MAX = 256
"""Maximum number of worker processes: more than a machine's cores, but fewer than a typing error would start."""

TRANSPORTS = ("raw", "aiohttp")
"""Transports to upstreams: raw sockets, or aiohttp's client, which uses the proxies of the environment."""
_HOST = Form(
    re.compile(r"\*|(?:\*\.)?[^\s*/:@\[\]]+|\[?[0-9A-Fa-f:.]+\]?"),
    'a host name without scheme and port, "*.example.com" or "*"',
)
_ORIGIN = Form(
    re.compile(r"\*|null|[A-Za-z][A-Za-z0-9+.-]*://[^\s/@?#]+"),
    'scheme://host or scheme://host:port without a path, "null" or "*"',
)
_NAME = Form(re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,62})?"), "a name of letters, digits, `.`, `_` and `-`")
_SECONDS = Range(unit="seconds")


@dataclass(frozen=True)
class Server:
    """Settings of the listening side and of connections to upstreams.

    With `keys`, a client must present one of them. Without keys, requests may be sent to this machine's own names and
    to `allowed_hosts` (`proxy.web_origins`). `transport` and `connections` concern upstreams. More is in `proxy.cors`
    (`cors_origins`), `routing.client_profiles`, `ValidationSample` (`validate`), `observability.prompt_cache`
    (`prefix_diagnostics`) and `endpoints.console` (`ui`).
    """

    __repr__ = changed_fields

    host: str = setting("127.0.0.1", Filled())
    """Address to listen on."""
    name: str = setting("", _NAME)
    """Name of this host in receipts, captures, the log, metrics and the status (default: that of the machine)."""
    port: int = setting(8080, Range(0, 65535, "any free one", noun="a port"))
    """Port to listen on, 0 for any free one."""
    keys: tuple[Secret, ...] = setting((), getter="texts", secret=True)
    """Keys of clients without a name and without limits."""
    allowed_hosts: tuple[str, ...] = setting((), Each(_HOST))
    """Without keys: additional host names that clients may use for the gateway, without port."""
    cors_origins: tuple[str, ...] = setting((), Each(_ORIGIN))
    """Web pages that may use the gateway, by origin: https://chat.example.com."""
    max_connections: int = setting(0, Range(0, meaning="half of the files that a process may open"))
    """Client connections at once, per worker; 0 = half of the files that a process may open."""
    max_connections_per_address: int = setting(0, Range(0, meaning="no limit"))
    """Client connections at once from one address, per worker; 0 = no limit."""
    backlog: int = setting(1024, Range(1))
    """Connections that may wait to be accepted, per listening socket; the system may allow fewer."""
    receipts: int = setting(1000, Range(0, meaning="keep none"))
    """Number of recent requests whose receipts are kept in memory; 0 = none."""
    workers: int = setting(1, Range(0, WORKERS_MAX, "one for each core"), auto=0)
    """Processes that share the address; 0 or "auto" = one per core."""
    reload_drain: int = setting(600, _SECONDS)
    """Seconds that old workers have to finish open replies after a reload."""
    shutdown_delay: int = setting(0, _SECONDS)
    """Seconds that the gateway serves on after SIGTERM, while it is not ready."""
    stop_drain: int = setting(10, _SECONDS)
    """Seconds that open replies have to end when the gateway stops."""
    transport: str = setting("raw", Words(TRANSPORTS, "transport"))
    """Transport to upstreams: plain sockets, or aiohttp's client, which uses proxies."""
    client_profiles: bool = setting(True)
    """Adjust knobs for known clients."""
    validate: float = setting(0.02, Range(0, 1, noun="a share"), "share")
    """Share of translated streams that is checked for violations of the grammar, besides the first ones."""
    prefix_diagnostics: int = setting(0, Range(0, meaning="none"))
    """Number of conversations to track for prompt-cache diagnostics; 0 = none."""
    ui: bool = setting(False)
    """Serve the console, a page with live traffic, at /ui."""
    timeouts: Timeouts = section(Timeouts, Members(Above("seconds"), {"early_reply": Above("seconds", zero="never")}))
    """In seconds: the longest time for each step."""
    limits: Limits = section(Limits, Members(Above()))
    """Largest sizes and counts."""
    overload: Overload = section(Overload)
    """Bounds of one process, above which it rejects new requests and is not ready; 0 = no bound."""
    websocket: WebSocketOptions = section(WebSocketOptions)
    """The WebSocket of /v1/responses, which Codex and the vendor's SDKs can use in place of POST."""
    resume: ResumeOptions = section(ResumeOptions)
    """Streams that clients may resume after their connection broke; off unless seconds is set."""
    connections: PoolOptions = section(PoolOptions, Members(Range(), {"head": Range(1024), "unread": Range(1024)}))
    """The pool of connections to one upstream."""

    @property
    def host_name(self) -> str:
        """The name of this host."""
        return self.name or gethostname()[:63] or "localhost"

    def __post_init__(self) -> None:
        given: tuple[object, ...] = self.keys
        keys = tuple(Secret(key) if isinstance(key, str) else key for key in given)
        object.__setattr__(self, "keys", keys)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        yield from setting_problems("server", self)
        for index, key in enumerate(self.keys):
            if not key.reveal():
                yield f"server.keys[{index}]", "is empty"
        yield from setting_problems("server.overload", self.overload)
        yield from setting_problems("server.websocket", self.websocket)
        yield from self.resume.problems()


@dataclass(frozen=True)
class Config:
    """The whole configuration of a gateway. `models_listed` are additional names for `GET /v1/models`.

    `keys` are the named keys of clients, by name, in addition to `server.keys` and to those in the `store`.
    """

    __repr__ = changed_fields

    providers: Mapping[str, Provider] = field(default_factory=dict)
    """The upstreams, each with a name."""
    routes: Sequence[Route] = ()
    """Routes from a model's name to a provider. Exact names come first, then patterns in the file's order."""
    models: Models = field(default_factory=Models)
    """Targets of Claude's model names, and names without a route."""
    server: Server = field(default_factory=Server)
    """The listening side, and connections to upstreams."""
    knobs: Knobs = field(default_factory=Knobs)
    """Choices for the translation where there is a choice."""
    models_listed: Sequence[str] = ()
    simulated: bool = False
    only_model: bool = False
    """If the only provider lists one model, requests for any name get it (`proxy.only_model`)."""
    knobs_named: frozenset[str] = frozenset()
    """Knobs that the file sets, even to their default: client profiles do not change them."""
    keys: Mapping[str, KeyRecord] = field(default_factory=dict)
    """Named keys of clients, with what each may use."""
    store: StoreOptions = field(default_factory=StoreOptions)
    """Where the counters of limits are kept, and keys that are not in the file."""
    retries: RetryOptions = section(RetryOptions)
    """Further attempts of a request, and pauses of providers that fail. Times are in seconds."""
    usage: UsageOptions = field(default_factory=UsageOptions)
    """A row for each exchange, with tokens and cost."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Prices by the upstream's model, in any currency."""
    price_file: PriceFile = field(default_factory=PriceFile)
    """Prices of models that have none in the configuration itself: those of the file `prices.file`."""
    telemetry: Telemetry = section(Telemetry)
    """Traces and metrics by OpenTelemetry."""
    capture: CaptureOptions = section(CaptureOptions)
    """Captures of exchanges: their requests and replies, in files."""
    state: StateOptions = field(default_factory=StateOptions)
    """Stored responses of clients of the Responses API, for upstreams of any dialect."""
    directory: str = field(default="", compare=False)
    """The directory of the file; empty for a configuration without one."""

    def price_table(self) -> PriceTable:
        """Return the prices for all providers and those of single ones."""
        own = {name: provider.prices for name, provider in self.providers.items()}
        return PriceTable(self.prices, own, self.price_file.table())

    @property
    def named_keys(self) -> bool:
        """True if there are, or may be, named keys."""
        return bool(self.keys) or self.store.holds_keys

    @property
    def requires_key(self) -> bool:
        """True if every client must present a key."""
        return bool(self.server.keys) or self.named_keys

    def with_simulator(self, url: str, models: Sequence[str] = ()) -> Config:
        """Return this configuration with the simulated upstream at `url`, which lists `models`."""
        filled = {
            name: replace(provider, base_url=url) if name in SIMULATED.values() else provider
            for name, provider in self.providers.items()
        }
        return replace(self, providers=filled, models_listed=tuple(models) or self.models_listed)

    def with_only_model(self, model: str) -> Config:
        """Return this configuration with a route from any name to a model of the only provider."""
        route = Route("*", next(iter(self.providers)), model)
        return replace(self, routes=(route,), models_listed=(model,), only_model=False)

    def problems(self) -> list[Problem]:
        """Return all problems as (path, message)."""
        found = list(self.server.problems())
        for name, spec in KNOBS.items():
            if wrong := value_problem(spec, getattr(self.knobs, name)):
                found.append((f"knobs.{name}", wrong))
        for name, provider in self.providers.items():
            at = join("providers", name)
            if provider.name != name:
                found.append((at, f"has another name in the provider itself: {provider.name!r}"))
            pending = self.simulated and not provider.base_url
            found.extend(p for p in provider.problems(at) if not (pending and p[0] == f"{at}.base_url"))
        for index, route in enumerate(self.routes):
            found.extend(route.problems(f"routes[{index}]", self.providers))
        found.extend(self._model_problems())
        found.extend(self.retries.problems())
        found.extend(self.store.problems())
        found.extend(self.usage.problems())
        for pattern, price in self.prices.items():
            found.extend(price.problems(join("prices", pattern)))
        found.extend(self.telemetry.problems())
        found.extend(self.capture.problems())
        found.extend(self.state.problems(self.server.workers))
        if self.server.resume.seconds and self.state.kind == POSTGRES and not self.state.has_runs:
            found.append(("state.runs_url", "is required for server.resume, which PostgreSQL does not keep"))
        if self.server.resume.seconds and self.server.workers != 1 and self.state.kind_with(self.server.workers) == OFF:
            text = 'needs a store that the workers share: set state.kind to "sqlite" or "redis"'
            found.append(("server.resume.seconds", text))
        found.extend(self._key_problems())
        return found

    def _key_problems(self) -> Iterator[Problem]:
        if len(self.keys) > KEYS_MAX:
            yield "keys", f"has {len(self.keys)} keys; the most are {KEYS_MAX}"
        ids: dict[str, str] = {}
        for name, record in self.keys.items():
            at = join("keys", name)
            if record.name != name:
                yield at, f"has another name in the key itself: {record.name!r}"
            yield from record.problems(at)
            if (other := ids.setdefault(record.id, name)) != name:
                yield f"{at}.hash", f"is that of keys.{other}: each name needs a key of its own"
        limited = any(key.limits for key in self.keys.values())
        if limited and self.store.kind == POSTGRES and not self.store.limits_url:
            yield "store.limits_url", NEEDS_REDIS
        if limited and self.server.workers != 1 and self.store.kind == MEMORY:
            yield "store.kind", 'is "memory", in which each worker counts for itself: limits need "sqlite" or "redis"'

    def _model_problems(self) -> Iterator[Problem]:
        models = self.models
        yield from setting_problems("models", models)
        yield from models.problems()
        if models.unknown == "small" and not (models.big or models.small):
            yield "models.unknown", '"small" needs models.small or models.big'
        if models.unknown == "pass" and not self.providers:
            yield "models.unknown", '"pass" needs a provider'
        for size in ("big", "small"):
            name = getattr(models, size)
            if name and not self._has_provider(name):
                yield (
                    f"models.{size}",
                    f'no provider is known for "{name}": write "provider/{name}", or give it a route',
                )

    def _has_provider(self, name: str) -> bool:
        prefix, slash, rest = name.partition("/")
        return (
            len(self.providers) == 1
            or bool(slash and rest and prefix in self.providers)
            or any(route.client is None and _matches(route, name) for route in self.routes)
        )

    def check(self) -> None:
        """Raise `ConfigError` with all problems, if there are any."""
        if found := self.problems():
            raise ConfigError.of(found)


def _matches(route: Route, name: str) -> bool:
    try:
        pattern = route.pattern()
    except re.error:
        return False
    return route.model == name if pattern is None else bool(pattern.fullmatch(name))

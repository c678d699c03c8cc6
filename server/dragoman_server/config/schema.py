"""The configuration as frozen dataclasses with defaults. It is read from a file or the environment, or made in Python:

    Config(providers={"local": Provider("local", Dialect.CHAT, "http://127.0.0.1:9000/v1")},
           routes=[Route("claude-*", "local")])

`Config.problems()` checks every rule on values, so that a configuration made in Python is checked like a file. Errors
that only a file can have (types, unknown keys, environment references) are checked in `toml_reader`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Any

from dragoman import Dialect, Knobs, Limits
from dragoman.aio import PoolOptions, Timeouts
from dragoman.gateway import KNOBS, changed_fields
from dragoman_server.accounts.keys.record import KEYS_MAX, KeyRecord
from dragoman_server.accounts.store.options import MEMORY, StoreOptions
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.price_table import Price, PriceTable
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.overload import Overload
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.config.routing_options import (
    BALANCES,
    RetryOptions,
    RouteTarget,
    attempts_problem,
    target_problems,
)
from dragoman_server.config.state_options import StateOptions
from dragoman_server.config.telemetry import Telemetry
from dragoman_server.config.toml_reader import ConfigError, Problem, join
from dragoman_server.config.value_problems import closest, unknown, value_problem
from dragoman_server.config.websocket import WebSocketOptions

SIMULATED = {dialect: f"simulated-{dialect}" for dialect in Dialect}
"""Dialect → name of the simulated upstream's provider."""


@dataclass(frozen=True)
class Route:
    """Maps a model name, glob or `/regex/` to a provider.

    In `upstream_model`, `*` is replaced by what the glob's only `*` matched; for a regex, `\\1` and `\\g<name>` by its
    groups. With `client`, the route applies to clients of that dialect only. `knobs` override the general ones.

    With `targets`, a request goes to one of several providers, shared by `balance` between those of the same priority,
    and `provider` is the first of them. `attempts` is the most upstream requests for one request.
    """

    __repr__ = changed_fields

    model: str
    provider: str = ""
    upstream_model: str | None = None
    client: Dialect | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[RouteTarget, ...] = ()
    balance: str = BALANCES[0]
    attempts: int | None = None

    def __post_init__(self) -> None:
        if self.targets:
            fill = object.__setattr__
            numbered = enumerate(self.targets, 1)
            ordered = [each if each.priority else replace(each, priority=place) for place, each in numbered]
            fill(self, "targets", tuple(ordered))
            fill(self, "provider", self.provider or min(ordered, key=lambda each: each.priority or 0).provider)

    @property
    def provider_names(self) -> list[str]:
        """The names of the route's providers."""
        return [target.provider for target in self.targets] or [self.provider]

    @property
    def is_regex(self) -> bool:
        """True if `model` is a regex: `/.../`."""
        return len(self.model) > 2 and self.model[0] == self.model[-1] == "/"

    @property
    def takes_all(self) -> bool:
        """True if every name matches, as for `*`."""
        return self.model[1:-1] in (".*", ".+") if self.is_regex else bool(self.model) and not self.model.strip("*")

    def pattern(self) -> re.Pattern[str] | None:
        """Return the compiled pattern, or None for an exact name. Raises `re.error`."""
        if self.is_regex:
            return re.compile(self.model[1:-1])
        if any(mark in self.model for mark in "*?["):
            return re.compile(_glob(self.model), re.DOTALL)
        return None

    def substitutes(self) -> bool:
        """True if `upstream_model` has placeholders that are filled from the match."""
        return self._has_placeholder(self.upstream_model)

    def _has_placeholder(self, upstream_model: str | None) -> bool:
        return upstream_model is not None and ("\\" if self.is_regex else "*") in upstream_model

    def expanded(self, upstream_model: str | None, model: str, match: re.Match[str] | None) -> str:
        """Return an upstream model of the route with its placeholders filled; without one, the client's `model`."""
        if upstream_model is None or match is None or not self._has_placeholder(upstream_model):
            return upstream_model or model
        return match.expand(upstream_model) if self.is_regex else upstream_model.replace("*", match[1])

    def problems(self, at: str, providers: Mapping[str, Provider]) -> Iterator[Problem]:
        """Yield the problems of this route; `at` is its path in the configuration."""
        if not self.model:
            yield f"{at}.model", "is empty"
        try:
            pattern = self.pattern()
        except re.error as error:
            yield f"{at}.model", f'bad pattern "{self.model}": {error}'
        else:
            yield from self._substitution_problems(f"{at}.upstream_model", self.upstream_model, pattern)
            for index, target in enumerate(self.targets):
                here = f"{at}.providers[{index}].upstream_model"
                yield from self._substitution_problems(here, target.upstream_model, pattern)
        yield from target_problems(f"{at}.providers", self.targets, providers)
        yield from attempts_problem(at, self.attempts)
        if self.balance not in BALANCES:
            yield f"{at}.balance", unknown("value", self.balance, BALANCES)
        if not self.targets and self.provider not in providers:
            yield f"{at}.provider", unknown("provider", self.provider, providers)
        if self.client is not None and self.client not in tuple(Dialect):
            yield f"{at}.client", unknown("dialect", self.client, Dialect)
        for name, value in self.knobs.items():
            if name not in KNOBS:
                yield f"{at}.knobs.{name}", "unknown key" + closest(name, KNOBS)
            elif wrong := value_problem(KNOBS[name], value):
                yield f"{at}.knobs.{name}", wrong

    def _substitution_problems(
        self, at: str, upstream_model: str | None, pattern: re.Pattern[str] | None
    ) -> Iterator[Problem]:
        if upstream_model == "":
            yield at, "is empty"
        if upstream_model is None or not self._has_placeholder(upstream_model):
            return
        if self.is_regex and pattern is not None:
            # The only way to check a template is to expand it; the added empty alternative makes the pattern match.
            try:
                if match := re.compile(pattern.pattern + "|").match(""):
                    match.expand(upstream_model)
            except (re.error, IndexError) as error:
                yield at, f"bad template: {error}"
        elif pattern is None or pattern.groups != 1 or upstream_model.count("*") != 1:
            yield at, "a * here needs exactly one * in model, and may occur only once"


def _glob(pattern: str) -> str:
    """Return the regex of a glob with `*`, `?`, `[a-z]` and `[!a-z]`, as in a shell; each `*` becomes a group."""
    out = []
    for token in re.findall(r"\[!?\]?[^\]]*\]|.", pattern, re.DOTALL):
        if token == "*":
            out.append("(.*)")
        elif token == "?":
            out.append(".")
        elif len(token) > 1:
            # Each member is escaped, so that characters that are special only in a regex are literal.
            members = re.findall(r"(.)-(.)|(.)", token[1:-1].removeprefix("!"), re.DOTALL)
            inside = "".join(
                f"{re.escape(low)}-{re.escape(high)}" if low else re.escape(one) for low, high, one in members
            )
            out.append(f"[{'^' if token[1] == '!' else ''}{inside}]")
        else:
            out.append(re.escape(token))
    return "".join(out)


@dataclass(frozen=True)
class Models:
    """Targets of Claude's model names (mapping §12.2): `big` and `small` are a model name or `provider/model`.

    `unknown` is the policy for names without a route. With `discover`, `GET /v1/models` lists the upstreams' models.
    """

    big: str | None = None
    small: str | None = None
    unknown: str | None = None
    discover: bool = True

    @property
    def policy(self) -> str:
        """Policy for unknown names; default `small` if big or small is configured, else `reject` (mapping §12.2)."""
        return self.unknown or ("small" if self.big or self.small else "reject")


UNKNOWN_MODEL = ("small", "reject", "pass")
"""Policies for a model name without a route."""

WORKERS_MAX = 256
"""Maximum number of worker processes: more than a machine's cores, but fewer than a typing error would start."""

TRANSPORTS = ("raw", "aiohttp")
"""Transports to upstreams: raw sockets, or aiohttp's client, which uses the proxies of the environment."""
_HOST = re.compile(r"\*|(?:\*\.)?[^\s*/:@\[\]]+|\[?[0-9A-Fa-f:.]+\]?")
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/@?#]+")
_MINIMUM = {"head": 1024, "unread": 1024}
_OFF_AT_ZERO = frozenset({"early_reply"})


@dataclass(frozen=True)
class Server:
    """Settings of the listening side and of connections to upstreams.

    With `keys`, a client must present one of them. Without keys, requests may be sent to this machine's own names and
    to `allowed_hosts` (`proxy.web_origins`). Web pages of `cors_origins` may use the gateway (`proxy.cors`). `receipts`
    is the number of last requests whose receipts are kept.

    `workers` is the number of processes of `dragoman serve` (0: one for each core); after a reload, the old ones have
    `reload_drain` seconds for their open replies. A gateway that is to stop serves for `shutdown_delay` seconds more,
    and is not ready meanwhile; then open replies have `stop_drain` seconds. `transport` and `connections` concern
    upstreams. `validate` is the share of the translated streams that are checked against the grammar of the client's
    dialect (0: none), besides the first ones (`ValidationSample`). With `client_profiles`, known clients get the knobs
    that they need (`routing.client_profiles`). `prefix_diagnostics` is the number of conversations whose prompt
    prefixes are tracked (`observability.prompt_cache`).

    `backlog` connections may wait in a listening socket's queue (the system may allow fewer). A process serves at most
    `max_connections` connections (0: half of its limit of open files), at most `max_connections_per_address` of them
    from one address (0: no limit). With `ui`, the console is served (`endpoints.console`).
    """

    __repr__ = changed_fields

    host: str = "127.0.0.1"
    port: int = 8080
    keys: tuple[Secret, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    limits: Limits = field(default_factory=Limits)
    overload: Overload = field(default_factory=Overload)
    websocket: WebSocketOptions = field(default_factory=WebSocketOptions)
    resume: ResumeOptions = field(default_factory=ResumeOptions)
    receipts: int = 1000
    workers: int = 1
    reload_drain: int = 600
    shutdown_delay: int = 0
    stop_drain: int = 10
    transport: str = "raw"
    connections: PoolOptions = field(default_factory=PoolOptions)
    validate: float = 0.02
    client_profiles: bool = True
    prefix_diagnostics: int = 0
    backlog: int = 1024
    max_connections: int = 0
    max_connections_per_address: int = 0
    ui: bool = False

    def __post_init__(self) -> None:
        given: tuple[object, ...] = self.keys
        keys = tuple(Secret(key) if isinstance(key, str) else key for key in given)
        object.__setattr__(self, "keys", keys)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        if not self.host:
            yield "server.host", "is empty"
        if not 0 <= self.port <= 65535:
            yield "server.port", f"expected a port from 0 (any free one) to 65535; got {self.port}"
        for index, key in enumerate(self.keys):
            if not key.reveal():
                yield f"server.keys[{index}]", "is empty"
        yield from _host_problems(self.allowed_hosts)
        yield from _origin_problems(self.cors_origins)
        if self.receipts < 0:
            yield "server.receipts", f"expected 0 (keep none) or more; got {self.receipts}"
        if not 0 <= self.validate <= 1:
            yield "server.validate", f"expected a share from 0 to 1; got {self.validate:g}"
        if self.prefix_diagnostics < 0:
            yield "server.prefix_diagnostics", f"expected 0 (none) or more; got {self.prefix_diagnostics}"
        if self.backlog < 1:
            yield "server.backlog", f"expected 1 or more; got {self.backlog}"
        if self.max_connections < 0:
            expected = "expected 0 (half of the files that a process may open) or more"
            yield "server.max_connections", f"{expected}; got {self.max_connections}"
        if self.max_connections_per_address < 0:
            expected = "expected 0 (no limit) or more"
            yield "server.max_connections_per_address", f"{expected}; got {self.max_connections_per_address}"
        if not 0 <= self.workers <= WORKERS_MAX:
            yield "server.workers", f"expected 0 (one for each core) to {WORKERS_MAX}; got {self.workers}"
        if self.reload_drain < 0:
            yield "server.reload_drain", f"expected 0 seconds or more; got {self.reload_drain}"
        if self.shutdown_delay < 0:
            yield "server.shutdown_delay", f"expected 0 seconds or more; got {self.shutdown_delay}"
        if self.stop_drain < 0:
            yield "server.stop_drain", f"expected 0 seconds or more; got {self.stop_drain}"
        if self.transport not in TRANSPORTS:
            yield "server.transport", unknown("transport", self.transport, TRANSPORTS)
        for what in fields(PoolOptions):
            number, least = getattr(self.connections, what.name), _MINIMUM.get(what.name, 0)
            if not (number >= least and isfinite(number)):
                yield f"server.connections.{what.name}", f"expected {least} or more; got {number:g}"
        for timer in fields(Timeouts):
            seconds = getattr(self.timeouts, timer.name)
            never = " or 0 (never)" if timer.name in _OFF_AT_ZERO else ""
            if not (isfinite(seconds) and (seconds > 0 or (never and seconds == 0))):
                yield f"server.timeouts.{timer.name}", f"expected seconds above 0{never}; got {seconds:g}"
        for bound in fields(Overload):
            if not ((value := getattr(self.overload, bound.name)) >= 0 and isfinite(value)):
                yield f"server.overload.{bound.name}", f"expected 0 (no bound) or more; got {value:g}"
        yield from self.websocket.problems()
        yield from self.resume.problems(self.workers)
        for limit in fields(Limits):
            if (value := getattr(self.limits, limit.name)) <= 0:
                yield f"server.limits.{limit.name}", f"expected a number above 0; got {value}"


def _host_problems(hosts: Sequence[str]) -> Iterator[Problem]:
    for index, host in enumerate(hosts):
        if not _HOST.fullmatch(host):
            expected = 'expected a host name without scheme and port, "*.example.com" or "*"'
            yield f"server.allowed_hosts[{index}]", f'{expected}; got "{host}"'


def _origin_problems(origins: Sequence[str]) -> Iterator[Problem]:
    for index, origin in enumerate(origins):
        if origin not in ("*", "null") and not _ORIGIN.fullmatch(origin):
            expected = 'expected scheme://host or scheme://host:port without a path, "null" or "*"'
            yield f"server.cors_origins[{index}]", f'{expected}; got "{origin}"'


@dataclass(frozen=True)
class Config:
    """The whole configuration of a gateway. `models_listed` are additional names for `GET /v1/models`.

    `keys` are the named keys of clients, by name, in addition to `server.keys` and to those in the `store`.
    """

    __repr__ = changed_fields

    providers: Mapping[str, Provider] = field(default_factory=dict)
    routes: Sequence[Route] = ()
    models: Models = field(default_factory=Models)
    server: Server = field(default_factory=Server)
    knobs: Knobs = field(default_factory=Knobs)
    models_listed: Sequence[str] = ()
    simulated: bool = False
    only_model: bool = False
    """If the only provider lists one model, requests for any name get it (`proxy.only_model`)."""
    knobs_named: frozenset[str] = frozenset()
    """Knobs that the file sets, even to their default: client profiles do not change them."""
    keys: Mapping[str, KeyRecord] = field(default_factory=dict)
    store: StoreOptions = field(default_factory=StoreOptions)
    retries: RetryOptions = field(default_factory=RetryOptions)
    usage: UsageOptions = field(default_factory=UsageOptions)
    prices: Mapping[str, Price] = field(default_factory=dict)
    telemetry: Telemetry = field(default_factory=Telemetry)
    capture: CaptureOptions = field(default_factory=CaptureOptions)
    state: StateOptions = field(default_factory=StateOptions)
    directory: str = field(default="", compare=False)
    """The directory of the file; empty for a configuration without one."""

    def price_table(self) -> PriceTable:
        """Return the prices for all providers and those of single ones."""
        return PriceTable(self.prices, {name: provider.prices for name, provider in self.providers.items()})

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
            if provider.auth is Auth.PASSTHROUGH and self.requires_key:
                # The client would present the gateway's own key, which would be sent upstream.
                where = "server.keys" if self.server.keys else "this gateway"
                found.append((f"{at}.auth", f'"passthrough" would send the keys of {where} upstream'))
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
        if self.server.workers != 1 and self.store.kind == MEMORY and any(key.limits for key in self.keys.values()):
            yield "store.kind", 'is "memory", in which each worker counts for itself: limits need "sqlite" or "redis"'

    def _model_problems(self) -> Iterator[Problem]:
        models = self.models
        if models.unknown is not None and models.unknown not in UNKNOWN_MODEL:
            yield "models.unknown", unknown("value", models.unknown, UNKNOWN_MODEL)
        if models.unknown == "small" and not (models.big or models.small):
            yield "models.unknown", '"small" needs models.small or models.big'
        if models.unknown == "pass" and not self.providers:
            yield "models.unknown", '"pass" needs a provider'
        for size in ("big", "small"):
            name = getattr(models, size)
            if name == "":
                yield f"models.{size}", "is empty"
            elif name and not self._has_provider(name):
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

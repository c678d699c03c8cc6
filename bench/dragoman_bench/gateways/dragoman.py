"""Dragoman, started by its console command with a configuration file, as in production."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import version

from dragoman_bench.gateways.features import DEFAULT, HEADERS, Features, features
from dragoman_bench.gateways.gateway import ALL, Direction, Kind, Started
from dragoman_bench.gateways.launch import free_port, launch, own_module

_CONFIG = """\
[server]
host = "127.0.0.1"
port = {port}
{server}
[providers.upstream]
dialect = "{dialect}"
base_url = "{url}"
api_key = "sk-bench"
profile = "compatible"

[[routes]]
model = "*"
provider = "upstream"
"""


_VERSIONS = {"messages": "", "generate": "/v1beta"}
"""The end of the base URL, where it is not `/v1`."""


def config(port: int, dialect: str, url: str, transport: str | None = None, added: Features = DEFAULT) -> str:
    """Return the configuration file of a gateway on `port` in front of the upstream at `url`, which has no path."""
    text = _CONFIG.format(
        port=port,
        server=(f'transport = "{transport}"\n' if transport else "") + added.server,
        dialect=dialect,
        url=url + _VERSIONS.get(dialect, "/v1"),
    )
    return text + added.tables


@dataclass(frozen=True, slots=True)
class Dragoman:
    """One worker. `transport` is the upstream transport; without one, the default. `features` are those of `NAMES`."""

    name: str
    transport: str | None
    about: str
    kind: Kind = "translate"
    directions: frozenset[Direction] = ALL
    note: str = "it runs without its line for each request (--quiet), as the peers do where they can"
    without: Mapping[str, str] = field(default_factory=dict)
    features: str = "default"

    def missing(self) -> str | None:
        """Return a reason if this version has no choice of transports, else None."""
        from dragoman_server.config.schema import Server

        if self.transport is not None and "transport" not in {spec.name for spec in fields(Server)}:
            return "this version of dragoman has no setting server.transport: measure `dragoman` instead"
        return None

    def version(self) -> str:
        """Return the version of the installed distribution."""
        return version("dragoman")

    async def start(self, upstream_url: str, direction: Direction, core: int | None) -> Started:
        """Start `python -m dragoman_server serve config.toml`. Raises StartError."""
        port = free_port()
        added = features(self.features)
        files = {"config.toml": config(port, direction[1], upstream_url, self.transport, added)}
        command, env = own_module("dragoman_server", *added.arguments, "{folder}/config.toml")
        return await launch(command, port, core, env=env, files=files, ready="/health", headers=HEADERS)

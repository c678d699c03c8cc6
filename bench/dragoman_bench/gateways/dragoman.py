"""Dragoman, started by its console command with a configuration file, as in production."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.metadata import version

from dragoman_bench.gateways.features import DEFAULT, Features, features
from dragoman_bench.gateways.gateway import ALL, Direction, Kind, Started
from dragoman_bench.gateways.launch import free_port, launch, own_module

COMPILED_PYTHON = "DRAGOMAN_COMPILED_PYTHON"
"""Environment variable with the interpreter of an environment that has the compiled wheel."""
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


def config(port: int, dialect: str, url: str, transport: str | None = None, added: Features = DEFAULT) -> str:
    """Return the configuration file of a gateway on `port` in front of the upstream at `url`, which has no path."""
    text = _CONFIG.format(
        port=port,
        server=(f'transport = "{transport}"\n' if transport else "") + added.server,
        dialect=dialect,
        url=url + ("" if dialect == "messages" else "/v1"),
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
        command, env = self._command(*added.arguments, "{folder}/config.toml")
        return await launch(command, port, core, env=env, files=files, ready="/health", headers=added.headers)

    def _command(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        return own_module("dragoman_server", *arguments)


@dataclass(frozen=True, slots=True)
class CompiledDragoman(Dragoman):
    """The compiled wheel, in the environment of `COMPILED_PYTHON`."""

    def missing(self) -> str | None:
        """Return a reason if the environment is not given, or has the pure build."""
        python = os.environ.get(COMPILED_PYTHON)
        if not python:
            return f"set {COMPILED_PYTHON} to the interpreter of an environment that has the compiled wheel"
        return None if "compiled" in _shown_version(python) else f"{python} has no compiled dragoman"

    def version(self) -> str:
        """Return the version that the environment's own command prints."""
        return _shown_version(os.environ[COMPILED_PYTHON])

    def _command(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        return [os.environ[COMPILED_PYTHON], "-m", "dragoman_server", *arguments], {}


@cache
def _shown_version(python: str) -> str:
    command = [python, "-m", "dragoman_server", "--version"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return f"({error.strerror})"
    return shown.stdout.strip().removeprefix("dragoman ")

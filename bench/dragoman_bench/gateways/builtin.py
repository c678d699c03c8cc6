"""The rig's own gateways: the processes of `dragoman_bench.proxies`, each the simplest of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman_bench.gateways.gateway import Direction, Kind, Started
from dragoman_bench.gateways.launch import free_port, launch, own_module


@dataclass(frozen=True, slots=True)
class BuiltinGateway:
    """A module of `dragoman_bench.proxies`, run as `python -m MODULE --port … --upstream … --client … --dialect …`."""

    name: str
    kind: Kind
    directions: frozenset[Direction]
    module: str
    about: str
    note: str = ""
    without: Mapping[str, str] = field(default_factory=dict)

    def missing(self) -> str | None:
        """Return None: it needs no further software."""
        return None

    def version(self) -> str:
        """Return an empty string: it is part of the rig."""
        return ""

    async def start(self, upstream_url: str, direction: Direction, core: int | None) -> Started:
        """Start its process. Raises StartError."""
        port = free_port()
        command, env = own_module(
            f"dragoman_bench.proxies.{self.module}",
            f"--port={port}",
            f"--upstream={upstream_url}",
            f"--client={direction[0]}",
            f"--dialect={direction[1]}",
        )
        return await launch(command, port, core, env=env)

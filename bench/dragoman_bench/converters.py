"""Peers' conversions of requests without their gateways: from a parsed body to a body, as they publish their times."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from dragoman_bench.gateways.environments import ENVIRONMENTS
from dragoman_bench.gateways.launch import StartError

PEERS = ("litellm", "llm-rosetta")
"""Peers that convert in all six cross directions."""

_CHILD = Path(__file__).with_name("convert_as_peer.py")
_QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION"}
"""Environment of the peers: no network, no log, as in production."""


class Converter:
    """One peer in a process of its own; `python` is the interpreter of its environment. Call `close` at the end."""

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [str(python), str(_CHILD), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_QUIET},
            text=True,
            encoding="utf-8",
        )

    def convert(self, body: bytes, client: str, upstream: str) -> Any:
        """Return the converted body. Raises StartError with the peer's message if that fails."""
        return self._ask({"convert": json.loads(body), "client": client, "upstream": upstream})["body"]

    def seconds(self, times: int) -> float:
        """Return the CPU time of `times` conversions of the last converted body. Raises StartError."""
        spent: float = self._ask({"repeat": times})["seconds"]
        return spent

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, order: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(order), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        result = json.loads(answer) if answer else {"error": "the process ended"}
        if "error" in result:
            raise StartError(f"{self.name} cannot convert this: {result['error']}")
        return result


def missing(name: str) -> str | None:
    """Return advice if a peer is not installed, else None."""
    return ENVIRONMENTS[name].missing()


def start(name: str) -> Converter:
    """Start an installed peer."""
    return Converter(name, ENVIRONMENTS[name].folder / "bin" / "python")

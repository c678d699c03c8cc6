"""Peers' conversions of requests without their gateways: a parsed body in, a body out, as they publish its time."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from dragoman_bench.gateways.environments import ENVIRONMENTS
from dragoman_bench.gateways.launch import StartError

PEERS = ("litellm", "llm-rosetta")
"""Each converts in all six cross directions."""

_CHILD = Path(__file__).with_name("convert_as_peer.py")
_QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION"}
"""No network, and no log, as for production."""


class Converter:
    """One peer in a process of its own environment, `python` its interpreter. To be closed."""

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
        """What becomes of a body. Raises StartError with the peer's words where it fails."""
        return self._ask({"convert": json.loads(body), "client": client, "upstream": upstream})["body"]

    def seconds(self, times: int) -> float:
        """CPU time of so many conversions of the body that was converted last. Raises StartError."""
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
        told = json.loads(answer) if answer else {"error": "the process ended"}
        if "error" in told:
            raise StartError(f"{self.name} cannot convert this: {told['error']}")
        return told


def missing(name: str) -> str | None:
    """What to do if a peer is not installed; None if it is."""
    return ENVIRONMENTS[name].missing()


def start(name: str) -> Converter:
    """An installed peer."""
    return Converter(name, ENVIRONMENTS[name].folder / "bin" / "python")

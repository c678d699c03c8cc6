"""The simulated upstream, with the request checks of the real APIs."""

from __future__ import annotations

from functools import partial
from typing import Any

from aiohttp import web

from dragoman_server.simulator import make_simulator
from oracles.requests import check


def strict_simulator(
    pace: float = 0.0, require_key: bool = False, *, verify: bool = False, **options: Any
) -> web.Application:
    """Return `make_simulator(…)` that rejects what the real APIs reject (400).

    `verify` also rejects reasoning that the simulator did not sign.
    """
    return make_simulator(pace, require_key, check=partial(check, verify=verify), **options)

"""The gateways that the rig can measure, by name.

It imports `processes`, `scenarios` and `wire`; `rig`, `runner` and `cli` import it.
Start with the interface in `gateway.py`, then `launch.py`.
"""

from __future__ import annotations

from dragoman_bench.gateways.builtin import BuiltinGateway
from dragoman_bench.gateways.direct import Direct
from dragoman_bench.gateways.dragoman import Dragoman
from dragoman_bench.gateways.gateway import ALL, CROSS, SAME, Direction, Gateway, Started, measured_direction
from dragoman_bench.gateways.launch import StartError
from dragoman_bench.gateways.nginx import Nginx
from dragoman_bench.gateways.peers import PEERS
from dragoman_bench.wire import PATHS

__all__ = (
    "ALL",
    "CROSS",
    "GATEWAYS",
    "PATHS",
    "SAME",
    "Direction",
    "Gateway",
    "StartError",
    "Started",
    "measured_direction",
)


_TEXTS_ONLY = "its request to the upstream has the model and the texts only"
_TEXTS_SENT = "it would send the texts only, and leave out tools, calls and results"
_NO_AGENT = {"agent": _TEXTS_SENT, "agent-turn": _TEXTS_SENT}


def _registry(*gateways: Gateway) -> dict[str, Gateway]:
    return {gateway.name: gateway for gateway in gateways}


GATEWAYS: dict[str, Gateway] = _registry(
    Direct(),
    BuiltinGateway("relay", "relay", SAME, "relay", "a raw TCP splice in Python: reads nothing, checks nothing"),
    BuiltinGateway(
        "floor",
        "translate",
        CROSS,
        "minimal_translator",
        "a bare raw-socket translator in Python: text only, no checks, no limits, no errors",
        _TEXTS_ONLY,
        _NO_AGENT,
    ),
    BuiltinGateway(
        "aiohttp-pass", "pass", SAME, "aiohttp_pass", "the usual untranslating aiohttp proxy on uvloop: the baseline"
    ),
    BuiltinGateway(
        "aiohttp-translate",
        "translate",
        CROSS,
        "aiohttp_translate",
        "the usual translating aiohttp handler on uvloop: text only, line by line, no checks",
        _TEXTS_ONLY,
        _NO_AGENT,
    ),
    Nginx(),
    Dragoman("dragoman", None, "this gateway, one worker, as configured by default"),
    Dragoman("dragoman-bare", None, "the same, no stream of which is validated", features="bare"),
    Dragoman(
        "dragoman-all",
        None,
        "the same with a key and its limits, usage, prices and a line of log for each request",
        note="its log goes to a file",
        features="all",
    ),
    Dragoman("dragoman-aiohttp", "aiohttp", "this gateway with aiohttp's client as upstream transport"),
    *PEERS.values(),
)

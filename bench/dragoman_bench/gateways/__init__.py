"""The gateways that the rig can measure, by name."""

from __future__ import annotations

from ..wire import PATHS
from .direct import Direct
from .dragoman import Dragoman
from .gateway import ALL, CROSS, SAME, Direction, Gateway, Started, ridden
from .launch import StartError
from .nginx import Nginx
from .own import Own
from .peers import PEERS

__all__ = ("ALL", "CROSS", "GATEWAYS", "PATHS", "SAME", "Direction", "Gateway", "StartError", "Started", "ridden")


_TEXTS_ONLY = "its request to the upstream has the model and the texts only"
_NO_AGENT = {"agent": "it would send the texts only, and leave out tools, calls and results"}


def _registry(*gateways: Gateway) -> dict[str, Gateway]:
    return {gateway.name: gateway for gateway in gateways}


GATEWAYS: dict[str, Gateway] = _registry(
    Direct(),
    Own("relay", "relay", SAME, "relay", "a raw TCP splice in Python: reads nothing, checks nothing"),
    Own(
        "floor",
        "translate",
        CROSS,
        "floor",
        "a bare raw-socket translator in Python: text only, no checks, no limits, no errors",
        _TEXTS_ONLY,
        _NO_AGENT,
    ),
    Own("aiohttp-pass", "pass", SAME, "aiohttp_pass", "the usual untranslating aiohttp proxy on uvloop: the baseline"),
    Own(
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
    Dragoman("dragoman-aiohttp", "aiohttp", "this gateway with aiohttp's client as upstream transport"),
    *PEERS.values(),
)

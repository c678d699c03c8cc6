"""A simulated upstream that speaks Chat Completions, Messages and Responses, scripted by model name.

It imports nothing of the engine: as the demo's, the tests' and the benchmarks' upstream it is an independent judge.
`make_simulator()` gives the aiohttp application; `python -m dragoman_server.simulator` serves it.
"""

from __future__ import annotations

from dragoman_server.simulator.app import REQUESTS, STREAMS, Received, Streams, make_simulator
from dragoman_server.simulator.scenarios import SCRIPTS

__all__ = ("REQUESTS", "SCRIPTS", "STREAMS", "Received", "Streams", "make_simulator")

"""A simulated upstream with the Chat Completions, Messages and Responses APIs; the model name selects a script.

It imports nothing of the engine or the server, so that its replies are independent of the code that they test.
Start with `make_simulator` in `app.py`; `python -m dragoman_server.simulator` serves it.
"""

from __future__ import annotations

from dragoman_server.simulator.app import make_simulator
from dragoman_server.simulator.scenarios import SCRIPTS
from dragoman_server.simulator.state import REQUESTS, STREAMS, Received, RequestCheck, Streams

__all__ = ("REQUESTS", "SCRIPTS", "STREAMS", "Received", "RequestCheck", "Streams", "make_simulator")

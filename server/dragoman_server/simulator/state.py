"""The state of a simulator: its options, the recorded requests, and what it knows of earlier ones."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web
from multidict import CIMultiDict

from dragoman_server.simulator.background import BackgroundResponses
from dragoman_server.simulator.ledger import Ledger
from dragoman_server.simulator.modifiers import FirstRequests
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.stored_threads import Threads

_KNOWN_RESPONSES = 1024
_CUT_PLANS = 64


class RequestCheck(Protocol):
    """Checks requests as the real API of a dialect does. `counting` is True for a token-counting request."""

    def __call__(self, dialect: str, body: Json, headers: Mapping[str, str], *, counting: bool) -> object:
        """Raise RequestRejected if the real API would reject the request."""
        ...


@dataclass(slots=True)
class Received:
    """A recorded request; `status` is that of its response (0 while it is pending)."""

    method: str
    path: str
    query: dict[str, str]
    headers: CIMultiDict[str]
    body: Any
    """The parsed JSON, or None if there was no body or it did not parse."""
    status: int = 0


@dataclass(slots=True)
class Streams:
    """Counts of event streams."""

    open: int = 0
    started: int = 0
    ended: int = 0
    """Streams that reached their scripted end."""
    abandoned: int = 0
    """Streams whose client disconnected first."""

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a stream, which is sent within the `with`."""
        self.open += 1
        self.started += 1
        try:
            yield
        except BaseException:
            self.abandoned += 1
            raise
        else:
            self.ended += 1
        finally:
            self.open -= 1


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of `make_simulator`."""

    pace: float
    slow: float
    stall: float
    retry_after: float
    require_key: bool
    check: RequestCheck | None
    ledger: Ledger | None
    clock: Callable[[], float]


@dataclass(slots=True)
class State:
    """Records of earlier requests to one simulator."""

    request_numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    responses: deque[str] = field(default_factory=lambda: deque(maxlen=_KNOWN_RESPONSES))
    """Ids of stored responses, for `previous_response_id`."""
    cut_plans: deque[str] = field(default_factory=lambda: deque(maxlen=_CUT_PLANS))
    """Plans (`tool_plan.py`) whose first stream was cut."""
    first_requests: FirstRequests = field(default_factory=FirstRequests)
    threads: Threads = field(default_factory=Threads)
    background: BackgroundResponses = field(default_factory=BackgroundResponses)


REQUESTS: web.AppKey[deque[Received]] = web.AppKey("simulator_requests", deque)
STREAMS: web.AppKey[Streams] = web.AppKey("simulator_streams", Streams)
SETTINGS: web.AppKey[Settings] = web.AppKey("simulator_settings", Settings)
STATE: web.AppKey[State] = web.AppKey("simulator_state", State)

"""The parts of a gateway that all its requests share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dragoman import Dialect
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.config.schema import Config
from dragoman_server.observability.prompt_cache import PromptCacheDiagnostics
from dragoman_server.observability.receipts import Receipts
from dragoman_server.observability.rejections import Rejections
from dragoman_server.proxy.hooks import Hooks
from dragoman_server.proxy.instruments import Instruments
from dragoman_server.proxy.known_models import KnownModels
from dragoman_server.proxy.limits import counted
from dragoman_server.proxy.loaded_config import CurrentConfig, LoadedConfig
from dragoman_server.proxy.named_keys import NamedKeys
from dragoman_server.proxy.open_requests import OpenRequests
from dragoman_server.proxy.open_websockets import OpenWebSockets
from dragoman_server.proxy.request_body import RequestBodies
from dragoman_server.proxy.response_state import ResponseState
from dragoman_server.proxy.run_reports import RunReports
from dragoman_server.proxy.upstream_calls import UpstreamCalls
from dragoman_server.proxy.upstream_request import UpstreamRequests
from dragoman_server.receipt import Ending
from dragoman_server.routing.router import Router
from dragoman_server.routing.routing_state import RoutingState


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one gateway. `Gateway` makes, opens, reconfigures and closes them."""

    now: Callable[[], float]
    """A function that returns Unix seconds."""
    new_id: Callable[[], str]
    """A function that returns a new request id."""
    current: CurrentConfig
    """The configuration of new requests."""
    hooks: Hooks[Any]
    instruments: Instruments
    """Counters, monitors and exporters."""
    receipts: Receipts
    rejections: Rejections
    """The requests without receipts."""
    prompt_cache: PromptCacheDiagnostics
    routing: RoutingState
    """The state of the providers."""
    named_keys: NamedKeys
    responses: ResponseState
    """Stored responses, and compaction of conversations."""
    bodies: RequestBodies
    """Reads the bodies of requests."""
    upstream: UpstreamCalls
    """The transport."""
    upstream_requests: UpstreamRequests
    """Builds the requests to upstreams."""
    known_models: KnownModels
    open_requests: OpenRequests
    websockets: OpenWebSockets
    endings: tuple[Ending, ...]
    """The endings of every request: usage is booked and the hook `on_end` called, if either is needed; counters."""
    runs: RunReports
    """Reports the ends of responses that upstreams run."""

    @property
    def loaded(self) -> LoadedConfig:
        """The configuration of new requests, with the objects that are built from it."""
        return self.current.loaded

    @property
    def config(self) -> Config:
        """The configuration of new requests."""
        return self.current.loaded.config

    @property
    def router(self) -> Router:
        """The router of new requests."""
        return self.current.loaded.router

    async def count(self, key: KeyRecord | None, client: Dialect) -> None:
        """Count a request that is not sent upstream in the limits of its key. Raises DragomanError (429, 503).

        `client` is the dialect of the error.
        """
        if key is not None:
            async with counted(self.named_keys.accounts, key, self.new_id(), client, waits=False):
                pass

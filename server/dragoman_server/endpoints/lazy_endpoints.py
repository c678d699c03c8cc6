"""Endpoints that most gateways get no request for. Their modules are imported at the first one, as they take memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from aiohttp import web

from dragoman_server.proxy.gateway import Gateway

if TYPE_CHECKING:
    from dragoman_server.endpoints.captures import CaptureEndpoints
    from dragoman_server.endpoints.conversation_tree import ConversationTree
    from dragoman_server.endpoints.conversations import ConversationEndpoints
    from dragoman_server.endpoints.count_tokens import TokenCounts
    from dragoman_server.endpoints.diagnostics import Diagnostics
    from dragoman_server.endpoints.stored_responses import ResponsesEndpoints
    from dragoman_server.endpoints.websocket.endpoint import ResponsesWebSocket
    from dragoman_server.proxy.compaction import Compactions
    from dragoman_server.proxy.request_handler import Endpoint

T = TypeVar("T")


class LazyEndpoints(Generic[T]):
    """The endpoints of an object that `create` imports and returns. It is called once, at their first request."""

    def __init__(self, create: Callable[[], T]) -> None:
        self.create = cache(create)

    def endpoint(self, find: Callable[[T], Endpoint]) -> Endpoint:
        """Return a handler that passes each request to the one that `find` returns for the object."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await find(self.create())(request)

        return handle


_CONVERSATIONS: Final = "/v1/conversations"
_CONVERSATION: Final = "/v1/conversations/{id}"
CONVERSATIONS: Final[Sequence[tuple[str, str, Callable[[ConversationEndpoints], Endpoint]]]] = (
    ("POST", _CONVERSATIONS, lambda it: it.create),
    ("GET", _CONVERSATION, lambda it: it.get),
    ("POST", _CONVERSATION, lambda it: it.update),
    ("DELETE", _CONVERSATION, lambda it: it.delete),
    ("GET", f"{_CONVERSATION}/items", lambda it: it.list_items),
    ("POST", f"{_CONVERSATION}/items", lambda it: it.add_items),
    ("GET", f"{_CONVERSATION}/items/{{item_id}}", lambda it: it.get_item),
    ("DELETE", f"{_CONVERSATION}/items/{{item_id}}", lambda it: it.delete_item),
)
"""The methods and paths of the endpoints of conversations, and their handlers."""


def conversations(gateway: Gateway) -> LazyEndpoints[ConversationEndpoints]:
    """Return the endpoints of conversations."""

    def create() -> ConversationEndpoints:
        from dragoman_server.endpoints.conversations import ConversationEndpoints

        assert gateway.services.responses.stored is not None
        return ConversationEndpoints(gateway.services, gateway.services.responses.stored)

    return LazyEndpoints(create)


def conversation_tree(gateway: Gateway) -> LazyEndpoints[ConversationTree]:
    """Return the endpoint of a conversation's tree."""

    def create() -> ConversationTree:
        from dragoman_server.endpoints.conversation_tree import ConversationTree

        assert gateway.services.responses.stored is not None
        return ConversationTree(gateway.services, gateway.services.responses.stored)

    return LazyEndpoints(create)


def stored_responses(gateway: Gateway) -> LazyEndpoints[ResponsesEndpoints]:
    """Return the endpoints of stored responses, of the gateway's own and of upstreams'."""

    def create() -> ResponsesEndpoints:
        from dragoman_server.endpoints.stored_responses import ResponsesEndpoints

        return ResponsesEndpoints(gateway)

    return LazyEndpoints(create)


def captures(gateway: Gateway) -> LazyEndpoints[CaptureEndpoints]:
    """Return the endpoints of captures."""

    def create() -> CaptureEndpoints:
        from dragoman_server.endpoints.captures import CaptureEndpoints

        return CaptureEndpoints(gateway.services)

    return LazyEndpoints(create)


def diagnostics(gateway: Gateway) -> LazyEndpoints[Diagnostics]:
    """Return the endpoints of receipts, explanations and metrics."""

    def create() -> Diagnostics:
        from dragoman_server.endpoints.diagnostics import Diagnostics

        return Diagnostics(gateway)

    return LazyEndpoints(create)


def token_counts(gateway: Gateway) -> LazyEndpoints[TokenCounts]:
    """Return the endpoints that count tokens."""

    def create() -> TokenCounts:
        from dragoman_server.endpoints.count_tokens import TokenCounts

        return TokenCounts(gateway.services)

    return LazyEndpoints(create)


def compactions(gateway: Gateway) -> LazyEndpoints[Compactions]:
    """Return the endpoint that compacts conversations."""
    return LazyEndpoints(lambda: gateway.services.responses.compactions)


def websocket(gateway: Gateway) -> LazyEndpoints[ResponsesWebSocket]:
    """Return the endpoint for WebSocket connections."""

    def create() -> ResponsesWebSocket:
        from dragoman_server.endpoints.websocket.endpoint import ResponsesWebSocket

        return ResponsesWebSocket(gateway)

    return LazyEndpoints(create)

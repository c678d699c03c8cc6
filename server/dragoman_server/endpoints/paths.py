"""The paths of a gateway, and the endpoint at each.

The endpoints of `TABLE` are imported at the first request to one of their paths, as most gateways get none for them and
the modules take 5 MB together.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from dragoman.gateway import CLIENT_DIALECTS, COUNT_ENDPOINTS, STORED_DIALECT
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.request_body import handle_expect

Row = tuple[str, str, str]
"""The methods of a path; the path; and `module:Class.method` of this package, where the class takes the gateway."""

FORMS: Final = ("/v1/{}", "/v1/{}/", "/v1//{}", "//v1/{}")
"""Forms of a path without a slash at its beginning: plain, with a final slash, and those of clients whose base URL ends
in a slash.
"""
_CONVERSATION: Final = "/v1/conversations/{id}"
_ITEM: Final = f"{_CONVERSATION}/items/{{item_id}}"
TREE: Final[Row] = ("GET", "/v1/dragoman/conversations/{id}/tree", "conversation_tree:ConversationTree.get")
"""An endpoint of a gateway that stores responses."""
COUNT_PATHS: Final = tuple(count.path for client, count in COUNT_ENDPOINTS.items() if client in CLIENT_DIALECTS)
"""The paths of the endpoints that count tokens."""
TABLE: Final[tuple[Row, ...]] = (
    *(("POST", path, "count_tokens:TokenCounts.post") for path in COUNT_PATHS),
    ("POST", "responses/compact", "compact:CompactEndpoint.post"),
    ("GET", "/v1/responses/{id}", "stored_responses:ResponsesEndpoints.get"),
    ("DELETE", "/v1/responses/{id}", "stored_responses:ResponsesEndpoints.delete"),
    ("POST", "/v1/responses/{id}/cancel", "stored_responses:ResponsesEndpoints.cancel"),
    ("GET", "/v1/responses/{id}/input_items", "stored_responses:ResponsesEndpoints.input_items"),
    ("*", "/v1/responses/{rest:.+}", "not_implemented:NotImplementedEndpoints.get"),
    ("POST", "/v1/conversations", "conversations:ConversationEndpoints.create"),
    ("GET", _CONVERSATION, "conversations:ConversationEndpoints.get"),
    ("POST", _CONVERSATION, "conversations:ConversationEndpoints.update"),
    ("DELETE", _CONVERSATION, "conversations:ConversationEndpoints.delete"),
    ("GET", f"{_CONVERSATION}/items", "conversations:ConversationEndpoints.list_items"),
    ("POST", f"{_CONVERSATION}/items", "conversations:ConversationEndpoints.add_items"),
    ("GET", _ITEM, "conversations:ConversationEndpoints.get_item"),
    ("DELETE", _ITEM, "conversations:ConversationEndpoints.delete_item"),
    ("*", "/v1/conversations", "not_implemented:NotImplementedEndpoints.get"),
    ("*", "/v1/conversations/{rest:.+}", "not_implemented:NotImplementedEndpoints.get"),
    ("GET", STORED_DIALECT.path, "websocket.endpoint:ResponsesWebSocket.get"),
    ("POST", "/v1/dragoman/explain", "diagnostics:Diagnostics.explain"),
    ("GET HEAD", "/v1/dragoman/receipts", "diagnostics:Diagnostics.receipts"),
    ("GET HEAD", "/v1/dragoman/receipts/{request_id}", "diagnostics:Diagnostics.receipt"),
    ("GET HEAD", "/v1/dragoman/status", "hosts.status:Status.get"),
    ("GET HEAD", "/v1/dragoman/captures", "captures:CaptureEndpoints.list"),
    ("GET HEAD", "/v1/dragoman/captures/{capture_id}", "captures:CaptureEndpoints.get"),
    ("GET HEAD", "models", "model_list:ModelList.get"),
    ("GET HEAD", "/v1/models/{name:.+}", "model_list:ModelList.get"),
    ("GET HEAD", "/ready", "readiness:Readiness.get"),
    ("GET HEAD", "/metrics", "diagnostics:Diagnostics.metrics"),
)
"""The endpoints of every gateway."""


class LazyEndpoints:
    """The objects of one gateway that have endpoints. Each is imported and created when it is first used."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._objects: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """Return the object of a class, which is named as `module:Class`."""
        found = self._objects.get(name)
        if found is None:
            module, _, cls = name.partition(":")
            create = getattr(import_module(f"dragoman_server.endpoints.{module}"), cls)
            found = self._objects[name] = create(self._gateway)
        return found

    def endpoint(self, name: str) -> Handler:
        """Return a handler that passes each request to a method, which is named as `module:Class.method`."""
        owner, _, method = name.rpartition(".")

        async def handle(request: web.Request) -> web.StreamResponse:
            response: web.StreamResponse = await getattr(self.get(owner), method)(request)
            return response

        return handle


def add_paths(app: web.Application, prefix: str, gateway: Gateway) -> LazyEndpoints:
    """Add the endpoints to `app` below `prefix`, and return those of `TABLE`."""

    def add(methods: str, path: str, endpoint: Handler) -> None:
        for each in (path,) if path.startswith("/") else [form.format(path) for form in FORMS]:
            for method in methods.split():
                app.router.add_route(method, prefix + each, endpoint, expect_handler=handle_expect)

    for path, endpoint in {**_streams(gateway), **gateway.forwarded}.items():
        add("POST", path, endpoint)
    lazy = LazyEndpoints(gateway)
    for methods, path, name in (*((TREE,) if gateway.services.responses.stores else ()), *TABLE):
        add(methods, path, lazy.endpoint(name))
    add("GET HEAD", "/health", gateway.health)
    return lazy


def _streams(gateway: Gateway) -> dict[str, Handler]:
    """Return the endpoints that reply with streams, by path. If `server.resume` is on, clients can resume these."""
    endpoints = gateway.endpoints
    if gateway.resumable is not None:
        endpoints = {client: gateway.resumable.endpoint(each, client) for client, each in endpoints.items()}
    return {client.path: endpoint for client, endpoint in endpoints.items()}

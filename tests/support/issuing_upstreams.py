"""Responses upstreams that store what they answer, each for itself, as the vendors' servers do."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from support.responses_samples import message, numbered, response, text_events
from support.samples import dump


class IssuingUpstream:
    """An upstream whose ids begin with its name: it knows its own responses and conversations only.

    `asked` has what each request continued, `keys` the key of each. The next requests get the statuses in `fails`. With
    `per_key`, a response is known only to the key that created it. With `whole`, streams are answered with JSON.
    """

    def __init__(self, name: str, *, per_key: bool = False, whole: bool = False) -> None:
        self.name = name
        self.asked: list[Any] = []
        self.keys: list[str] = []
        self.counted: list[Any] = []
        self.fails: list[int] = []
        self._per_key = per_key
        self._whole = whole
        self._known: set[tuple[str, str]] = {("", f"conv_{name}")}
        self.app = web.Application()
        self.app.router.add_post("/v1/responses", self._create)
        self.app.router.add_post("/v1/responses/input_tokens", self._count)
        one = "/v1/responses/{id}"
        self.app.router.add_get(one, self._about)
        self.app.router.add_delete(one, self._about)
        self.app.router.add_post(f"{one}/cancel", self._about)
        self.app.router.add_get(f"{one}/input_items", self._about)
        self.app.router.add_post("/v1/conversations", self._create_conversation)
        for path in ("", "/items", "/items/{item_id}"):
            self.app.router.add_route("*", f"/v1/conversations/{{id}}{path}", self._conversation)
        self.conversations: dict[str, dict[str, Any]] = {}
        """Metadata of those that were created here, by id."""
        self.requests: list[tuple[str, str, str]] = []
        """Of those about responses: method, path with query, and key."""

    async def _create(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        continued = body.get("previous_response_id") or body.get("conversation")
        self.asked.append(continued)
        self.keys.append(key)
        if self.fails:
            return _error(self.fails.pop(0), "server_error", "try again")
        if not self._knows(continued, key):
            return _not_found(continued)
        made = f"resp_{self.name}_{len(self.asked)}"
        if body.get("store") is not False:
            self._known.add((key if self._per_key else "", made))
        if not body.get("stream") or self._whole:
            return web.json_response(response("completed", [message("Hi")], id=made))
        frames = b"".join(numbered(*text_events(["H", "i"]))).replace(b'"resp_1"', dump(made))
        return web.Response(body=frames, content_type="text/event-stream")

    async def _about(self, request: web.Request) -> web.Response:
        """Read, cancel or delete a response, as the vendor does."""
        response_id = request.match_info["id"]
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.requests.append((request.method, request.raw_path, key))
        if self.fails:
            return _error(self.fails.pop(0), "server_error", f"try again, {key}")
        own = (key if self._per_key else "", response_id)
        if own not in self._known:
            error = {"message": f"Response with id '{response_id}' not found.", "type": "invalid_request_error"}
            return web.json_response({"error": {**error, "param": "id", "code": None}}, status=404)
        if request.method == "DELETE":
            self._known.remove(own)
            return web.json_response({"id": response_id, "object": "response", "deleted": True})
        if request.path.endswith("/input_items"):
            items = [{**message("Hello"), "id": "msg_1", "role": "user"}]
            listed = {"object": "list", "data": items, "first_id": "msg_1", "last_id": "msg_1", "has_more": False}
            return web.json_response(listed)
        if request.query.get("stream") == "true":
            frames = b"".join(numbered(*text_events(["H", "i"]))).replace(b'"resp_1"', dump(response_id))
            return web.Response(body=frames, content_type="text/event-stream")
        status = "cancelled" if request.path.endswith("/cancel") else "completed"
        return web.json_response(response(status, [message("Hi")], id=response_id))

    async def _create_conversation(self, request: web.Request) -> web.Response:
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.requests.append((request.method, request.raw_path, key))
        if self.fails:
            return _error(self.fails.pop(0), "server_error", f"try again, {key}")
        body = await request.json() if request.can_read_body else {}
        made = f"conv_{self.name}_{len(self.conversations)}"
        self.conversations[made] = body.get("metadata") or {}
        self._known.add((key if self._per_key else "", made))
        return web.json_response(self._shown(made))

    async def _conversation(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if request.method != "GET" or name in self.conversations:
            self.requests.append((request.method, request.raw_path, key))
        own = (key if self._per_key and name in self.conversations else "", name)
        if own not in self._known:
            return _error(404, "not_found", f"Conversation with id '{name}' not found.")
        items = [{**message("Hello"), "id": "msg_1", "role": "user"}]
        listed = {"object": "list", "data": items, "first_id": "msg_1", "last_id": "msg_1", "has_more": False}
        if "item_id" in request.match_info:
            return web.json_response(items[0] if request.method == "GET" else self._shown(name))
        if request.path.endswith("/items"):
            return web.json_response(listed)
        if request.method == "DELETE":
            self._known.remove(own)
            return web.json_response({"id": name, "object": "conversation.deleted", "deleted": True})
        if request.method == "POST":
            self.conversations[name] = (await request.json())["metadata"]
        return web.json_response(self._shown(name))

    def _shown(self, name: str) -> dict[str, Any]:
        metadata = self.conversations.get(name, {})
        return {"id": name, "object": "conversation", "created_at": 1, "metadata": metadata}

    async def _count(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.counted.append(continued := body.get("previous_response_id"))
        if not self._knows(continued, ""):
            return _not_found(continued)
        return web.json_response({"object": "response.input_tokens", "input_tokens": 7})

    def _knows(self, continued: Any, key: str) -> bool:
        name = continued["id"] if isinstance(continued, dict) else continued
        kept = name in self.conversations or str(name).startswith("resp_")
        own = key if self._per_key and kept else ""
        return name is None or (own, name) in self._known


def _not_found(continued: Any) -> web.Response:
    return _error(400, "previous_response_not_found", f"Previous response with id '{continued}' not found.")


def _error(status: int, code: str, text: str) -> web.Response:
    error = {"message": text, "type": "invalid_request_error", "param": "previous_response_id", "code": code}
    return web.json_response({"error": error}, status=status)

"""Stored conversations of the Messages API: `thread: {"type": "create"}`, then `continue` from a reply."""

from __future__ import annotations

from collections import OrderedDict

from dragoman_server.simulator.error_replies import THREAD_NOT_FOUND, RequestRejected
from dragoman_server.simulator.parse_request import Json

_KEPT = 256
_CREATE_ONLY = ("system", "tools")
"""Fields stored with a thread; a request that continues it must not repeat them."""


class Threads:
    """The most recent conversations, by the id of their last reply."""

    def __init__(self) -> None:
        self._threads: OrderedDict[str, Json] = OrderedDict()

    def resume(self, body: Json) -> Json:
        """Return the request with the thread's history prepended. Raises RequestRejected for an unknown thread."""
        thread = body.get("thread")
        if not isinstance(thread, dict) or thread.get("type") != "continue":
            return body
        before = self._threads.get(str(thread.get("previous_message_id")))
        if before is None:
            raise RequestRejected("thread: no such thread", code=THREAD_NOT_FOUND, status=404)
        if repeated := next((key for key in _CREATE_ONLY if key in body), None):
            raise RequestRejected(f"{repeated}: is taken from the thread")
        return {**before, **body, "messages": [*before["messages"], *(body.get("messages") or [])]}

    def store(self, body: Json, reply: Json) -> None:
        """Store a resumed request and its reply, if the request has a thread."""
        if body.get("thread") is None or reply.get("type") != "message":
            return
        answered = {"role": "assistant", "content": reply["content"]}
        kept = {key: body[key] for key in _CREATE_ONLY if key in body}
        self._threads[reply["id"]] = {**kept, "messages": [*body["messages"], answered]}
        while len(self._threads) > _KEPT:
            self._threads.popitem(last=False)

"""Conversations that Messages keeps for its clients: `thread: {"type": "create"}`, then `continue` from a reply."""

from __future__ import annotations

from collections import OrderedDict

from dragoman_server.simulator.error_replies import THREAD_NOT_FOUND, Refused
from dragoman_server.simulator.parse_request import Json

_KEPT = 256
_CREATE_ONLY = ("system", "tools")
"""What a thread keeps, so that a request that continues it may not repeat it."""


class Threads:
    """The newest conversations by the id of their last reply."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Json] = OrderedDict()

    def resumed(self, body: Json) -> Json:
        """The request with all that came before it. Raises `Refused` if its thread is not here."""
        thread = body.get("thread")
        if not isinstance(thread, dict) or thread.get("type") != "continue":
            return body
        before = self._kept.get(str(thread.get("previous_message_id")))
        if before is None:
            raise Refused("thread: no such thread", code=THREAD_NOT_FOUND, status=404)
        if repeated := next((key for key in _CREATE_ONLY if key in body), None):
            raise Refused(f"{repeated}: is taken from the thread")
        return {**before, **body, "messages": [*before["messages"], *(body.get("messages") or [])]}

    def keep(self, body: Json, reply: Json) -> None:
        """Remember a resumed request and the message that answered it, if it asks for a thread."""
        if body.get("thread") is None or reply.get("type") != "message":
            return
        answered = {"role": "assistant", "content": reply["content"]}
        kept = {key: body[key] for key in _CREATE_ONLY if key in body}
        self._kept[reply["id"]] = {**kept, "messages": [*body["messages"], answered]}
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

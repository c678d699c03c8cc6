"""The Response objects of a response that runs in the background, other than those that its stream has."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.response_object import ResponseObject
from dragoman.reply_context import ReplyContext


def queued_response(context: ReplyContext) -> Json:
    """Return the object before the upstream has answered."""
    return {**ResponseObject(context, "", "", None).started(), "status": "queued"}


def cancelled_response(last: Json) -> Json:
    """Return the object of a response that its client has cancelled; `last` is its last state."""
    return {**last, "status": "cancelled"}


def failed_response(last: Json, message: str) -> Json:
    """Return the object of a response that has failed before its stream; `last` is its last state."""
    return {**last, "status": "failed", "error": {"code": "server_error", "message": message}}


def terminal_event(response: Json, number: int) -> Json:
    """Return the event that ends the stream of a response, by its status. One that was cancelled is incomplete."""
    status = response["status"] if response["status"] in ("completed", "failed") else "incomplete"
    return {"type": f"response.{status}", "sequence_number": number, "response": response}


def lagging_event(number: int, why: str = "events were dropped because they were read too slowly") -> Json:
    """Return the event that ends the stream of a client that does not get all events, and the reason."""
    message = f"{why}; read the response without `stream`"
    return {"type": "error", "sequence_number": number, "code": "server_error", "message": message, "param": None}

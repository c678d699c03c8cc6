"""The fields of a Responses request that refer to stored responses, and the responses that are stored for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.errors.redact import quote
from dragoman.dialects.responses.reply.response_object import stored_id
from dragoman.dialects.shared.json_fields import optional
from dragoman.errors import ClientRequestError, DragomanError, Failure, FailureKind, FailureOrigin
from dragoman.losses import LossCode
from dragoman.threads.node import Node
from dragoman.wire.json_codec import dumps, loads

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_ITEM = re.compile(r"input\[(\d+)\]")
_OUTPUT = "_output"
_OPAQUE = ("item_reference", "compaction", "compaction_summary")
"""Types of items that may stand for a call. A reference may be without a type."""
NOT_FOUND = "previous_response_not_found"
"""The API's error code for a `previous_response_id` that is not stored."""


@dataclass(slots=True)
class StoredRequest:
    """The fields of one request that concern the store.

    `previous` is its `previous_response_id`, `conversation` the id of its conversation, or None. `store` is True if the
    response is to be stored, which is the API's default. `input` is the JSON array of its own input items.
    """

    previous: str | None = field(repr=False)
    conversation: str | None = field(repr=False)
    store: bool
    input: bytes = field(repr=False)

    @classmethod
    def read(cls, payload: Json) -> StoredRequest | None:
        """Return the fields of a request body, or None if the store is not needed. Raises ClientRequestError."""
        previous = optional(payload, "previous_response_id", str)
        conversation = _conversation(payload)
        store = optional(payload, "store", bool)
        if previous is None and conversation is None and store is False:
            return None
        if previous is not None:
            if previous.startswith("conv_"):
                message = "names a conversation; send it as `conversation`"
                raise ClientRequestError(("previous_response_id",), message)
            if not is_response_id(previous):
                expected = "expected an id of letters, digits, underscores and dashes"
                raise ClientRequestError(("previous_response_id",), expected)
            if conversation is not None:
                message = "cannot be used together with `conversation`"
                raise ClientRequestError(("previous_response_id",), message)
        # Serialized now: reading a request may complete it in place.
        return cls(previous, conversation, store is not False, dumps(own_items(payload)))

    def after(self, previous: str, items: Sequence[Any]) -> StoredRequest:
        """Return the request as a continuation of `previous`, with these items of its own.

        That is for a request whose input has the whole conversation.
        """
        return replace(self, previous=previous, input=dumps(items))

    def begin_with(self, item: Json) -> None:
        """Let its own input begin with a further item."""
        self.input = dumps([item, *loads(self.input)])

    @property
    def parent(self) -> str | None:
        """The node below which the response is stored."""
        return self.previous or self.conversation

    @property
    def field(self) -> str:
        """The field that names what is continued."""
        return "conversation" if self.conversation is not None else "previous_response_id"

    def reply_fields(self, *, store: bool) -> Json:
        """Return the fields of the response that state what is stored."""
        fields: Json = {"previous_response_id": self.previous, "store": store}
        if self.conversation is not None:
            fields["conversation"] = {"id": self.conversation}
        return fields


def _conversation(payload: Json) -> str | None:
    """Return the id in the field `conversation`, which is a string or an object. Raises ClientRequestError."""
    given: Any = payload.get("conversation")
    if given is None:
        return None
    node_id = given.get("id") if type(given) is dict else given
    if type(node_id) is not str or not _ID.match(node_id):
        raise ClientRequestError("conversation", "expected the id of a conversation, or an object with its `id`")
    return node_id


def own_items(payload: Json) -> list[Any]:
    """Return the items of a request's `input`."""
    given = payload.get("input")
    if type(given) is str:
        return [{"type": "message", "role": "user", "content": given}]
    return given if type(given) is list else []


def with_history(payload: Json, items: Sequence[Any]) -> Json:
    """Return a request body whose input begins with these items; without `previous_response_id` and `conversation`.

    Everything else is the request's own: instructions and tools of earlier responses are not repeated, as in the API.
    """
    body = {key: value for key, value in payload.items() if key not in ("previous_response_id", "conversation")}
    own = payload.get("input")
    if own is None or type(own) in (str, list):  # others are rejected when the request is read
        body["input"] = [*items, *own_items(payload)]
    return body


def check_outputs(payload: Json, start: int) -> None:
    """Raise ClientRequestError if an item of the `input`, from `start` on, is the output of a call that no item is.

    It is the API's error for a request that continues a response: the server has the history, so
    the call was not left out of it. A history with a compacted part, or with a reference, may have the call there.
    """
    items = payload.get("input")
    if type(items) is not list:
        return
    missing: dict[str, str] = {}
    for item in items[start:]:
        if type(item) is dict and type(kind := item.get("type")) is str and kind.endswith(_OUTPUT):
            call_id = item.get("call_id")
            if type(call_id) is str:
                missing.setdefault(call_id, kind)
    if not missing:
        return
    for item in reversed(items):
        if type(item) is not dict:
            continue
        kind, call_id = item.get("type"), item.get("call_id")
        if kind in _OPAQUE or (kind is None and "role" not in item):
            return
        if type(call_id) is str and type(kind) is str and not kind.endswith(_OUTPUT):
            missing.pop(call_id, None)
            if not missing:
                return
    call_id, kind = next(iter(missing.items()))
    label = kind.removesuffix(_OUTPUT).replace("_", " ")
    error = ClientRequestError(("input",), "")
    error.failure.message = f"No tool call found for {label} output with call_id {quote(call_id)}."
    raise error


def new_node(
    owner: str, request_id: str, created: int, request: StoredRequest, reply: bytes, losses: Mapping[LossCode, int]
) -> Node:
    """Return the node of a finished response. `request_id` is that of its translation, `reply` its JSON."""
    notes = dumps({"losses": {str(code): count for code, count in losses.items()}}) if losses else b""
    return Node(owner, stored_id(request_id), request.parent, created, request.input, reply, notes)


def response_id(request_id: str) -> str:
    """Return the id of the response to a request. `request_id` is the gateway's."""
    return stored_id(request_id)


def is_response_id(text: str) -> bool:
    """True if a text has the form of a response's id. Those of conversations are others."""
    return _ID.match(text) is not None and not text.startswith("conv")


def deleted_response(node_id: str) -> Json:
    """Return the object that confirms a deletion."""
    return {"id": node_id, "object": "response", "deleted": True}


def previous_not_found(previous: str) -> ClientRequestError:
    """Return the API's error for a `previous_response_id` that is not stored, or not for this client."""
    error = ClientRequestError(("previous_response_id",), "", code=NOT_FOUND)
    error.failure.message = f"Previous response with id '{previous}' not found."
    return error


def response_not_found(node_id: str, advice: str = "") -> DragomanError:
    """Return the API's error for a response that is not stored, or not for this client. `advice` follows the text."""
    shown = node_id if is_response_id(node_id) else quote(node_id)
    message = f"Response with id '{shown}' not found." + (f" {advice}" if advice else "")
    return DragomanError(Failure(FailureKind.NOT_FOUND, message, 404, origin=FailureOrigin.CLIENT))


def relocate(error: ClientRequestError, request: StoredRequest, items: int) -> None:
    """Change an error about a request with history, so that it names the client's own field.

    `items` is the number of items before the client's own. An error in one of those names the field of
    the request that they are from.
    """
    failure = error.failure
    param = failure.param or ""
    place = _ITEM.match(param)
    if place is None:
        return
    number = int(place[1])
    if number >= items:
        own = f"input[{number - items}]{param[place.end() :]}"
        failure.message = failure.message.replace(param, own, 1)
        failure.param = own
    else:
        failure.message = f"{request.field}: the conversation before {request.parent}: {failure.message}"
        failure.param = request.field

"""The bodies of the requests that create and change a conversation, and the nodes that are stored for them."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.responses.request.read import read_request
from dragoman.errors import ClientRequestError
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.losses import Losses
from dragoman.threads.conversation import Change, ConversationHead, change_id, conversation_id
from dragoman.threads.node import Node
from dragoman.wire.json_codec import dumps, loads

ITEMS_MAX: Final = 20
"""Most items that the API adds at a time."""
_PAIRS_MAX, _NAME_MAX, _VALUE_MAX = 16, 64, 512


def conversation_node(owner: str, node_id: str, created: int, payload: Json) -> Node:
    """Return the root of a new conversation. Raises ClientRequestError."""
    items, metadata = payload.get("items"), payload.get("metadata")
    input_items = b"[]" if items is None else _read_items(items)
    reply = {"object": Change.CREATED, "metadata": {} if metadata is None else _read_metadata(metadata), "output": []}
    return Node(owner, node_id, None, created, input_items, dumps(reply))


def conversation_nodes(owner: str, request_id: str, created: int, payload: Json) -> list[Node]:
    """Return the root of the conversation that a request creates, and the change that adds its items, if it has any.

    The root has no items, so the metadata is read without them. Raises ClientRequestError.
    """
    root = conversation_node(owner, conversation_id(request_id), created, {**payload, "items": None})
    if payload.get("items") in (None, []):
        return [root]
    head = ConversationHead(root.id, created, {})
    return [root, added_items(owner, head, change_id(request_id, Change.ADDED), created, payload)]


def added_items(owner: str, conversation: ConversationHead, node_id: str, created: int, payload: Json) -> Node:
    """Return the change that adds items. Raises ClientRequestError."""
    if payload.get("items") is None:
        raise ClientRequestError("items", "is required")
    items = _read_items(payload["items"])
    return _change(owner, conversation, node_id, created, items, {"object": Change.ADDED})


def deleted_item(owner: str, conversation: ConversationHead, node_id: str, created: int, item_id: str) -> Node:
    """Return the change that deletes an item."""
    return _change(owner, conversation, node_id, created, b"[]", {"object": Change.DELETED, "item_id": item_id})


def new_metadata(owner: str, conversation: ConversationHead, node_id: str, created: int, payload: Json) -> Node:
    """Return the change that replaces the metadata. Raises ClientRequestError."""
    metadata = payload.get("metadata")
    reply = {"object": Change.UPDATED, "metadata": {} if metadata is None else _read_metadata(metadata)}
    return _change(owner, conversation, node_id, created, b"[]", reply)


def _change(owner: str, conversation: ConversationHead, node_id: str, created: int, items: bytes, reply: Json) -> Node:
    return Node(owner, node_id, conversation.id, created, items, dumps({**reply, "output": []}))


def _read_items(items: Any) -> bytes:
    """Return the items as JSON. They must be what a request can have, so that none fails because of them later."""
    if type(items) is not list:
        raise ClientRequestError("items", "expected an array of items")
    if len(items) > ITEMS_MAX:
        raise ClientRequestError("items", f"has {len(items)} items; at most {ITEMS_MAX} can be added at a time")
    written = dumps(items)
    if items:
        try:
            # A copy: reading a request may complete it in place.
            read_request({"model": "", "input": loads(written)}, Losses(), DEFAULT_KNOBS)
        except ClientRequestError as error:
            failure = error.failure
            failure.message = failure.message.replace("input", "items", 1)
            failure.param = failure.param and failure.param.replace("input", "items", 1)
            raise
    return written


def _read_metadata(metadata: Any) -> Json:
    """Return metadata within the limits of the API. Raises ClientRequestError."""
    if type(metadata) is not dict:
        raise ClientRequestError("metadata", "expected an object")
    if len(metadata) > _PAIRS_MAX:
        raise ClientRequestError("metadata", f"has {len(metadata)} pairs; at most {_PAIRS_MAX} are possible")
    for name, value in metadata.items():
        if len(name) > _NAME_MAX:
            raise ClientRequestError(
                "metadata", f"has a name of {len(name)} characters; at most {_NAME_MAX} are possible"
            )
        if type(value) is not str or len(value) > _VALUE_MAX:
            raise ClientRequestError(("metadata", name), f"expected a string of up to {_VALUE_MAX} characters")
    return metadata

"""A conversation of the Responses API: its items and its metadata, which requests with `conversation` continue.

It is a tree of two levels. The root is the conversation as it was created. Each node below it is a change: a response
with its input, items that were added, an item that was deleted, or new metadata. Nodes never change and need no lock,
so changes at the same time are all kept, in the order in which the store got them. Responses that continue one of these
by `previous_response_id` are further down: branches, which are no part of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from dragoman.canonical.request import Json
from dragoman.dialects.errors.redact import quote
from dragoman.errors import DragomanError, Failure, FailureKind, FailureOrigin
from dragoman.threads.item_list import input_items, shown_input
from dragoman.threads.node import Node, Outline, history
from dragoman.wire.json_codec import loads

N = TypeVar("N", Node, Outline)
_PREFIX: Final = "conv_"
_CHANGE_PREFIX: Final = "convchange_"


class Change(StrEnum):
    """The kinds of changes, in `object` of the node's reply."""

    CREATED = "conversation"
    ADDED = "conversation.items"
    DELETED = "conversation.item.deleted"
    UPDATED = "conversation.updated"


_PREFIXES: Final[dict[str, str]] = {
    Change.ADDED: "convitems_",
    Change.DELETED: "convdeletion_",
    Change.UPDATED: "convmetadata_",
}
"""The beginning of a change's id, by which its kind is known before it is read. Earlier ones are `convchange_`."""
MAY_DELETE: Final = (_PREFIXES[Change.DELETED], _CHANGE_PREFIX)
MAY_UPDATE: Final = (_PREFIXES[Change.UPDATED], _CHANGE_PREFIX, _PREFIX)
WITHOUT_ITEMS: Final = (_PREFIXES[Change.DELETED], _PREFIXES[Change.UPDATED])
"""The beginnings of the ids of nodes that may delete an item, may have the metadata, and have no items."""


class ConversationItem(NamedTuple):
    """An item as clients read it, and as upstreams get it."""

    shown: Json
    sent: Any


@dataclass(slots=True)
class ConversationHead:
    """A conversation without its items. `nodes` is the number of its changes, its creation included."""

    id: str
    created: int
    metadata: Json = field(repr=False)
    nodes: int = 1

    def as_json(self) -> Json:
        """Return the API's object."""
        return {"id": self.id, "object": "conversation", "created_at": self.created, "metadata": self.metadata}


class Conversation(ConversationHead):
    """The state of a conversation after these nodes: its root and changes, oldest first (`members`)."""

    __slots__ = ("_items", "_repeated")

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__(nodes[0].id, nodes[0].created, {}, len(nodes))
        self._items: dict[str, ConversationItem] = {}
        self._repeated: dict[str, int] = {}
        for node in nodes:
            self._apply(node)

    def _apply(self, node: Node) -> None:
        reply: Json = loads(node.reply)
        kind = reply["object"]
        if kind == Change.DELETED:
            self._items.pop(reply["item_id"], None)
            return
        if kind in (Change.UPDATED, Change.CREATED):
            self.metadata = reply["metadata"]
        for shown, sent in zip(shown_input(node), node.input_items(), strict=True):
            self._add(shown, sent)
        for item in reply["output"]:
            self._add(item, item)

    def _add(self, shown: Json, sent: Any) -> None:
        item_id = base = str(shown["id"])
        number = self._repeated.get(base, 0)
        while item_id in self._items:  # upstreams' ids can repeat
            number += 1
            item_id = f"{base}_{number}"
        if number:
            self._repeated[base] = number  # the next one of this id begins here, so all of them take linear time
        self._items[item_id] = ConversationItem({**shown, "id": item_id}, sent)

    def after(self, change: Node) -> Conversation:
        """Apply a change, and return the conversation."""
        self.nodes += 1
        self._apply(change)
        return self

    def shown(self) -> list[Json]:
        """Return the items as clients read them, oldest first."""
        return [item.shown for item in self._items.values()]

    def history(self) -> list[Any]:
        """Return the items as upstreams get them, oldest first."""
        return [item.sent for item in self._items.values()]

    def item(self, item_id: str) -> Json:
        """Return an item. Raises DragomanError (404)."""
        found = self._items.get(item_id)
        if found is None:
            raise item_not_found(item_id)
        return found.shown


def members(tree: Sequence[N], last: str | None = None) -> list[N]:
    """Return the nodes of a tree that are the conversation, oldest first: up to the node `last`, or all."""
    root = tree[0].id
    found: list[N] = []
    for node in tree:
        if node.id == root or node.parent == root:
            found.append(node)
        if node.id == last:
            break
    return found


def path_history(path: Sequence[Node], tree: Sequence[Node]) -> list[Any]:
    """Return the items of a path that begins in a conversation, of whose `tree` it is a part."""
    if len(path) == 1:
        return Conversation(members(tree)).history()
    return Conversation(members(tree, path[1].id)).history() + history(path[2:])


def path_items(path: Sequence[Node], tree: Sequence[Node]) -> list[Json]:
    """Return the items that the last response of such a path was made from, as clients read them."""
    if len(path) == 2:
        return Conversation(members(tree, path[1].id)[:-1]).shown() + shown_input(path[1])
    return Conversation(members(tree, path[1].id)).shown() + input_items(path[2:])


def conversation_id(request_id: str) -> str:
    """Return the id of the conversation that a request creates. `request_id` is the gateway's."""
    return _PREFIX + request_id.removeprefix("req_")


def change_id(request_id: str, kind: str = "") -> str:
    """Return the id of the change of this kind that a request makes."""
    return _PREFIXES.get(kind, _CHANGE_PREFIX) + request_id.removeprefix("req_")


def is_conversation(node_id: str) -> bool:
    """True for the id of a conversation."""
    return node_id.startswith(_PREFIX)


def deleted_conversation(node_id: str) -> Json:
    """Return the object that confirms a deletion."""
    return {"id": node_id, "object": "conversation.deleted", "deleted": True}


def conversation_not_found(node_id: str, advice: str = "") -> DragomanError:
    """Return the API's error for a conversation that is not stored, or not for this client.

    `advice` follows the text.
    """
    return _not_found("Conversation", node_id, advice)


def item_not_found(item_id: str) -> DragomanError:
    """Return the error for an item that the conversation does not have."""
    return _not_found("Item", item_id)


def _not_found(kind: str, node_id: str, advice: str = "") -> DragomanError:
    message = f"{kind} with id '{quote(node_id)}' not found." + (f" {advice}" if advice else "")
    return DragomanError(Failure(FailureKind.NOT_FOUND, message, 404, origin=FailureOrigin.CLIENT))

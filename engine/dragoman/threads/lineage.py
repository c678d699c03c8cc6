"""The tree of a conversation with the tokens and the losses of each response, as JSON and as a Mermaid diagram.

It has ids, names of models, and counts, and no text of a conversation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.threads.conversation import is_conversation
from dragoman.threads.node import Node, Outline
from dragoman.wire.json_codec import loads

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9 ._:/@+-]")
_LABEL_MAX: Final = 60
_TOKENS: Final = ("input_tokens", "output_tokens")


class Lineage:
    """The tree of one conversation, made of its nodes, oldest first; `tree` are all nodes, or their outlines.

    The `parent` of a node is the one whose items its own come after, which may have been deleted. In a conversation of
    the API, changes follow each other, and responses that continue one of them by `previous_response_id` are branches.
    """

    def __init__(self, tree: Sequence[Node] | Sequence[Outline]) -> None:
        parents = (each.parent for each in tree if each.parent and is_conversation(each.parent))
        self._root = self._last = next(parents, tree[0].id)
        self._number = len(tree)
        self._rows: list[Json] = []

    def add(self, nodes: Sequence[Node]) -> None:
        """Add the next nodes. They are parsed, and not kept."""
        for node in nodes:
            parent = node.parent
            if is_conversation(self._root) and parent == self._root:
                parent, self._last = self._last, node.id
            self._rows.append(_row(node, parent))

    def as_json(self) -> Json:
        """Return the tree of the nodes that were added. `has_more` is True if there are more."""
        losses: Counter[str] = Counter()
        for row in self._rows:
            losses.update(row["losses"])
        responses = [row for row in self._rows if row["kind"] == "response"]
        totals = {name: sum(row["usage"][name] for row in responses if row["usage"] is not None) for name in _TOKENS}
        return {
            "object": "dragoman.conversation_tree",
            "id": self._root,
            "nodes": self._rows,
            "has_more": len(self._rows) < self._number,
            "totals": {"responses": len(responses), **totals, "losses": dict(losses)},
        }


def lineage_of(nodes: Sequence[Node]) -> Json:
    """Return the tree of these nodes, which are those of one conversation, oldest first."""
    lineage = Lineage(nodes)
    lineage.add(nodes)
    return lineage.as_json()


def _row(node: Node, parent: str | None) -> Json:
    reply: Json = loads(node.reply)
    usage: Any = reply.get("usage")
    return {
        "id": node.id,
        "parent": parent,
        "kind": str(reply.get("object", "response")),
        "created_at": node.created,
        "model": reply.get("model"),
        "status": reply.get("status"),
        "input_items": len(node.input_items()),
        "output_items": len(reply["output"]),
        "usage": {name: usage.get(name) or 0 for name in _TOKENS} if type(usage) is dict else None,
        "losses": node.losses(),
    }


def as_mermaid(tree: Json) -> str:
    """Return a tree, as `lineage_of` returns it, as a flowchart of Mermaid."""
    lines = ["flowchart TD"]
    names = {row["id"]: f"n{number}" for number, row in enumerate(tree["nodes"])}
    for row in tree["nodes"]:
        name, parent = names[row["id"]], row["parent"]
        lines.append(f'    {name}["{"<br/>".join(_label(row))}"]')
        if parent is not None:
            if parent not in names:
                names[parent] = f"n{len(names)}"
                lines.append(f'    {names[parent]}["{_safe(parent)}<br/>deleted"]')
            lines.append(f"    {names[parent]} --> {name}")
    if tree["has_more"]:
        lines.append("    %% there are more responses")
    return "\n".join(lines) + "\n"


def _label(row: Json) -> list[str]:
    """Return the lines of a node."""
    label = [_safe(row["id"])]
    if row["kind"] != "response":
        label.append(_safe(row["kind"]))
    if row["model"]:
        label.append(_safe(row["model"]))
    if (usage := row["usage"]) is not None:
        label.append(f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out")
    label += [f"loss {_safe(code)} {count}" for code, count in row["losses"].items()]
    return label


def _safe(text: Any) -> str:
    """Return a text without the characters that have a meaning in Mermaid or HTML."""
    return _UNSAFE.sub("_", str(text))[:_LABEL_MAX]

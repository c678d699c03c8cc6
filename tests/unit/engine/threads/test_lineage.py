"""The tree of a conversation as JSON and as a diagram."""

from __future__ import annotations

import json
from typing import Any

from dragoman.threads import Conversation, Lineage, Node, added_items, as_mermaid, conversation_node, lineage_of
from support.thread_stores import node, user


def response(node_id: str, parent: str | None, *, tokens: tuple[int, int] | None = (3, 2), **losses: int) -> Node:
    reply: dict[str, Any] = {"object": "response", "model": "m", "status": "completed", "output": []}
    if tokens is not None:
        reply["usage"] = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens)}
    notes = json.dumps({"losses": losses}).encode() if losses else b""
    return node("k", node_id, parent)._replace(reply=json.dumps(reply).encode(), notes=notes)


def test_branches_with_their_tokens_and_losses() -> None:
    tree = lineage_of(
        [
            response("resp_1", None, top_k=2),
            response("resp_2", "resp_1", tokens=(10, 5), top_k=1, metadata=1),
            response("resp_3", "resp_1", tokens=None),
        ]
    )
    assert (tree["object"], tree["id"]) == ("dragoman.conversation_tree", "resp_1")
    assert [(row["id"], row["parent"]) for row in tree["nodes"]] == [
        ("resp_1", None),
        ("resp_2", "resp_1"),
        ("resp_3", "resp_1"),
    ]
    assert tree["nodes"][1] == {
        "id": "resp_2",
        "parent": "resp_1",
        "kind": "response",
        "created_at": 1_795_000_000,
        "model": "m",
        "status": "completed",
        "input_items": 1,
        "output_items": 0,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        "losses": {"top_k": 1, "metadata": 1},
    }
    assert tree["nodes"][2]["usage"] is None
    assert tree["totals"] == {
        "responses": 3,
        "input_tokens": 13,
        "output_tokens": 7,
        "losses": {"top_k": 3, "metadata": 1},
    }
    assert as_mermaid(tree) == (
        "flowchart TD\n"
        '    n0["resp_1<br/>m<br/>3 tokens in, 2 out<br/>loss top_k 2"]\n'
        '    n1["resp_2<br/>m<br/>10 tokens in, 5 out<br/>loss top_k 1<br/>loss metadata 1"]\n'
        "    n0 --> n1\n"
        '    n2["resp_3<br/>m"]\n'
        "    n0 --> n2\n"
    )


def test_the_changes_of_a_conversation_follow_each_other() -> None:
    root = conversation_node("k", "conv_1", 0, {})
    added = added_items("k", Conversation([root]), "convchange_1", 0, {"items": [user("a"), user("b")]})
    nodes = [root, response("resp_1", "conv_1"), added, response("resp_2", "resp_1"), response("resp_3", "conv_1")]
    tree = lineage_of(nodes)
    assert [(row["id"], row["parent"], row["kind"]) for row in tree["nodes"]] == [
        ("conv_1", None, "conversation"),
        ("resp_1", "conv_1", "response"),
        ("convchange_1", "resp_1", "conversation.items"),
        ("resp_2", "resp_1", "response"),
        ("resp_3", "convchange_1", "response"),
    ]
    assert tree["nodes"][2]["input_items"] == 2
    assert tree["totals"]["responses"] == 3
    # Without its root, which was deleted, it is still one.
    assert lineage_of(nodes[1:])["nodes"][0]["parent"] == lineage_of(nodes[1:])["id"] == "conv_1"


def test_a_diagram_of_a_tree_without_a_node_and_with_a_name_of_any_text() -> None:
    odd = response("resp_2", "resp_1")._replace(reply=b'{"model":"a\\"]; click <b>","output":[]}')
    assert as_mermaid(lineage_of([odd])) == (
        'flowchart TD\n    n0["resp_2<br/>a___ click _b_"]\n    n1["resp_1<br/>deleted"]\n    n1 --> n0\n'
    )


def test_a_tree_of_which_only_the_beginning_was_read() -> None:
    nodes = [response("resp_1", None), response("resp_2", "resp_1"), response("resp_3", "resp_1")]
    whole = lineage_of(nodes)
    assert whole["has_more"] is False
    lineage = Lineage(nodes)
    lineage.add(nodes[:1])
    lineage.add(nodes[1:2])
    tree = lineage.as_json()
    assert (tree["nodes"], tree["has_more"]) == (whole["nodes"][:2], True)
    assert as_mermaid(tree).endswith("\n    %% there are more responses\n")

"""The receipt of a request: its facts, bounded, and without texts of requests and replies."""

from __future__ import annotations

import json
from typing import Any

from dragoman import direction, translate
from dragoman.canonical.events import Usage
from dragoman.dialects import Dialect
from dragoman.errors import ClientRequestError, Failure, FailureKind
from dragoman.knobs import Knobs
from dragoman.profiles.profile import builtin_profile
from dragoman_server.receipt import RENAMES_MAX, TEXT_MAX, Receipt
from support.scopes import end

CHAT, MESSAGES, RESPONSES, *_ = Dialect


def made(body: dict[str, Any], client: Dialect = CHAT, upstream: Dialect = MESSAGES, **more: Any) -> Receipt:
    """The receipt of a request that was translated."""
    translation = translate(direction(client, upstream), json.dumps(body).encode(), **more)
    return Receipt("req_1", client, 7, b"o" * 32, str(body["model"]), "up", translation)


def asked(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "the secret plan"}], "max_tokens": 99, **more}


def body_of(receipt: Receipt) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(receipt.json("gw-1"))
    return facts


def test_a_receipt_is_open_until_the_reply_has_ended() -> None:
    receipt = made(asked(seed=7), upstream_model="claude-x")
    before = body_of(receipt)
    assert (before["ended"], before["status"]) == ("open", None)
    assert receipt.translation is not None
    receipt.translation.context.usage = Usage(5, 1, None, 9, 0)
    end(receipt, "completed", 200)
    facts = body_of(receipt)
    assert facts == {
        "object": "dragoman.receipt",
        "host": "gw-1",
        "request_id": "req_1",
        "created": 7,
        "client": "chat",
        "client_profile": None,
        "tag": None,
        "endpoint": None,
        "upstream": "messages",
        "provider": "up",
        "model": "m",
        "upstream_model": "claude-x",
        "stream": False,
        "ended": "completed",
        "status": 200,
        "error": None,
        "usage": {
            "input_total": 5,
            "cache_read": 1,
            "cache_write": None,
            "output_total": 9,
            "reasoning": 0,
            "cache_write_1h": None,
        },
        "losses": facts["losses"],
        "losses_total": 1,
        "violations": [],
        "cache": None,
        "renames": {},
    }
    (row,) = facts["losses"]
    assert row["path"] == "seed"
    assert row.keys() == {"code", "path", "done", "meaning"}


def test_the_end_lets_go_of_the_request_and_only_the_first_one_counts() -> None:
    receipt = made(asked())
    end(receipt, "completed", 200)
    end(receipt, "abandoned", 499)
    assert receipt.translation is None
    assert receipt.losses is None
    assert (body_of(receipt)["ended"], body_of(receipt)["status"]) == ("completed", 200)


def test_own_messages_are_kept_and_the_upstreams_are_not() -> None:
    """An upstream's error may quote the request."""
    error = ClientRequestError(("messages", 0, "content"), "expected a string").failure
    receipt = Receipt("req_1", CHAT, 7)
    end(receipt, "rejected", 400, error)
    assert body_of(receipt)["error"] == {
        "kind": "invalid_request",
        "status": 400,
        "code": None,
        "param": "messages[0].content",
        "message": "messages[0].content: expected a string",
    }
    theirs = Failure(FailureKind.POLICY, "this is not allowed: the secret plan", 400, code="content_filter")
    for late in (False, True):
        receipt = made(asked())
        assert receipt.translation is not None
        if late:
            receipt.translation.context.failure = theirs
            end(receipt, "failed", 200)
        else:
            end(receipt, "refused", 400, theirs)
        assert body_of(receipt)["error"] == {
            "kind": "policy", "status": 400, "code": "content_filter", "param": None,
        }  # fmt: skip
        assert b"secret" not in receipt.json()


def test_no_text_of_request_or_reply_is_in_a_receipt() -> None:
    body = asked(
        system="the secret system",
        max_tokens=10,
        top_k=3,
        tools=[{"name": "look", "description": "the secret tool", "input_schema": {"type": "object"}}],
        metadata={"user_id": "the secret user"},
    )
    receipt = made(body, MESSAGES, CHAT)
    end(receipt, "completed", 200)
    assert b"secret" not in receipt.json()


def test_hostile_names_cost_bounded_memory() -> None:
    long = "x" * 100_000
    tools = [{"type": "function", "function": {"name": f"{long}{n}"}} for n in range(300)]
    receipt = made(asked(tools=tools, **{long: 1}) | {"model": long})
    end(receipt, "completed", 200)
    facts = body_of(receipt)
    assert len(facts["model"]) == TEXT_MAX
    assert len(facts["renames"]) == RENAMES_MAX
    assert len(receipt.json()) < 200 * 1024


def test_renames_have_the_clients_name_with_its_namespace() -> None:
    body = {
        "model": "m",
        "input": "Hi",
        "tools": [
            {
                "type": "namespace",
                "name": "mcp__notes",
                "description": "Notes",
                "tools": [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}],
            },
            {"type": "custom", "name": "apply_patch", "description": "Patch"},
            {"type": "function", "name": "plain", "parameters": {"type": "object"}, "strict": False},
        ],
    }
    receipt = made(body, RESPONSES, CHAT, profile=builtin_profile("chat", "compatible"), knobs=Knobs())
    assert receipt.translation is not None
    assert receipt.translation.renamed_tools == {"mcp__notes__add": "mcp__notes.add"}
    assert receipt.translation.bridged_tools == {
        "mcp__notes__add": {"name": "add", "kind": "function", "namespace": "mcp__notes"},
        "apply_patch": {"name": "apply_patch", "kind": "custom"},
    }
    assert body_of(receipt)["renames"] == {"mcp__notes__add": "mcp__notes.add"}


def test_a_bridged_tool_is_reported_by_the_name_that_was_sent() -> None:
    """A flattened name may have to be fitted to the upstream's alphabet once more."""
    inner = [{"type": "function", "name": "x" * 60, "parameters": {"type": "object"}, "strict": False}]
    body = {
        "model": "m",
        "input": "Hi",
        "tools": [{"type": "namespace", "name": "n" * 20, "description": "N", "tools": inner}],
    }
    receipt = made(body, RESPONSES, CHAT)
    assert receipt.translation is not None
    (sent,) = receipt.translation.renamed_tools
    written = json.loads(receipt.translation.body)["tools"][0]["function"]["name"]
    assert sent == written
    assert receipt.translation.renamed_tools[sent] == f"{'n' * 20}.{'x' * 60}"


def test_a_receipt_names_other_models_with_their_counts() -> None:
    receipt = made(asked())
    assert receipt.translation is not None
    usage = Usage(50, output_total=9, other_models=(("m" * 300, Usage(40, output_total=3)),))
    receipt.translation.context.usage = usage
    end(receipt, "completed", 200)
    shown = body_of(receipt)["usage"]
    (other,) = shown.pop("other_models")
    assert (shown["input_total"], shown["output_total"]) == (50, 9)
    assert (len(other["model"]), other["input_total"], other["output_total"]) == (TEXT_MAX, 40, 3)

"""The question and its answer in Responses."""

from __future__ import annotations

from dragoman import Dialect, builtin_profile
from dragoman_server.cli.tool_calls.question import TOOL
from dragoman_server.cli.tool_calls.read_reply import SeenCall, SeenReply
from dragoman_server.cli.tool_calls.responses import RULES, STOP, read, request


def test_the_request_asks_for_a_call() -> None:
    body = request("m", None)
    assert TOOL in str(body["tools"])
    assert body["stream"] is True
    assert Dialect("responses").facts.conversation in body


def test_a_call_and_the_stop_reason_are_read() -> None:
    reply = SeenReply()
    for frame in (
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "function_call", "call_id": "c", "name": TOOL},
        },
        {"type": f"response.{STOP}", "response": {}},
    ):
        read(frame, reply)
    assert reply.calls == {0: SeenCall("c", TOOL)}
    assert reply.stop == STOP


def test_rules_name_flags_of_the_profile() -> None:
    profile = builtin_profile("responses")
    for rule in RULES:
        assert hasattr(profile, rule.flag)

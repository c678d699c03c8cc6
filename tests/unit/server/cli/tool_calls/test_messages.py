"""The question and its answer in Messages."""

from __future__ import annotations

from dragoman import Dialect, builtin_profile
from dragoman_server.cli.tool_calls.messages import RULES, STOP, read, request
from dragoman_server.cli.tool_calls.question import TOOL
from dragoman_server.cli.tool_calls.read_reply import SeenCall, SeenReply


def test_the_request_asks_for_a_call() -> None:
    body = request("m", None)
    assert TOOL in str(body["tools"])
    assert body["stream"] is True
    assert Dialect("messages").facts.conversation in body


def test_a_call_and_the_stop_reason_are_read() -> None:
    reply = SeenReply()
    for frame in (
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c", "name": TOOL}},
        {"type": "message_delta", "delta": {"stop_reason": STOP}},
    ):
        read(frame, reply)
    assert reply.calls == {0: SeenCall("c", TOOL)}
    assert reply.stop == STOP


def test_rules_name_flags_of_the_profile() -> None:
    profile = builtin_profile("messages")
    for rule in RULES:
        assert hasattr(profile, rule.flag)

"""The question and its answer in Chat Completions."""

from __future__ import annotations

from dragoman import Dialect, builtin_profile
from dragoman_server.cli.tool_calls.chat import RULES, STOP, read, request
from dragoman_server.cli.tool_calls.question import TOOL
from dragoman_server.cli.tool_calls.read_reply import SeenCall, SeenReply


def test_the_request_asks_for_a_call() -> None:
    body = request("m", None)
    assert TOOL in str(body["tools"])
    assert body["stream"] is True
    assert Dialect("chat").facts.conversation in body


def test_a_call_and_the_stop_reason_are_read() -> None:
    reply = SeenReply()
    for frame in (
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": TOOL}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": STOP}]},
    ):
        read(frame, reply)
    assert reply.calls == {0: SeenCall("c", TOOL, complete=True)}
    assert reply.stop == STOP


def test_rules_name_flags_of_the_profile() -> None:
    profile = builtin_profile("chat")
    for rule in RULES:
        assert hasattr(profile, rule.flag)

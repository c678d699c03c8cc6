"""The answer in Gemini's dialect, as an upstream sends it."""

from __future__ import annotations

import pytest

from dragoman import Dialect, builtin_profile
from dragoman.wire import SSEParser
from dragoman_server.cli.tool_calls.generate import RULES, read
from dragoman_server.cli.tool_calls.read_reply import SeenCall, SeenReply, read_reply
from dragoman_server.cli.tool_calls.repairs import of_error
from dragoman_server.config.provider import Provider
from support.paths import TRANSCRIPTS
from support.samples import error_frame, text_stream, tool_stream

GENERATE = Dialect("generate")


def seen(frames: list[bytes]) -> SeenReply:
    return read_reply(GENERATE, SSEParser().parse(b"".join(frames)))


def test_a_call_and_the_stop_reason_are_read() -> None:
    reply = seen(tool_stream(GENERATE))
    assert reply.calls == {0: SeenCall("call_1", "look", '{"city":"Köln"}', complete=True)}
    assert (reply.text, reply.stop, reply.usage, reply.ended, reply.signed) == ("Now.", "STOP", True, True, False)


def test_reasoning_is_no_text_and_a_signature_is_seen() -> None:
    parts = [{"text": "Hm", "thought": True}, {"functionCall": {"name": "look"}, "thoughtSignature": "AAAA"}]
    reply = SeenReply()
    read({"candidates": [{"content": {"parts": parts}}]}, reply)
    assert (reply.text, reply.reasoning_text, reply.signed) == ("", "Hm", True)
    assert reply.calls == {0: SeenCall("", "look", "{}", complete=True)}
    assert not reply.ended


def test_a_transcript_with_calls() -> None:
    reply = seen([(TRANSCRIPTS / "generate" / "two_tools.sse").read_bytes()])
    assert (reply.text, reply.reasoning_text, reply.stop, reply.ended) == ("Looking up", "", "STOP", True)
    assert [str(call) for call in reply.calls.values()] == ['get_weather({"city":"Oslo"})', 'get_time({"tz":"CET"})']
    assert reply.tokens() == (29, 815)


def test_a_stream_that_is_cut_has_no_end() -> None:
    reply = seen([(TRANSCRIPTS / "generate" / "cut.sse").read_bytes()])
    assert (reply.ended, reply.stop, reply.tokens()) == (False, "", None)


def test_an_error_is_read() -> None:
    reply = seen([*text_stream(GENERATE)[:1], error_frame(GENERATE, "too much")])
    assert (reply.error, reply.ended) == ("too much", False)


@pytest.mark.parametrize(
    ("message", "sent", "now", "then"),
    [
        ("Thinking level is not supported for this model.", "thinkingLevel", "adaptive", 'thinking = "budget"'),
        ("Thinking level is not supported for this model.", "thinkingLevel", "budget", 'thinking = "none"'),
        ("This model does not support thinking_budget", "thinkingBudget", "budget", 'thinking = "none"'),
    ],
)
def test_an_error_names_its_repair(message: str, sent: str, now: str, then: str) -> None:
    profile = builtin_profile("generate").replace({"thinking": now})
    provider = Provider("up", GENERATE, "http://h", profile=profile)
    body = {"generationConfig": {"thinkingConfig": {sent: "x"}}}
    assert str(of_error(provider, message, body)) == f"profile_flags.{then}"
    assert of_error(provider, message, {}) is None


def test_rules_name_flags_of_the_profile() -> None:
    profile = builtin_profile("generate")
    assert all(hasattr(profile, rule.flag) for rule in RULES)

"""The transcript of a stream of Gemini's `generateContent`."""

from __future__ import annotations

from dragoman.dialects import Dialect
from dragoman.wire.sse_parser import Parser
from dragoman_server.cli.demo.transcript import Transcript, read_transcript
from dragoman_server.cli.demo.transcript_generate import read
from support.paths import TRANSCRIPTS


def transcript(name: str) -> Transcript:
    return read_transcript(Dialect.GENERATE, Parser().parse((TRANSCRIPTS / "generate" / f"{name}.sse").read_bytes()))


def test_a_reply_with_calls() -> None:
    seen = transcript("two_tools")
    assert (seen.text, seen.reasoning, seen.stop, seen.ended) == ("Looking up", "", "STOP", True)
    assert [str(call) for call in seen.calls.values()] == ['get_weather({"city":"Oslo"})', 'get_time({"tz":"CET"})']
    assert all(call.complete for call in seen.calls.values())
    assert seen.tokens() == (29, 815)


def test_reasoning() -> None:
    assert transcript("thinking_tool").reasoning == "Need weather"


def test_a_stream_that_is_cut_has_no_end() -> None:
    seen = transcript("cut")
    assert (seen.ended, seen.stop, seen.tokens()) == (False, None, None)


def test_an_error_is_read() -> None:
    out = Transcript()
    read({"error": {"code": 503, "message": "No", "status": "UNAVAILABLE"}}, out)
    assert out.error == "No"
    assert not out.ended

"""A recorded exchange as it is drawn."""

from __future__ import annotations

import io
from typing import Any

from dragoman.dialects import Dialect
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame
from dragoman_server.cli.demo import run as package
from dragoman_server.cli.demo.scenes import SCENES, Scene
from dragoman_server.cli.demo.terminal import Terminal
from dragoman_server.cli.demo.transcript import ShownCall, read_transcript


def _response_event(kind: str, **more: Any) -> Frame:
    return Frame(kind, dumps({"type": kind, "sequence_number": 7, **more}))


def _scene(subject: str) -> Scene:
    return next(scene for scene in SCENES if subject in scene.subject)


def test_leaving_an_upstream_that_has_not_finished_is_drawn() -> None:
    def drawn(*frames: bytes) -> str:
        out = io.StringIO()
        stage = package.ScenePlayer(_scene("stop sequence"), Terminal(out, colour=False, width=120))
        for data in frames:
            stage.received(b"data: " + data + b"\n\n")
        stage.stopped()
        stage.received(b"")  # draws what came before
        return out.getvalue()

    piece = _response_event("response.output_text.delta", delta="three###").data or b""
    end = _response_event("response.completed", response={"status": "completed", "usage": None}).data or b""
    assert "✂ the gateway closes the connection" in drawn(piece)
    assert "✂" not in drawn(piece, end)


def test_a_stream_of_responses_put_together() -> None:
    frames = [
        _response_event("response.reasoning_summary_text.delta", delta="Hm", output_index=0),
        _response_event("response.output_text.delta", delta="Hi", output_index=1),
        _response_event("response.output_item.added", output_index=2, item={"type": "custom_tool_call", "name": "p"}),
        _response_event("response.custom_tool_call_input.delta", output_index=2, delta='"\n'),
    ]
    so_far = read_transcript(Dialect.RESPONSES, frames)
    assert so_far.calls == {2: ShownCall("p", '"\n', custom=True)}
    assert not so_far.calls[2].complete
    assert so_far.content() == ("Hm", "Hi", [("p", r'{"input":"\"\n"}')])
    cut = {"type": "function_call", "name": "f", "arguments": '{"a', "status": "incomplete"}
    half = [_response_event(f"response.output_item.{e}", output_index=0, item=cut) for e in ("added", "done")]
    assert not read_transcript(Dialect.RESPONSES, half).calls[0].complete
    failed = _response_event("response.failed", response={"error": {"message": "no"}})
    nested, flat = _response_event("error", error={"message": "no"}), _response_event("error", message="no")
    for last in (failed, nested, flat):
        end = read_transcript(Dialect.RESPONSES, [*frames, last])
        assert (end.error, end.ended, end.stop) == ("no", False, None)


def test_all_readings_of_usage_come_to_the_same() -> None:
    chat = b'{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":9}}'
    messages = (
        b'{"type":"message_start","message":{"usage":{"input_tokens":8,"cache_read_input_tokens":4,"output_tokens":0}}}',
        b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}',
    )
    usage = {"input_tokens": 12, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 9}
    responses = _response_event("response.completed", response={"status": "completed", "usage": usage})
    assert read_transcript(Dialect.RESPONSES, [responses]).tokens() == (12, 9)
    assert read_transcript(Dialect.CHAT, [Frame("", chat)]).tokens() == (12, 9)
    assert read_transcript(Dialect.MESSAGES, [Frame("", data) for data in messages]).tokens() == (12, 9)

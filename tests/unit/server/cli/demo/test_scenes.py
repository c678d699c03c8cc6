"""Problems that the scenes of the demo report."""

from __future__ import annotations

from typing import Any

from dragoman.aio import Timeouts, UpstreamRequest
from dragoman.dialects import Dialect
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame
from dragoman_server.cli.demo.scenes import SCENES, Scene, SceneRecording


def _response_event(kind: str, **more: Any) -> Frame:
    return Frame(kind, dumps({"type": kind, "sequence_number": 7, **more}))


def _failing(scene: Scene, seen: SceneRecording) -> str:
    return " | ".join(scene.problems(seen))


def test_a_clean_end_after_a_cut_is_a_problem() -> None:
    """The scene's check must see what it is there for."""
    frames = [Frame("message_stop", b'{"type":"message_stop"}')]
    broken = next(scene for scene in SCENES if "fails" in scene.subject)
    assert broken.client is Dialect.MESSAGES
    assert "as if it had ended normally" in _failing(broken, SceneRecording(status=200, client=frames, cut=True))


def test_calls_that_do_not_interleave_are_a_problem() -> None:
    seen = SceneRecording(status=200, client=[Frame("", b"[DONE]")])
    assert "two interleaved calls" in _failing(SCENES[1], seen)


def _scene(subject: str) -> Scene:
    return next(scene for scene in SCENES if subject in scene.subject)


def _called(**item: Any) -> list[Frame]:
    done = {"type": "function_call", "name": "apply_patch", "arguments": "{}", "status": "completed", **item}
    return [
        _response_event("response.output_item.added", output_index=0, item=done),
        _response_event("response.output_item.done", output_index=0, item=done),
    ]


def test_tools_that_are_not_restored_are_a_problem() -> None:
    """Mistakes that Codex reports as "unsupported call" and "aborted"."""
    joined = SceneRecording(status=200, client=_called(name="mcp__notes__add_note"))
    assert "did not come back in its namespace: mcp__notes__add_note" in _failing(_scene("namespace"), joined)
    assert "did not come back as free text" in _failing(
        _scene("free text"), SceneRecording(status=200, client=_called())
    )


def test_a_conversation_that_is_not_sent_whole_is_a_problem() -> None:
    body = b'{"messages":[{"role":"user","content":"And in summer?"}]}'
    call = UpstreamRequest("http://127.0.0.1/v1/messages", {}, body, True, Timeouts())
    problems = _failing(_scene("stored"), SceneRecording(status=200, call=call))
    assert "did not receive the whole conversation" in problems


def test_text_behind_a_stop_sequence_is_a_problem() -> None:
    piece = b'{"choices":[{"index":0,"delta":{"content":"one, two, three###"},"finish_reason":"stop"}]}'
    seen = SceneRecording(status=200, client=[Frame("", piece), Frame("", b"[DONE]")])
    assert "the client received 'one, two, three###'" in _failing(_scene("stop sequence"), seen)

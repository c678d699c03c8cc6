"""The parts of the demo: excerpts of frames, transcripts of streams, output on the terminal, checks of the scenes."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from dragoman.aio.upstream.interface import UpstreamRequest
from dragoman.dialects import Dialect
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame
from dragoman_server.cli.demo import run as package
from dragoman_server.cli.demo.frame_excerpt import body_text, frame_lines
from dragoman_server.cli.demo.recording_transport import _RecordedResponse
from dragoman_server.cli.demo.scenes import SCENES, Recording, Scene
from dragoman_server.cli.demo.terminal import Span, Terminal, cells, fit, line, wants_colour, wrap
from dragoman_server.cli.demo.transcript import ToolCall, read_transcript


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, False),
    ],
)
def test_colour_variables(env: dict[str, str], expected: bool) -> None:
    assert wants_colour(io.StringIO(), env) is expected


def test_a_terminal_has_colours_unless_it_is_dumb() -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert wants_colour(Tty(), {"TERM": "xterm"})
    assert not wants_colour(Tty(), {"TERM": "dumb"})
    assert not wants_colour(Tty(), {"TERM": "xterm", "NO_COLOR": "1"})


def test_wide_characters_take_two_columns() -> None:
    assert cells("東京 👋") == 7
    assert cells("e\u0301") == 1
    assert fit((Span("東京東京"),), 5) == (Span("東京"), Span("…", "dim"))
    assert fit(line("fits"), 4) == line("fits")


def test_wrapping_keeps_everything_it_has_rows_for() -> None:
    text = '{"model":"m","max_tokens":1024,"stream":true}'
    rows = wrap(text, 20, 9)
    assert "".join(rows) == text
    assert all(cells(row) <= 20 for row in rows)
    assert wrap("x" * 50, 20, 9) == ["x" * 20, "x" * 20, "x" * 10]


def test_columns_line_up_whatever_is_in_them() -> None:
    out = io.StringIO()
    terminal = Terminal(out, colour=False, width=120)
    terminal.sides([line("東京"), line("b")], [line("right")], "◀")
    first, second = out.getvalue().splitlines()
    assert cells(first[: first.index("◀")]) == second.index("│")


def test_a_long_frame_is_shortened_to_what_changes() -> None:
    data = (
        b'{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
        b'{"tool_calls":[{"index":1,"function":{"arguments":"{\\"a"}}]},"finish_reason":null}],"usage":null}'
    )
    lines = [(Span("data: ", "dim"), Span(r'"index":1 "arguments":"{\"a"', "yellow"))]
    assert frame_lines(Frame("", data), 50) == lines
    assert _shown(Frame("", b'{"a":1}'), 50) == ['data: {"a":1}']
    assert _shown(Frame("", b"[DONE]"), 50) == ["data: [DONE]"]
    assert _shown(Frame("", None), 50) == [": ping"]


def _shown(frame: Frame, width: int) -> list[str]:
    return ["".join(span.text for span in row) for row in frame_lines(frame, width)]


def _response_event(kind: str, **more: Any) -> Frame:
    return Frame(kind, dumps({"type": kind, "sequence_number": 7, **more}))


def test_an_event_of_responses_is_shortened_to_what_is_new() -> None:
    where = {"item_id": "msg_1" * 9, "output_index": 0, "content_index": 0}
    delta = _response_event("response.output_text.delta", **where, delta="Hello, everybody", logprobs=[])
    assert _shown(delta, 60) == ['…output_text.delta  "delta":"Hello, everybody" "output_index":0']
    assert frame_lines(delta, 60)[0][1].style == "green"
    # The echo of the request and the content that earlier events had are left out; the counts are not.
    sent_before = {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}
    usage = {"input_tokens": 12, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 6, "total_tokens": 18}
    response = {
        "id": "resp_1",
        "status": "completed",
        "tools": [{"name": "t"}],
        "output": [sent_before],
        "usage": usage,
    }
    completed = _response_event("response.completed", response=response)
    assert _shown(completed, 99) == [
        '…completed          "status":"completed" "input_tokens":12 "cached_tokens":4 "output_tokens":6'
    ]
    assert frame_lines(completed, 99)[0][1].style == "blue"


def test_what_a_call_is_named_is_never_cut_off() -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_" + "7" * 30, "name": "add_note", "arguments": ""}
    added = _response_event("response.output_item.added", output_index=1, item={**item, "namespace": "mcp__notes"})
    shown = "".join(cut for row in frame_lines(added, 57) for cut, _ in fit(row, 57))
    for piece in ('"type":"function_call"', '"namespace":"mcp__notes"', '"name":"add_note"'):
        assert piece in shown
    assert '"call_id":"call_777777777…"' in _shown(added, 99)[1]
    failed = _response_event("response.failed", response={"status": "failed", "error": {"message": "m" * 50}})
    assert 'm"' in _shown(failed, 57)[-1], "an error is worth more than one line"


def test_long_parts_of_a_request_are_folded() -> None:
    assert (
        body_text({"model": "m", "messages": [{"role": "user", "content": "x" * 40}]}) == '{"model":"m","messages":[…]}'
    )
    function = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    assert body_text({"tools": [function]}) == '{"tools":[{"function":{"name":"f",…},…}]}'


def _failing(scene: Scene, seen: Recording) -> str:
    return " | ".join(scene.problems(seen))


def test_a_clean_end_after_a_cut_is_a_problem() -> None:
    """The scene's check must see what it is there for."""
    frames = [Frame("message_stop", b'{"type":"message_stop"}')]
    broken = next(scene for scene in SCENES if "fails" in scene.subject)
    assert broken.client is Dialect.MESSAGES
    assert "as if it had ended normally" in _failing(broken, Recording(status=200, client=frames, cut=True))


def test_calls_that_do_not_interleave_are_a_problem() -> None:
    seen = Recording(status=200, client=[Frame("", b"[DONE]")])
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
    joined = Recording(status=200, client=_called(name="mcp__notes__add_note"))
    assert "did not come back in its namespace: mcp__notes__add_note" in _failing(_scene("namespace"), joined)
    assert "did not come back as free text" in _failing(_scene("free text"), Recording(status=200, client=_called()))


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


async def test_the_recording_transport_reports_that_the_gateway_stopped_reading() -> None:
    class Source:
        status = 200
        headers: Mapping[str, str] = MappingProxyType({})

        async def batches(self) -> AsyncGenerator[bytes, None]:
            yield b"one"
            yield b"two"

        async def read(self, limit: int) -> bytes:
            return b""

        async def close(self) -> None:
            return

    class Calls(list[str]):
        def sent(self, call: UpstreamRequest) -> None:
            self.append("sent")

        def received(self, data: bytes) -> None:
            self.append(data.decode())

        def cut(self) -> None:
            self.append("cut")

        def stopped(self) -> None:
            self.append("stopped")

    for reads, expected in ((1, ["one", "stopped"]), (3, ["one", "two"])):
        calls = Calls()
        batches = _RecordedResponse(Source(), calls).batches()
        for _ in range(reads):
            await anext(batches, None)
        await batches.aclose()
        assert calls == expected


def test_text_behind_a_stop_sequence_is_a_problem() -> None:
    piece = b'{"choices":[{"index":0,"delta":{"content":"one, two, three###"},"finish_reason":"stop"}]}'
    seen = Recording(status=200, client=[Frame("", piece), Frame("", b"[DONE]")])
    assert "the client received 'one, two, three###'" in _failing(_scene("stop sequence"), seen)


def test_a_stream_of_responses_put_together() -> None:
    frames = [
        _response_event("response.reasoning_summary_text.delta", delta="Hm", output_index=0),
        _response_event("response.output_text.delta", delta="Hi", output_index=1),
        _response_event("response.output_item.added", output_index=2, item={"type": "custom_tool_call", "name": "p"}),
        _response_event("response.custom_tool_call_input.delta", output_index=2, delta='"\n'),
    ]
    so_far = read_transcript(Dialect.RESPONSES, frames)
    assert so_far.calls == {2: ToolCall("p", '"\n', custom=True)}
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

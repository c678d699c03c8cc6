"""The demo shows what it claims to show, on both sides, and says so when it does not."""

from __future__ import annotations

import io
import socket
from dataclasses import replace
from typing import Any

import pytest

from dragoman.protocols import Dialect
from dragoman.sse import Frame
from dragoman_server import demo as package
from dragoman_server.demo import demo
from dragoman_server.demo.excerpt import body_text, frame_line
from dragoman_server.demo.scenes import SCENES, Scene, Seen
from dragoman_server.demo.terminal import Span, Terminal, cells, fit, line, wants_colour, wrap
from dragoman_server.demo.told import told
from dragoman_server.tables import ConfigError


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


async def _played(**more: Any) -> tuple[int, str]:
    out = io.StringIO()
    status = await demo(port=more.pop("port", 0), pace=0, once=True, out=out)
    return status, out.getvalue()


async def test_every_scene_shows_both_sides() -> None:
    status, shown = await _played()
    assert status == 0
    assert "✗" not in shown
    assert "\x1b" not in shown
    for scene in SCENES:
        assert scene.title in shown
        assert scene.point.split(":")[0] in shown.replace("\n                 ", " ")
    # Scene 1: the same thought in both dialects; 2: the same piece of arguments; 3: the cut and what came of it.
    for piece in (
        '"reasoning_content":"The user needs"',
        '"thinking":"The user needs"',
        r'"arguments":"{\"tz"',
        r'"partial_json":"{\"tz"',
        "✂ the connection breaks",
        "upstream connection broke",
        '"param":"n"',
        "nothing was sent",
        "top_k: top_k was not sent",
        "prompt_tokens 12, completion_tokens 9 → Messages: input_tokens 8, cache_read_input_tokens 4",
    ):
        assert piece in shown, piece
    assert "curl" not in shown, "with once there is nothing to paste to"


async def test_a_narrow_terminal_stacks_the_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, shown = await _played()
    assert status == 0
    assert 'upstream │ data: "content":"I will "' in shown
    assert '  client │ content_block_delta "index":1 "text":"I will "' in shown
    assert max(map(cells, shown.splitlines())) <= 80


async def test_two_columns_stay_within_the_terminal() -> None:
    _, shown = await _played()
    assert max(map(cells, shown.splitlines())) <= 120


async def test_colours_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, shown = await _played()
    assert "\x1b[35m" in shown


async def test_a_scene_that_fails_is_told_and_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(SCENES[0], body={**SCENES[0].body, "model": "sim-text"})
    monkeypatch.setattr(package, "SCENES", (wrong,))
    status, shown = await _played()
    assert status == 1
    assert "✗ wrong" in shown
    assert "a call were expected" in shown.replace("\n                 ", " ")


async def test_a_refused_scene_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(SCENES[1], body={**SCENES[1].body, "model": "sim-error-429"})
    monkeypatch.setattr(package, "SCENES", (wrong,))
    status, shown = await _played()
    assert status == 1
    assert "status 429 instead of 200" in shown


async def test_a_taken_port_is_replaced_and_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, shown = await _played(port=port)
    assert status == 0
    assert f"Port {port} is taken; this demo uses" in shown


async def test_an_impossible_port_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigError, match="port"):
        await _played(port=70_000)


async def test_it_stays_up_and_tells_what_to_paste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "SCENES", ())

    async def told_at_once() -> None:
        return

    monkeypatch.setattr(package, "until_told_to_stop", told_at_once)
    out = io.StringIO()
    assert await demo(port=0, pace=0, once=False, out=out) == 0
    shown = out.getvalue()
    url = shown.partition("stays up at ")[2].split(". ")[0]
    assert url.startswith("http://127.0.0.1:")
    for hint in (
        f"{url}/v1/messages",
        f"{url}/v1/chat/completions",
        f'base_url="{url}/v1"',
        f"ANTHROPIC_BASE_URL={url} ",
    ):
        assert hint in shown


# --- the pieces ------------------------------------------------------------------------------------------------------


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
    assert frame_line(Frame("", data), 50) == (Span("data: ", "dim"), Span(r'"index":1 "arguments":"{\"a"', "yellow"))
    assert frame_line(Frame("", b'{"a":1}'), 50)[1].text == '{"a":1}'
    assert frame_line(Frame("", b"[DONE]"), 50)[1].text == "[DONE]"
    assert frame_line(Frame("", None), 50)[0].text == ": a sign of life"


def test_long_parts_of_a_request_are_folded() -> None:
    assert (
        body_text({"model": "m", "messages": [{"role": "user", "content": "x" * 40}]}) == '{"model":"m","messages":[…]}'
    )


def _failing(scene: Scene, seen: Seen) -> str:
    return " | ".join(scene.problems(seen))


def test_a_clean_end_after_a_cut_is_a_problem() -> None:
    """The third scene's check must see what it is there for."""
    frames = [Frame("message_stop", b'{"type":"message_stop"}')]
    assert "as if it had ended well" in _failing(SCENES[2], Seen(status=200, client=frames, cut=True))


def test_calls_that_do_not_interleave_are_a_problem() -> None:
    seen = Seen(status=200, client=[Frame("", b"[DONE]")])
    assert "two interleaved calls" in _failing(SCENES[1], seen)


def test_both_readings_of_usage_come_to_the_same() -> None:
    chat = b'{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":9}}'
    messages = (
        b'{"type":"message_start","message":{"usage":{"input_tokens":8,"cache_read_input_tokens":4,"output_tokens":0}}}',
        b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}',
    )
    assert told(Dialect.CHAT, [Frame("", chat)]).tokens() == (12, 9)
    assert told(Dialect.MESSAGES, [Frame("", data) for data in messages]).tokens() == (12, 9)

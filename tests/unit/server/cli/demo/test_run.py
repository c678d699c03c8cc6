"""The demo shows what it claims to show, on both sides, and reports it otherwise."""

from __future__ import annotations

import io
import socket
from dataclasses import replace
from typing import Any

import pytest

from dragoman.wire import Json, json_dumps
from dragoman_server import simulator
from dragoman_server.cli.demo import run as package
from dragoman_server.cli.demo.run import demo
from dragoman_server.cli.demo.scenes import SCENES
from dragoman_server.cli.demo.terminal import Terminal, cells
from dragoman_server.config.config_error import ConfigError
from oracles.simulator import strict_simulator


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "make_simulator", strict_simulator)
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
    directions = {(scene.client, scene.upstream) for scene in SCENES}
    assert len(directions) == 7, "each client's dialect translated into both others, and one into Gemini's"
    # Reasoning in both dialects, a fragment of arguments, restored tools, the stop, the cut and its error.
    for piece in (
        '"reasoning_content":"The user needs"',
        '"thinking":"The user needs"',
        r'"arguments":"{\"tz"',
        r'"partial_json":"{\"tz"',
        '"tools":[{"type":"namespace","name":"mcp__notes"',
        '{"function":{"name":"mcp__notes__add_note",…}',
        '"namespace":"mcp__notes"',
        'mcp__notes.add_note({"note":"example"})',
        '…custom_tool_call_input.delta "delta":"*** Begin Patc"',
        r'apply_patch("*** Begin Patch\n*** Add File: notes.txt\n+print(\"Grüße \\n 👋🏽\")\n*** End Patch\n")',
        "custom_wrapped: a free-text tool became a function",
        '"delta":"## never"',
        '"text":"The user needs" "thought":true',
        '"finishReason":"STOP"',
        "✂ the connection fails",
        "upstream connection broke",
        '"param":"n"',
        "nothing was sent",
        "top_k: top_k was not sent",
        "prompt_tokens 12, completion_tokens 9 → Messages: input_tokens 8, cache_read_input_tokens 4",
        "Chat: prompt_tokens 12, completion_tokens 6 → Responses: input_tokens 12, output_tokens 6",
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


async def test_a_scene_that_fails_is_reported_and_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(SCENES[0], body={**SCENES[0].body, "model": "sim-text"})
    monkeypatch.setattr(package, "SCENES", (wrong,))
    status, shown = await _played()
    assert status == 1
    assert "✗ wrong" in shown
    assert "a call were expected" in shown.replace("\n                 ", " ")


async def test_an_error_response_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_it_serves_on_and_prints_next_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "SCENES", ())

    async def stop_at_once() -> None:
        return

    monkeypatch.setattr(package, "wait_for_stop_signal", stop_at_once)
    out = io.StringIO()
    assert await demo(port=0, pace=0, once=False, out=out) == 0
    shown = out.getvalue()
    url = shown.partition("serves on at ")[2].split(". ")[0]
    assert url.startswith("http://127.0.0.1:")
    for hint in (
        f"{url}/v1/messages",
        f"{url}/v1/chat/completions",
        f"{url}/v1/responses",
        f"{url}/v1/dragoman/explain",
        f'base_url="{url}/v1"',
        f"ANTHROPIC_BASE_URL={url} ",
    ):
        assert hint in shown


def test_leaving_an_upstream_that_has_not_finished_is_drawn() -> None:
    def drawn(*frames: Json) -> str:
        out = io.StringIO()
        scene = next(scene for scene in SCENES if "stop sequence" in scene.subject)
        player = package.ScenePlayer(scene, Terminal(out, colour=False, width=120))
        for frame in frames:
            player.received(b"data: " + json_dumps(frame) + b"\n\n")
        player.stopped()
        player.received(b"")  # draws what came before
        return out.getvalue()

    piece = {"type": "response.output_text.delta", "delta": "three###"}
    end = {"type": "response.completed", "response": {"status": "completed", "usage": None}}
    assert "✂ the gateway closes the connection" in drawn(piece)
    assert "✂" not in drawn(piece, end)

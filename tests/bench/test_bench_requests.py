"""The table of translated requests: its content, its checks before the timing, and that peers' figures are of real
conversions."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from dragoman import direction
from dragoman_bench import converters
from dragoman_bench.conversion_check import declared, lost, read_content, undeclared
from dragoman_bench.conversions import Conversions, Peer, Row, cells, head, page, save
from dragoman_bench.converters import Converter
from dragoman_bench.gateways.environments import HOME_VARIABLE
from dragoman_bench.machine import Machine

SCRIPT = Path(__file__).parents[2] / "bench" / "micro" / "requests.py"
DIALECTS = ("chat", "messages", "responses")
CROSS = [(client, upstream) for client in DIALECTS for upstream in DIALECTS if client != upstream]

MACHINE = Machine("A Processor", 2, 8 << 30, "Linux 6", "CPython 3.11", {"orjson": "3.13.0"}, "abc1234567+")
ROW = Row(
    "messages",
    "chat",
    "played",
    messages=219,
    bytes=104_000,
    parse_us=600.0,
    dump_us=400.0,
    translate_us=2000.0,
    given_us=1400.0,
    peers={"one": Peer(2000.0), "two": Peer(None, "no")},
)

PEER = """
def convert(body, target, source_provider):
    if target == "openai_responses":
        raise ValueError("not this")
    return {"messages": body["messages"][:-1], "tools": []}
"""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """Return the names that it defines."""
    return runpy.run_path(str(SCRIPT))


# --- output -----------------------------------------------------------------------------------------------------------


def test_a_conversion_is_without_parsing_and_writing_and_has_its_ratio() -> None:
    assert ROW.conversion_us == 1000.0
    assert ROW.ratio("one") == 0.5
    assert cells(ROW, ("one", "two")) == [
        *("messages→chat", "played", "219", "104", "2,000", "3.33×", "1,000"),
        *("2,000", "0.50×", "–*", "–"),
    ]
    assert len(head(("one", "two"))) == len(cells(ROW, ("one", "two")))


def test_bytes_that_are_passed_on_are_not_converted() -> None:
    row = Row("chat", "chat", "plain", 20, 1000, 5.0, 4.0, 6.0, 1.0)
    assert row.conversion_us is None
    assert cells(row, ("one",))[-3:] == ["–", "–", "–"]


def test_a_run_is_saved_as_a_page_and_as_data_beside_the_one_before(tmp_path: Path) -> None:
    run = Conversions("2026-11-21T10:00:00Z", "requests.py", 40, MACHINE, {"one": "1.0", "two": "2.0"}, [ROW])
    first, second = save(run, tmp_path), save(run, tmp_path)
    assert (first.name, second.name) == ("2026-11-21-abc1234567", "2026-11-21-abc1234567-2")
    expected = json.loads((first / "results.json").read_text())
    assert expected["rows"][0]["peers"] == {"one": {"us": 2000.0, "note": ""}, "two": {"us": None, "note": "no"}}
    text = (first / "README.md").read_text()
    assert text == page(run)
    assert "| messages→chat | played | 219 | 104 | 2,000 | 3.33× | 1,000 | 2,000 | 0.50× | –* | – |" in text
    assert "one 1.0, two 2.0; commit abc1234567+" in text
    assert "- messages→chat, played, 219 messages: two: no\n" in text


# --- what is checked --------------------------------------------------------------------------------------------------

CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Obey."},
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "f"}},
        {"type": "custom", "custom": {"name": "g"}},
    ],
}
MESSAGES: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"x": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "done"}]},
    ],
    "tools": [{"name": "f"}, {"name": "g"}, {"type": "web_search_20250305", "name": "web_search"}],
}
RESPONSES: dict[str, Any] = {
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"x": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
    ],
    "tools": [
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
        {"type": "custom", "name": "g"},
        {"type": "web_search"},
    ],
}


def test_the_content_is_equal_in_every_dialect() -> None:
    expected = [("text", "a"), ("call", "c", "f", '{"x": 1}'), ("result", "c", "done")]
    assert (
        read_content("chat", CHAT)
        == read_content("messages", MESSAGES)
        == read_content("responses", RESPONSES)
        == expected
    )


def test_what_is_lost_is_counted() -> None:
    expected = read_content("chat", CHAT)
    assert lost(expected, expected) == ""
    assert lost(expected * 2, expected) == "3 of 6 texts, calls and results lost or changed"


def test_tools_have_their_names_in_every_dialect() -> None:
    assert declared("chat", CHAT) == declared("responses", RESPONSES) == ["f", "g"]
    assert declared("messages", MESSAGES) == ["f", "g", "web_search"]
    assert undeclared(["f", "g"], ["n__f", "g"]) == ""
    assert undeclared(["f", "g"], ["g"]) == "tools lost or renamed: f"


def test_what_was_lost_on_the_way_is_not_timed(script: dict[str, Any]) -> None:
    going = direction("chat", "messages")
    script["check"](going, read_content, CHAT, MESSAGES)
    for less in ({**MESSAGES, "tools": []}, {**MESSAGES, "messages": MESSAGES["messages"][:-1]}):
        with pytest.raises(AssertionError, match="chat→messages"):
            script["check"](going, read_content, CHAT, less)


# --- the script -------------------------------------------------------------------------------------------------------


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["requests.py", "--rounds", "1", *words])
    runpy.run_path(str(SCRIPT), run_name="__main__")


@pytest.mark.whole
def test_the_timing_runs_and_checks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(monkeypatch, "--sizes", "20", "--out", str(tmp_path))
    rows = capsys.readouterr().out.splitlines()[1:-1]
    kinds = ("agent", "session", "played", "plain")
    assert [line.split()[1] for line in rows] == [kind for kind in kinds for _ in range(9)]
    (saved,) = tmp_path.iterdir()
    assert len(json.loads((saved / "results.json").read_text())["rows"]) == len(rows)


def test_a_peer_that_fails_or_loses_something_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    programs = tmp_path / "llm-rosetta" / "bin"
    programs.mkdir(parents=True)
    (programs / "llm-rosetta-gateway").touch()
    (programs / "python").symlink_to(sys.executable)
    (tmp_path / "llm_rosetta.py").write_text(PEER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    run(monkeypatch, "--sizes", "6", "--kinds", "agent", "--peers", "--only", "messages→")
    out = capsys.readouterr().out
    assert "`dragoman bench peers install litellm`" in out
    assert "messages→responses, agent, 5 messages: llm-rosetta: llm-rosetta cannot convert this: ValueError" in out
    assert "texts, calls and results lost or changed; tools lost or renamed: " in out


# --- real peers -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=converters.PEERS)
def peer(request: pytest.FixtureRequest) -> Iterator[Converter]:
    """One that is installed."""
    if expected := converters.missing(request.param):
        pytest.skip(expected)
    converter = converters.start(request.param)
    yield converter
    converter.close()


@pytest.mark.parametrize(("client", "upstream"), CROSS)
def test_what_is_timed_of_a_peer_is_all_of_the_request(
    peer: Converter, script: dict[str, Any], client: str, upstream: str
) -> None:
    make, expected = script["KINDS"]["played"]
    body = make(client, upstream, 20)
    converted = peer.convert(body, client, upstream)
    assert script["kept"](direction(client, upstream), expected, orjson.loads(body), converted) == ""
    assert peer.seconds(1) > 0

"""Counted instructions: the saved table, its comparison, the changelog's list, and both sides of a counted gateway."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman_bench import cli
from dragoman_bench.gateways import GATEWAYS
from dragoman_bench.gateways.launch import free_port
from dragoman_bench.instructions import callgrind, command, measure, saved
from dragoman_bench.instructions.lockstep import Lockstep, is_complete
from dragoman_bench.instructions.measure import FLOOR, GATEWAY, PASS, ROWS, Counts, Subject
from dragoman_bench.instructions.saved import Row, Table, compare, listed
from dragoman_bench.replies import reply
from dragoman_bench.wire import UPSTREAMS, request
from support.programs import installed

CHAT, ACROSS = ("chat", "chat"), ("messages", "chat")
ROW = Row(1000, 800, 500)
ROOT = Path(__file__).parents[2]


def changelog(*entries: str) -> str:
    """Return a changelog with these entries in its unreleased section, and one in an older section."""
    lines = [f"- {entry}" for entry in entries]
    return "\n".join(
        ["# Changes", "", "## Unreleased", "", *lines, "", "## 0.1", "", "- Old: `chunk chat-chat` 9.9 ×."]
    )


# --- comparison -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("instructions", "grows"), [(1000, False), (1029, False), (1031, True), (5000, True)])
def test_a_row_may_grow_by_three_percent(instructions: int, *, grows: bool) -> None:
    found = compare({"start chat-chat": ROW}, {"start chat-chat": replace(ROW, instructions=instructions)}, {})
    assert list(found.grown) == ["start chat-chat"] * grows
    assert not found.listed


def test_a_ratio_is_compared_and_not_a_count() -> None:
    slower_python = Row(2000, 1600, 1000)
    faster_proxy = Row(1000, 700, 500)
    found = compare({"a x-y": ROW, "b x-y": ROW}, {"a x-y": slower_python, "b x-y": faster_proxy}, {})
    assert list(found.grown) == ["b x-y"]
    assert found.grown["b x-y"] == "b x-y: 1.250 × → 1.429 × (+14.3%)"


def test_a_listed_row_may_reach_the_listed_ratio() -> None:
    name, new = "start chat-chat", {"start chat-chat": Row(1200, 800)}
    assert list(compare({name: ROW}, new, {name: 1.50}).listed) == [name]
    assert list(compare({name: ROW}, new, {name: 1.30}).grown) == [name]


def test_smaller_and_unknown_rows_are_reported() -> None:
    found = compare({"a x-y": ROW}, {"a x-y": replace(ROW, instructions=900), "b x-y": ROW}, {})
    assert (list(found.shrunk), found.new, found.grown) == (["a x-y"], ["b x-y"], {})


def test_rows_are_listed_in_the_unreleased_section_only() -> None:
    text = changelog(
        "Stop sequences: `start messages-chat` 1.72 ×, `chunk\n  chat-messages` 0.7 ×.",
        "Counts: `start chat-chat`\n  1.4 × and `agent chat-chat` without a ratio.",
    )
    assert listed(text) == {"start messages-chat": 1.72, "start chat-chat": 1.4}
    assert listed("# Changes\n\n## 0.1\n") == {}


# --- the file -------------------------------------------------------------------------------------------------------


def test_the_file_is_sorted_with_a_line_for_each_row(tmp_path: Path) -> None:
    path = tmp_path / "results" / "instructions.json"
    table = Table.here({"start b-c": ROW, "chunk b-c": Row(1, 3)})
    table.save(path)
    assert saved.load(path) == table
    lines = path.read_text().splitlines()
    assert [line.split('"')[1] for line in lines[-5:-2]] == ["rows", "chunk b-c", "start b-c"]
    assert '"ratio": 0.3333' in lines[-4]
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 0}))
    with pytest.raises(ValueError, match="has schema 0"):
        saved.load(path)


def test_the_saved_file_has_every_row() -> None:
    rows = saved.load(ROOT / command.FILE).rows
    known = {f"{row} {'-'.join(pair)}" for row in ROWS for pair in cli.directions("all", UPSTREAMS)}
    assert set(rows) == {row for row in known if not (row.startswith("turn ") and row.endswith("-generate"))}
    assert all(row.ratio <= 0.9 for name, row in rows.items() if name.startswith("chunk "))
    assert all(row.floor for name, row in rows.items() if name in ("chunk messages-chat", "whole chat-responses"))


class Checked:
    """A check of rows against a saved table and a changelog, and the lines that it logs."""

    def __init__(self, folder: Path, table: Table, text: str = changelog()) -> None:
        self.file, self.changelog = folder / "saved.json", folder / "changelog.md"
        table.save(self.file)
        self.changelog.write_text(text)
        self.lines: list[str] = []

    def __call__(self, rows: dict[str, Row]) -> int:
        """Return the status."""
        return command.check(rows, self.file, self.changelog, self.lines.append)


def test_a_check_fails_for_a_grown_row_and_states_what_to_list(tmp_path: Path) -> None:
    table = Table.here({"start chat-chat": ROW, "whole chat-chat": ROW})
    checked = Checked(tmp_path, table)
    assert checked({"start chat-chat": ROW, "whole chat-chat": ROW}) == 0
    assert checked.lines == []
    grown = {"start chat-chat": Row(1100, 800), "whole chat-chat": Row(900, 800)}
    assert checked(grown) == 1
    output = "\n".join(checked.lines)
    assert "start chat-chat: 1.250 × → 1.375 × (+10.0%)" in output
    assert "shrank, save them:\n  whole chat-chat" in output
    assert "`start chat-chat` 1.38 ×" in output
    assert Checked(tmp_path, table, changelog(f"It {checked.lines[-1].rpartition(': ')[2]}."))(grown) == 0


def test_a_check_needs_a_saved_table_with_the_rows(tmp_path: Path) -> None:
    checked = Checked(tmp_path, Table.here({}))
    assert checked({"start chat-chat": ROW}) == 1
    assert "not in the saved counts: start chat-chat" in checked.lines[-1]
    checked.file.unlink()
    assert checked({}) == 1
    assert "--save" in checked.lines[-1]


def test_counts_of_other_software_are_not_compared(tmp_path: Path) -> None:
    here = Table.here({"start chat-chat": Row(1, 100)})
    rows = {"start chat-chat": ROW}
    patch = Checked(tmp_path, replace(here, python=here.python + "0"))
    assert patch(rows) == 1  # another bug-fix release is compared
    python = Checked(tmp_path, replace(here, python="CPython 2.7.18"))
    assert python(rows) == 0
    assert "saved with CPython 2.7, here CPython 3" in python.lines[-1]
    packages = Checked(tmp_path, replace(here, packages={**here.packages, "aiohttp": "1.0"}))
    assert packages(rows) == 1
    assert "aiohttp was 1.0, is 3" in packages.lines[-1]


# --- the table ------------------------------------------------------------------------------------------------------


def counts(start: int) -> Counts:
    """Return counts with all rows."""
    return {"chunk": 10, "start": start, "whole": 30, "agent": 40, "turn": 50}


def test_the_table_has_ratios_to_the_proxy_and_to_the_floor() -> None:
    bare = {name: count for name, count in counts(10).items() if name not in ("agent", "turn")}
    found = {
        Subject(GATEWAY, CHAT, "here"): counts(90),
        Subject(GATEWAY, ACROSS, "here"): counts(120),
        Subject(PASS, CHAT): counts(60),
        Subject(FLOOR, ACROSS): bare,
    }
    rows = command.collect(found, [CHAT, ACROSS], "here")
    assert rows["start messages-chat"] == Row(120, 60, 10)
    assert rows["agent messages-chat"].floor is None
    table = command.table(rows, [CHAT, ACROSS], {})
    assert table.head[4:7] == ["start", "× pass", "× floor"]
    assert table.head[-4:] == ["agent", "× pass", "turn", "× pass"]
    assert table.rows[0][4:7] == ["0.1k", "1.50", "–"]
    assert table.rows[1][4:7] == ["0.1k", "2.00", "12.00"]
    other = command.table(rows, [CHAT, ACROSS], {name: replace(row, instructions=240) for name, row in rows.items()})
    assert other.rows[1][5:9] == ["0.1k", "2.00", "12.00", "0.500"]


def test_the_command_measures_each_reference_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Subject] = []

    def measured(subjects: Sequence[Subject], log: object) -> dict[Subject, Counts]:
        seen.extend(subjects)
        return {subject: counts(20) for subject in subjects}

    monkeypatch.setattr(callgrind, "available", lambda: True)
    monkeypatch.setattr(command, "measure", measured)
    file = f"--file={tmp_path / 'i.json'}"
    assert cli.main(["--quick", "instructions", "--directions", "messages-chat,chat-chat", "--save", file]) == 0
    assert [subject.kind for subject in seen] == [GATEWAY, GATEWAY, PASS, FLOOR]
    assert cli.main(["instructions", "--directions", "messages-chat", "--no-floor", "--check", file]) == 0
    assert cli.main(["instructions", "--save", "--python", "other", file]) == 2
    monkeypatch.setattr(callgrind, "available", lambda: False)
    assert cli.main(["instructions"]) == 2


# --- the counted process --------------------------------------------------------------------------------------------


def test_both_sides_work_in_lockstep() -> None:
    async def floor(url: str) -> None:
        started = await GATEWAYS["floor"].start(url, ACROSS, None)
        try:
            await asyncio.to_thread(work, int(started.url.rpartition(":")[2]))
        finally:
            await started.stop()

    def work(port: int) -> None:
        lockstep, sent = Lockstep(port, listener, lambda: None), reply("chat", 32)
        lockstep.stream("messages", request("messages", "m"), sent, 3)
        lockstep.whole("messages", request("messages", "m", stream=False), sent)
        lockstep.stream("messages", request("messages", "m"), sent, 1)
        lockstep.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(floor(f"http://127.0.0.1:{listener.getsockname()[1]}"))


@pytest.mark.parametrize(
    ("data", "complete"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", False),
        (b"HTTP/1.1 200 OK\r\n\r\n", False),
    ],
)
def test_a_message_is_complete_by_its_length_or_its_last_chunk(data: bytes, *, complete: bool) -> None:
    assert is_complete(data) is complete


@pytest.mark.whole
def test_counts_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    installed("valgrind")
    monkeypatch.setattr(measure, "_CHUNKS", 40)
    monkeypatch.setattr(measure, "_BLOCKS", 2)
    subject, output = Subject(FLOOR, ACROSS), list[str]()
    first, second = (measure.measure([subject], output.append)[subject] for _ in range(2))
    assert list(first) == ["chunk", "start", "whole"]
    assert all(second[row] == pytest.approx(first[row], rel=0.02) for row in first)
    assert first["chunk"] < first["whole"] < first["start"]
    assert output[0].startswith("floor messages-chat: chunk ")


def test_a_process_that_does_not_listen_is_an_error_with_its_log() -> None:
    installed("valgrind")
    with pytest.raises(RuntimeError, match="No module named nosuch"):
        callgrind.CountedProcess("python3", "nosuch", (), free_port())

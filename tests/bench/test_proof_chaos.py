"""Faults of the environment: each scenario of `dragoman_proof chaos` holds, and the command reports what does not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman_proof import cli
from dragoman_proof.chaos import catalogue, certificates, clocks, descriptors, disks, memory, names, postgres, redis
from dragoman_proof.chaos.scenario import PREFIX, Missing, Play, clean_up, holds, judged, name_of
from support.programs import lacking


async def play(scenario: Play) -> None:
    """Play a scenario. Skips the test where the machine lacks what it needs."""
    verdict = await judged(scenario)
    if verdict.word == "skipped":
        lacking(verdict.text)
    assert verdict.word == "holds", verdict.text


@pytest.mark.whole
async def test_no_descriptors() -> None:
    await play(descriptors.no_descriptors)


@pytest.mark.whole
async def test_no_descriptors_upstream() -> None:
    await play(descriptors.no_descriptors_upstream)


@pytest.mark.whole
async def test_full_disk_jsonl() -> None:
    await play(disks.full_disk_jsonl)


@pytest.mark.whole
async def test_full_disk_sqlite() -> None:
    await play(disks.full_disk_sqlite)


@pytest.mark.whole
async def test_full_disk_captures() -> None:
    await play(disks.full_disk_captures)


@pytest.mark.whole
async def test_full_disk_log() -> None:
    await play(disks.full_disk_log)


@pytest.mark.whole
async def test_read_only_disk() -> None:
    await play(disks.read_only_disk)


@pytest.mark.whole
async def test_no_memory() -> None:
    await play(memory.no_memory)


@pytest.mark.whole
async def test_clock_jumps() -> None:
    await play(clocks.clock_jumps)


@pytest.mark.whole
async def test_clock_of_a_host() -> None:
    await play(clocks.clock_of_a_host)


@pytest.mark.whole
async def test_clock_and_credentials() -> None:
    await play(clocks.clock_and_credentials)


@pytest.mark.whole
async def test_name_moves() -> None:
    await play(names.name_moves)


@pytest.mark.whole
async def test_name_server_hangs() -> None:
    await play(names.name_server_hangs)


@pytest.mark.whole
async def test_certificate_expires() -> None:
    await play(certificates.certificate_expires)


@pytest.mark.whole
async def test_memory_kill() -> None:
    await play(memory.memory_kill)


@pytest.mark.whole
async def test_postgres_slow() -> None:
    await play(postgres.postgres_slow)


@pytest.mark.whole
async def test_postgres_emptied() -> None:
    await play(postgres.postgres_emptied)


@pytest.mark.whole
async def test_postgres_truncated() -> None:
    await play(postgres.postgres_truncated)


@pytest.mark.whole
async def test_postgres_read_only() -> None:
    await play(postgres.postgres_read_only)


@pytest.mark.whole
async def test_postgres_killed() -> None:
    await play(postgres.postgres_killed)


@pytest.mark.whole
async def test_redis_slow() -> None:
    await play(redis.redis_slow)


def test_every_scenario_has_a_test() -> None:
    assert {f"test_{each.__name__}" for each in catalogue.SCENARIOS} <= globals().keys()


async def sound(folder: Path) -> None:
    """It holds."""
    holds(folder.name, "a folder")


async def wrong(folder: Path) -> None:
    """It does not hold."""
    holds(not folder.name, "a folder without a name", folder.name[:7])


async def elsewhere(folder: Path) -> None:
    """It needs what is not there."""
    raise Missing("no such machine")


def test_the_command_prints_a_line_for_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalogue, "SCENARIOS", (sound, wrong, elsewhere))
    assert cli.main(["chaos"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["sound", "holds"],
        ["wrong", "broken"],
        ["elsewhere", "skipped"],
    ]
    assert "a folder without a name: dragoma" in lines[1]
    assert lines[3] == "1 broken, 1 holds, 1 skipped"
    assert cli.main(["chaos", name_of(sound)]) == 0


def test_what_killed_commands_left_is_deleted(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    left, used, other = (tmp_path / name for name in (f"{PREFIX}{ended.pid}-a", f"{PREFIX}{os.getpid()}-b", "other"))
    for folder in (left, used, other):
        (folder / "inner").mkdir(parents=True)
    assert clean_up(tmp_path) == [left]
    assert sorted(tmp_path.iterdir()) == sorted((used, other))


@pytest.mark.whole
def test_a_command_that_is_terminated_deletes_its_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dragoman_proof", "chaos", "clock-jumps"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "1/1 clock-jumps\n"
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(f"{PREFIX}{process.pid}-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.terminate()
        process.communicate(timeout=60)
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_an_unknown_name_lists_the_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["chaos", "nothing"]) == 2
    assert "clock-jumps" in capsys.readouterr().out

"""A token that a program prints: its forms, and programs that fail, print nothing, print too much, or hang."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from dragoman_server.config.provider import Secret
from dragoman_server.credentials.command import OUTPUT_MAX, CommandToken
from dragoman_server.credentials.credential import Grant, SourceError
from support.waiting import until

NOW = 1_800_000_000.0


def printing(text: str) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.stdout.write({text!r})"]


async def fetched(command: list[str], **options: float) -> Grant[Secret]:
    return await CommandToken(command, now=lambda: NOW, **options).fetch()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("canary-1\n", 300.0),
        ('{"token": "canary-1"}', 300.0),
        ('{"token": "canary-1", "expires_at": null, "other": 1}', 300.0),
        ('{"token": "canary-1", "expires_at": 1800000060}', 60.0),
        ('{"token": "canary-1", "expires_at": 1800000060.5}', 60.5),
        ('{"token": "canary-1", "expires_at": "2027-01-15T08:01:00Z"}', 60.0),
        ('{"token": "canary-1", "expires_at": "2027-01-15T08:01:00"}', 60.0),
        ('{"token": "canary-1", "expires_at": "2027-01-15T09:01:00+01:00"}', 60.0),
    ],
)
async def test_the_forms_of_output(text: str, seconds: float) -> None:
    assert await fetched(printing(text)) == Grant(Secret("canary-1"), seconds)


async def test_the_configured_time_to_live() -> None:
    assert (await fetched(printing("canary-1"), ttl=7.0)).seconds == 7.0
    assert (await fetched(printing('{"token": "a", "expires_at": 1800000060}'), ttl=7.0)).seconds == 60.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "printed nothing: let it print the token"),
        (" \n", "printed nothing"),
        ("canary 1", "is no token"),
        ("canary-1\ncanary-2", "is no token"),
        ('{"token": "canary-1"', "begins like JSON and is not"),
        ('{"access_token": "canary-1"}', 'has no "token"'),
        ('{"token": 1}', 'has no "token"'),
        ('{"token": "canary-1", "expires_at": "soon"}', "is no time"),
        ('{"token": "canary-1", "expires_at": true}', "is no time"),
        ('{"token": "canary-1", "expires_at": 1799999999}', "has expired already"),
        ("c" * (OUTPUT_MAX + 1), "printed more than 65536 bytes"),
    ],
)
async def test_output_without_a_token(text: str, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        await fetched(printing(text))
    assert "canary" not in str(caught.value)


async def test_output_that_is_no_text() -> None:
    with pytest.raises(SourceError, match="is not text"):
        await fetched([sys.executable, "-c", r"import os; os.write(1, b'\xff\xfe')"])


async def test_a_program_that_fails_shows_its_status_and_none_of_its_output() -> None:
    code = "import sys; print('canary-1'); print('canary-2', file=sys.stderr); sys.exit(3)"
    with pytest.raises(SourceError, match="ended with status 3: run it by hand") as caught:
        await fetched([sys.executable, "-c", code])
    assert "canary" not in str(caught.value)
    with pytest.raises(SourceError, match="was ended by signal 9"):
        await fetched([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])


@pytest.mark.parametrize("program", ["/nowhere/program", "a\x00b"])
async def test_a_program_that_cannot_be_started(program: str) -> None:
    with pytest.raises(SourceError, match="cannot be started"):
        await fetched([program])


async def test_a_program_gets_no_input() -> None:
    code = "import sys; print(len(sys.stdin.read()), end='')"
    assert (await fetched([sys.executable, "-c", code])).value == Secret("0")


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if its parent has not read its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def ended(pid: int) -> None:
    await until(lambda: has_ended(pid))


async def test_a_program_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    """Also its child, which has the pipe and would keep it open."""
    note = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid) + '\\n')\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(SourceError, match=r"did not end within 2 s and was killed: run it by hand"):
        await fetched([sys.executable, "-c", code], seconds=2.0)
    await ended(int(note.read_text()))


async def test_a_child_that_keeps_the_pipe_open_is_a_program_that_hangs(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid) + '\\n')\n"
        "print('canary-1')\n"
    )
    with pytest.raises(SourceError, match="did not end within"):
        await fetched([sys.executable, "-c", code], seconds=2.0)
    await ended(int(note.read_text()))


async def test_a_fetch_that_is_cancelled_ends_the_program(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    os.mkfifo(note)
    code = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    task = asyncio.create_task(fetched([sys.executable, "-c", code]))
    pid = int(await asyncio.to_thread(note.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ended(pid)

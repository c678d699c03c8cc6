"""A server process under callgrind, whose instructions are counted while this process works with it.

Counts are reproducible because nothing that changes from run to run reaches the process: address-space randomisation is
off, hash seeds are constant, the environment is minimal, and the garbage collector is disabled, since it runs at random
times and one run costs as much as a stream start. Counting starts after the imports, which makes the process start six
times faster.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

SECONDS = 240.0
"""Maximum seconds of a single wait: callgrind is about 50 times slower than the machine."""
MISSING = "valgrind is missing: apt-get install valgrind, or your system's package"
_NEEDED = ("valgrind", "vgdb", "setarch")
_RUN = "import gc, runpy; gc.disable(); runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
_EVENTS = re.compile(r"^events-\d+: (\d+)", re.MULTILINE)
_POLL = 0.0005
_LOG_SHOWN = 1000


def available() -> bool:
    """True if the programs that count are installed."""
    return all(shutil.which(name) for name in _NEEDED)


class CountedProcess:
    """A Python module that runs as a server under callgrind. `{folder}` in its arguments stands for its folder."""

    def __init__(
        self,
        python: str,
        module: str,
        arguments: Sequence[str],
        port: int,
        *,
        env: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        python_options: Sequence[str] = (),
    ) -> None:
        """Start it and wait until it listens on `port`. Raises RuntimeError with the end of its log.

        `options` are further ones of callgrind, `python_options` those of the interpreter.
        """
        self._temporary = tempfile.TemporaryDirectory(prefix="dragoman-bench-", ignore_cleanup_errors=True)
        self._folder = folder = Path(self._temporary.name)
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        command = ["setarch", "-R", "valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet"]
        command += [*options, f"--callgrind-out-file={folder}/out"]
        command += [python, *python_options, "-c", _RUN.format(module=module)]
        command += [argument.replace("{folder}", str(folder)) for argument in arguments]
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        constant = {"HOME": str(folder), "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, env={**kept, **constant, **(env or {})}, stdout=log, stderr=log, cwd=folder
            )
        try:
            self._wait(port)
            self._control("instrumentation", "on")
        except BaseException:
            self.stop()
            raise

    def _wait(self, port: int) -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        log = (self._folder / "log").read_text(errors="replace")
        raise RuntimeError(f"the process does not listen on port {port}: {log[-_LOG_SHOWN:]}")

    def settle(self) -> None:
        """Wait until the process sleeps, so that its event loop has the same turns in every run."""
        stat: IO[bytes]
        with open(f"/proc/{self._process.pid}/stat", "rb") as stat:
            end = time.monotonic() + SECONDS
            while stat.read().rpartition(b")")[2].split()[0] != b"S":
                if time.monotonic() > end:
                    raise TimeoutError(f"the process is busy for {SECONDS:.0f} s")
                time.sleep(_POLL)
                stat.seek(0)

    def count(self, work: Callable[[], None]) -> int:
        """Return the number of instructions that the process executes in user space during `work`, in all threads."""
        self.settle()
        self._control("zero")
        work()
        self.settle()
        return sum(int(found) for found in _EVENTS.findall(self._control("status", "internal")))

    def dump(self) -> str:
        """Return callgrind's output about what was counted last: the calls between functions."""
        self._control("dump")
        newest = max(self._folder.glob("out.*"), key=lambda path: int(path.name.rpartition(".")[2]))
        return newest.read_text()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def _control(self, *words: str) -> str:
        """Send a command to callgrind and return its output."""
        command = ["vgdb", f"--pid={self._process.pid}", *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
        return done.stdout

    def stop(self) -> None:
        """End the process and remove its folder."""
        self._process.kill()
        self._process.wait()
        self._temporary.cleanup()

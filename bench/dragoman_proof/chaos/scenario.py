"""A scenario: one fault of the environment, and the promise about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Final

PREFIX: Final = "dragoman-chaos-"
"""Begins the name of a scenario's folder; the id of the process follows."""
Play = Callable[[Path], Awaitable[None]]
"""Plays a scenario in an empty folder. Raises Broken, Missing, or TimeoutError for an event that never came."""


class Broken(Exception):
    """A promise does not hold."""


class Missing(Exception):
    """The machine lacks what a scenario needs: a program, a package, or root."""


def holds(condition: object, promise: str, *seen: object) -> None:
    """Raise Broken unless the condition holds. `seen` is what was found instead."""
    if not condition:
        raise Broken(": ".join([promise, *map(str, seen)]))


def program(name: str, package: str) -> str:
    """Return the path of a program. Raises Missing with the name of Debian's package."""
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not installed (Debian: apt-get install {package})")
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a scenario: `holds`, `broken` or `skipped`, and why."""

    name: str
    word: str
    text: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.name:<24} {self.word:<8} {self.seconds:6.1f} s  {self.text}"


async def judged(play: Play) -> Verdict:
    """Play a scenario in a folder of its own, which is deleted."""
    folder, begun = Path(mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")), time.monotonic()
    word, text = "holds", first_line(play)
    try:
        await play(folder)
    except Missing as error:
        word, text = "skipped", str(error)
    except Exception as error:  # of any kind: the other scenarios are played, too
        word, text = "broken", f"{type(error).__name__}: {str(error) or 'an event did not come in time'}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Verdict(name_of(play), word, text, time.monotonic() - begun)


def clean_up(folder: Path | None = None) -> list[Path]:
    """Delete the folders, and unmount the disks, of commands that were killed. Return the folders of `folder`."""
    left = []
    for path in Path(folder or gettempdir()).glob(f"{PREFIX}*-*"):
        pid = path.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            mounts = [line.split()[1] for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
            for mount in filter(lambda mount: mount.startswith(f"{path}/"), mounts):
                subprocess.run(["umount", "-l", mount], check=False)
            shutil.rmtree(path, ignore_errors=True)
            left.append(path)
    return left


def name_of(play: Play) -> str:
    """Return the name of a scenario on the command line."""
    return play.__name__.replace("_", "-")


def first_line(play: Play) -> str:
    """Return the promise of a scenario."""
    return (play.__doc__ or "").splitlines()[0]


def chosen(plays: Iterable[Play], names: Iterable[str]) -> list[Play]:
    """Return the scenarios of these names, all of them without a name. Raises KeyError for an unknown one."""
    known = {name_of(play): play for play in plays}
    return [known[name] for name in names] or list(known.values())

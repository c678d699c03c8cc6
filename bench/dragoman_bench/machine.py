"""Description of the machine and the software of a run."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("dragoman", "aiohttp", "uvloop", "orjson", "httptools")


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine and the software that all gateways share. `commit` ends in `+` if files differ from it."""

    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    python: str
    packages: dict[str, str] = field(default_factory=dict)
    commit: str = ""

    @classmethod
    def here(cls) -> Machine:
        """Return the description of this machine."""
        packages = {name: found for name in _PACKAGES if (found := _version(name))}
        return cls(
            _cpu(),
            os.cpu_count() or 1,
            _memory(),
            f"{platform.system()} {platform.release()}",
            f"{platform.python_implementation()} {platform.python_version()}",
            packages,
            _commit(Path(__file__).resolve().parents[2]),
        )

    def __str__(self) -> str:
        size = f"{self.memory_bytes / 2**30:.0f} GB"
        cores = f"{self.cores} core" + ("" if self.cores == 1 else "s")
        return f"{self.cpu}, {cores}, {size}, {self.kernel}, {self.python}"


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _commit(checkout: Path) -> str:
    """Return the commit of the checkout, or an empty string for an installed wheel."""
    if not (checkout / ".git").exists():
        return ""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "engine", "server", "bench")
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""

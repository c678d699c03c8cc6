"""Environments of peers: one for each, made on request, with versions that were tested with this rig."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType

from dragoman_bench.gateways.launch import StartError

HOME_VARIABLE = "DRAGOMAN_BENCH_HOME"
_LONGEST_INSTALL = 1800.0
_OUTPUT_MAX = 1500


def home() -> Path:
    """Return the folder of all peers: $DRAGOMAN_BENCH_HOME, else one in the user's cache."""
    if given := os.environ.get(HOME_VARIABLE):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman-bench"


@dataclass(frozen=True, slots=True)
class Environment:
    """One peer's software: a PyPI package in a virtual environment, or an npm package in a folder.

    `version` was tested with this rig; `executable` is in the environment's folder of programs. `overrides` are
    versions of the package's dependencies, for npm.
    """

    name: str
    source: str
    package: str
    version: str
    executable: str
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the environment, which may not exist."""
        return home() / self.name

    @property
    def program(self) -> Path:
        """The path of its program."""
        programs = "bin" if self.source == "PyPI" else "node_modules/.bin"
        return self.folder / programs / self.executable

    def missing(self) -> str | None:
        """Return advice if it is not installed, else None."""
        if self.program.exists():
            return None
        return f"{self.package} is not installed: `dragoman bench peers install {self.name}`"

    def installed_version(self) -> str:
        """Return the installed version, or an empty string if it is unknown."""
        return _installed(self.source, self.folder, self.package.partition("[")[0])

    def install(self) -> None:
        """Install it, over an existing installation. Raises StartError with the end of the installer's output."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for command in self._commands():
            try:
                done = subprocess.run(
                    command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=_LONGEST_INSTALL
                )
            except OSError as error:
                raise StartError(f"cannot run {command[0]}: {error.strerror}") from error
            except subprocess.TimeoutExpired as error:
                raise StartError(f"{command[0]} took more than {_LONGEST_INSTALL:.0f} s") from error
            if done.returncode:
                output = (done.stdout + done.stderr).strip()[-_OUTPUT_MAX:]
                raise StartError(f"{self.package} {self.version} cannot be installed here:\n{output}")
        _installed.cache_clear()

    def _commands(self) -> Sequence[Sequence[str]]:
        if self.source == "PyPI":
            pip = [str(self.folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            return [
                [sys.executable, "-m", "venv", str(self.folder)],
                [*pip, "--disable-pip-version-check", f"{self.package}=={self.version}"],
            ]
        npm = shutil.which("npm")
        if npm is None:
            raise StartError("npm is not on the path: install Node.js")
        manifest = {"private": True, "overrides": dict(self.overrides)}
        (self.folder / "package.json").write_text(json.dumps(manifest))
        return [[npm, "install", "--no-audit", "--no-fund", f"{self.package}@{self.version}"]]


@cache
def _installed(source: str, folder: Path, package: str) -> str:
    if source == "PyPI":
        asked = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
        command = [str(folder / "bin" / "python"), "-c", asked, package]
    else:
        manifest = folder / "node_modules" / package / "package.json"
        command = ["node", "-p", f"require({str(manifest)!r}).version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


ENVIRONMENTS: Mapping[str, Environment] = MappingProxyType(
    {
        environment.name: environment
        for environment in (
            Environment("litellm", "PyPI", "litellm[proxy]", "1.106.2", "litellm"),
            Environment("llm-rosetta", "PyPI", "llm-rosetta", "0.13.0", "llm-rosetta-gateway"),
            Environment("smg", "PyPI", "smg", "1.13.0", "smg"),
            Environment("sglang-router", "PyPI", "sglang-router", "0.3.2", "sglang-router"),
            # With newer versions it answers every stream with a 500 (TypeError: immutable).
            Environment(
                "portkey",
                "npm",
                "@portkey-ai/gateway",
                "1.15.2",
                "gateway",
                {"@hono/node-server": "1.13.7", "hono": "4.9.7"},
            ),
            # The last complete version: 3.x depends on a package that npm does not have.
            Environment("claude-code-router", "npm", "@musistudio/claude-code-router", "2.0.0", "ccr"),
        )
    }
)

"""Check a wheel as a new user meets it.

    python tests/release/check.py dist/dragoman-1.0.0-py3-none-any.whl [--python 3.12]

Its description must render on a package index, uvx and pipx must run it, and it is installed in an empty environment of
each Python that is found, where smoke.py runs. Twine, uv, uvx and pipx are those of the environment that runs this.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

SMOKE = Path(__file__).with_name("smoke.py")
UV = Path(sys.executable).with_name("uv")
VERSIONS = ("3.11", "3.12", "3.13")
"""The versions of Python that the package states."""
SDKS = ("anthropic>=2.11,<3", "openai>=3.50,<4")


def interpreters(version: str) -> Iterator[str]:
    """Yield the interpreters of a version: on the path, and pyenv's."""
    named = shutil.which(f"python{version}")
    candidates = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for each in filter(None, [named, *map(str, candidates)]):
        # pyenv's shims exist for versions that are not active, and fail.
        if subprocess.run([each, "--version"], capture_output=True, check=False).returncode == 0:
            yield each


def check(wheel: Path, interpreter: str) -> bool:
    """Install the wheel, and run the steps. Return whether all succeeded."""
    with tempfile.TemporaryDirectory() as name:
        folder, environment = Path(name) / "empty", Path(name) / "venv"
        folder.mkdir()
        python = environment / "bin" / "python"
        subprocess.run([interpreter, "-m", "venv", environment], check=True)
        pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
        subprocess.run([*pip, wheel.resolve()], check=True)
        subprocess.run([UV, "pip", "install", "-q", "--python", python, *SDKS], check=True)
        return subprocess.run([python, SMOKE, folder], cwd=folder, check=False).returncode == 0


def tool_steps(wheel: Path, folder: Path) -> list[tuple[str | Path, ...]]:
    """Return the commands that check the description with Twine, and run the wheel with uvx and pipx below `folder`."""
    tools = Path(sys.executable).parent
    return [
        (tools / "twine", "check", "--strict", wheel),
        (tools / "uvx", "--from", wheel, "dragoman", "demo", "--once", "--port", "0", "--pace", "0"),
        (tools / "pipx", "install", wheel),
        (folder / "bin" / "dragoman", "--version"),
    ]


def check_tools(wheel: Path) -> bool:
    """Run the tools. Return whether all succeeded."""
    with tempfile.TemporaryDirectory() as name:
        homes = {"PIPX_HOME": name, "PIPX_BIN_DIR": f"{name}/bin", "PIPX_MAN_DIR": f"{name}/man"}
        for step in tool_steps(wheel.resolve(), Path(name)):
            done = subprocess.run(step, cwd=name, env=os.environ | homes, capture_output=True, text=True, check=False)
            words = " ".join(Path(word).name for word in step)
            print(f"{words}: {'ok' if done.returncode == 0 else done.stdout + done.stderr}", flush=True)
            if done.returncode != 0:
                return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the wheel, and each version. Return 1 if one fails, or if there is no interpreter at all."""
    parser = argparse.ArgumentParser(description="Check a wheel in empty environments.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", action="append", metavar="VERSION", help=f"default: {', '.join(VERSIONS)}")
    args = parser.parse_args(arguments)
    failed, checked = [], 0
    if not check_tools(args.wheel):
        failed.append("tools")
    for version in args.python or VERSIONS:
        interpreter = next(interpreters(version), None)
        if interpreter is None:
            print(f"Python {version}: not found", flush=True)
            continue
        print(f"Python {version}: {interpreter}", flush=True)
        checked += 1
        if not check(args.wheel, interpreter):
            failed.append(version)
    print(f"checked: {checked}, failed: {', '.join(failed) or 'none'}")
    return int(bool(failed) or not checked)


if __name__ == "__main__":
    sys.exit(main())

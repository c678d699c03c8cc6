"""Programs in a root of their own, as in a container: its files, mounts of its own, and the machine's network."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_MOUNT = """
mount --bind "$ROOT" "$ROOT"
mkdir -p "$ROOT/proc" "$ROOT/dev"
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
for volume in $VOLUMES; do mount --bind "$ROOT$volume" "$ROOT$volume"; done
[ -z "$READ_ONLY" ] || mount -o remount,ro,bind "$ROOT"
"""


def can_mount() -> None:
    """Skip the test where this process may not mount anything."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to run programs in a root of their own")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a mount namespace of its own")


@dataclass(frozen=True)
class Chroot:
    """A folder with the files of a system. Programs in it see `/proc` and `/dev` of this machine."""

    path: Path

    def words(
        self,
        *command: str,
        env: Mapping[str, str],
        user: str = "0:0",
        read_only: bool = False,
        volumes: Sequence[str] = (),
    ) -> list[str]:
        """Return the words that run a command as the only process, so that its signals are the command's.

        With `read_only` only the folders `volumes` can be written.
        """
        settings = f"ROOT='{self.path}'; VOLUMES='{' '.join(volumes)}'; READ_ONLY={'yes' * read_only}\n"
        script = f'set -e\n{settings}{_MOUNT}\nexec env -i "$@"'
        variables = [f"{name}={value}" for name, value in env.items()]
        chroot = [str(shutil.which("chroot")), f"--userspec={user}", str(self.path)]
        return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", *variables, *chroot, *command]

    def run(self, *command: str, seconds: float = 600, **options: Any) -> str:
        """Run a command, and return its standard output. It must not fail."""
        done = subprocess.run(
            self.words(*command, **options), capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

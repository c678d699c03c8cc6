"""Copies into an empty folder what the gateway needs to run, and nothing else: the root of the container image.

    /opt/dragoman/bin/python image_root.py /opt/dragoman /image

The root has the environment that is named, its interpreter with the standard library, the shared libraries that these
are linked with, certificates and time zones. It has no shell, no package manager and no compiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from compileall import compile_dir
from pathlib import Path

USER = 10001
LEFT_OUT = (
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "config-*"),
    *("*.a", "*.pxd", "*.proto", "*.pyi", "*.pyx"),
)
"""Folders and files of the standard library and of packages that no server uses."""
PACKAGES = ("site-packages", "dist-packages")
"""Folders below the standard library that are not those of the environment."""
FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/openssl.cnf", "/etc/nsswitch.conf", "/usr/share/zoneinfo")
LINKER = ("/etc/ld.so.conf", "/etc/ld.so.conf.d")
_ELF = b"\x7fELF"


def make_root(environment: Path, root: Path) -> None:
    """Fill the folder `root`. `environment` is a virtual environment, whose path stays the same in the image."""
    _copy_tree(environment, root, LEFT_OUT)
    for library in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        _copy_tree(Path(library), root, (*LEFT_OUT, *PACKAGES))
        # The root is read-only when it runs, and the image of Python has no compiled modules.
        compile_dir(_target(Path(library), root), stripdir=root, quiet=1)
    python = environment / "bin/python"
    while python.is_symlink():  # each link of the chain, as the environment finds its library by them
        python = python.parent / python.readlink()
        _copy_link(python, root)
    _copy_file(python, root)
    for name in (*FILES, *LINKER):
        path = Path(name)
        if path.is_dir():
            _copy_tree(path, root, ())
        elif path.exists():
            _copy_file(path, root)
    for library in sorted(_libraries(_binaries(root))):
        _copy_file(Path(library), root)
    (root / "etc/passwd").write_text(f"root:x:0:0::/root:/\ndragoman:x:{USER}:{USER}::/data:/\n")
    (root / "etc/group").write_text(f"root:x:0:\ndragoman:x:{USER}:\n")
    subprocess.run(["ldconfig", "-r", root], check=True)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


def _target(path: Path, root: Path) -> Path:
    """Return the place of a path in the root. The folders above it are made, as folders and not as links."""
    target = root / os.path.abspath(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _copy_tree(path: Path, root: Path, left_out: Iterable[str]) -> None:
    ignore = shutil.ignore_patterns(*left_out)
    shutil.copytree(path, _target(path, root), symlinks=True, ignore=ignore, dirs_exist_ok=True)


def _copy_link(path: Path, root: Path) -> None:
    target = _target(path, root)
    if path.is_symlink() and not target.is_symlink():
        target.symlink_to(path.readlink())


def _copy_file(path: Path, root: Path) -> None:
    """Copy a file with the content that a link leads to."""
    target = _target(path, root)
    if not target.exists():
        shutil.copy2(path, target)


def _binaries(root: Path) -> Iterator[Path]:
    """Yield the programs and libraries of the root."""
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size > len(_ELF):
            with path.open("rb") as file:
                if file.read(len(_ELF)) == _ELF:
                    yield path


def _libraries(binaries: Iterable[Path]) -> set[str]:
    """Return the paths of the libraries that binaries are linked with, those of libraries included."""
    done = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False)
    found = set()
    for line in done.stdout.splitlines():
        name, arrow, place = line.strip().partition(" => ")
        path = (place if arrow else name).partition(" (")[0]
        if line.startswith("\t") and path == "not found":
            raise SystemExit(f"a library is missing: {name}")
        if line.startswith("\t") and path.startswith("/"):
            found.add(path)
    return found


if __name__ == "__main__":
    make_root(*map(Path, sys.argv[1:]))

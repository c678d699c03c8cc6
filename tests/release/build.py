"""Build the files of a release: sdist, wheel, software bill of materials, checksums.

    python tests/release/build.py [--out dist] [--allow-dirty]

The times in the archives are that of the commit, so that the same revision has the same files.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
UV = Path(sys.executable).with_name("uv")
CHECKSUMS = "SHA256SUMS"


def build(out: Path, *, allow_dirty: bool = False) -> list[Path]:
    """Write the files to `out`, and return them. Raises SystemExit for a checkout with changes."""
    if not allow_dirty and (changes := _output("git", "status", "--porcelain")):
        raise SystemExit(f"the checkout has changes: commit them, or pass --allow-dirty\n{changes}")
    moment = _output("git", "log", "-1", "--format=%ct")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": moment}
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run([UV, "build", "-q", "--out-dir", out], cwd=ROOT, env=environment, check=True)
    wheel = max(out.glob("dragoman-*.whl"), key=lambda path: path.stat().st_mtime)
    name = "-".join(wheel.name.split("-")[:2])
    materials = out / f"{name}.cdx.json"
    export = ("export", "-q", "--frozen", "--no-dev", "--all-extras", "--format", "cyclonedx1.5")
    # uv warns on its standard error that this format is a preview.
    subprocess.run([UV, *export, "--output-file", materials], cwd=ROOT, check=True, capture_output=True)
    files = [wheel, out / f"{name}.tar.gz", materials]
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / CHECKSUMS).write_text("".join(sums), "utf-8")
    return [*files, out / CHECKSUMS]


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Build the files of a release.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the files (default: dist)")
    parser.add_argument("--allow-dirty", action="store_true", help="build a checkout that has changes")
    args = parser.parse_args(arguments)
    for path in build(args.out, allow_dirty=args.allow_dirty):
        print(path)


if __name__ == "__main__":
    main()

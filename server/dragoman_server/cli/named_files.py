"""Files that are named on the command line; `-` is standard input or output."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def read_input(path: str) -> bytes:
    """Return the content of a file. Raises OSError."""
    return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()


def write_result(out: bytes) -> None:
    """Write to standard output, with a line break at the end."""
    sys.stdout.buffer.write(out if out.endswith(b"\n") else out + b"\n")
    sys.stdout.buffer.flush()


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add `--output` and `--force`."""
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="file to write (default: standard output)")
    parser.add_argument("--force", action="store_true", help="overwrite the output if it exists")


def write_output(text: str, path: str, *, force: bool) -> bool:
    """Write a text to a file. Return False, after a message, if that exists and `force` is not set. Raises OSError."""
    if path == "-":
        sys.stdout.write(text)
        return True
    try:
        with open(path, "w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        print(f"dragoman: {path} exists; --force overwrites it, - is standard output", file=sys.stderr)
        return False
    return True

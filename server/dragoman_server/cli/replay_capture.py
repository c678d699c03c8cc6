"""`dragoman replay`: translates a captured exchange again, without any network."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import sys
from pathlib import Path
from typing import Final

from dragoman import Dialect
from dragoman.gateway import CLIENT_DIALECTS
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.options import add_dialect
from dragoman_server.cli.show_captures import add_source, find_capture
from dragoman_server.observability.captures.fixture import write_fixture
from dragoman_server.observability.captures.replay import (
    NotReplayable,
    Replayed,
    as_captured,
    captured_reply,
    captured_upstream_request,
    replay,
)
from dragoman_server.observability.captures.store import Capture

_DIFFERENCE_MAX: Final = 200
"""Most lines of a difference that are printed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("capture", metavar="CAPTURE", help="id of a captured request, or the file of a capture")
    add_dialect(
        parser, "--to", CLIENT_DIALECTS, dest="target", help="dialect of another client to translate the reply for"
    )
    parser.add_argument("--diff", metavar="GOLDEN", help="compare with a file; exit with 1 if it differs")
    parser.add_argument(
        "--check", action="store_true", help="compare with what the client and the upstream got; exit with 1 likewise"
    )
    parser.add_argument("--fixture", metavar="DIR", help="write the upstream's stream as a transcript below DIR")
    parser.add_argument("--name", help="name of the fixture (default: the id of the capture)")
    add_source(parser)
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Print the client's reply, or compare it. Return 1 if it differs. Raises CommandError, DragomanError, OSError."""
    if args.check and args.target is not None:
        raise CommandError("--check", "compares with the captured client's reply, which --to replaces: use --diff")
    capture = find_capture(args)
    try:
        if args.fixture is not None:
            print(f"wrote {write_fixture(capture, Path(args.fixture), args.name)}", file=sys.stderr)
            return 0
        replayed = asyncio.run(replay(capture, Dialect(args.target) if args.target else None))
        if args.check:
            return _check(capture, replayed)
    except NotReplayable as error:
        raise CommandError(args.capture, f"cannot be replayed: {error}") from None
    except (KeyError, TypeError) as error:
        raise CommandError(args.capture, f"is damaged: {error!r}") from None
    if args.diff is not None:
        return _compare(_golden(args.diff), replayed.body, args.diff, "the replay")
    sys.stdout.buffer.write(replayed.body)
    sys.stdout.buffer.flush()
    if replayed.status >= 400:
        print(f"dragoman: the client gets a {replayed.status}", file=sys.stderr)
    return 0


def _golden(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CommandError(path, f"cannot be read: {error.strerror}") from None


def _check(capture: Capture, replayed: Replayed) -> int:
    """Compare with the capture. The status is compared as well."""
    captured = capture.exchange["client"]["reply"]
    expected, found = captured_reply(capture), as_captured(capture, replayed.body)
    if captured["truncated"] or capture.summary["ended"] == "abandoned":
        found = found[: len(expected)]  # the rest was not kept, or not sent
    differs = _compare(expected, found, "the client's reply", "the replay")
    if captured["status"] not in (None, replayed.status):
        print(f"the status was {captured['status']}, the replay has {replayed.status}", file=sys.stderr)
        differs = 1
    sent = capture.exchange["attempts"][-1]["request"]
    if not sent["truncated"]:
        request, again = captured_upstream_request(capture), as_captured(capture, replayed.upstream_body)
        differs |= _compare(request, again, "the upstream's request", "the replay")
    return differs


def _compare(expected: bytes, found: bytes, expected_name: str, found_name: str) -> int:
    if expected == found:
        print(f"no difference to {expected_name}", file=sys.stderr)
        return 0
    before, after = (data.decode("utf-8", "replace").splitlines() for data in (expected, found))
    lines = list(difflib.unified_diff(before, after, expected_name, found_name, lineterm="", n=1))
    for line in lines[:_DIFFERENCE_MAX] or ["the two differ in their line ends, or in bytes that are not UTF-8"]:
        print(line)
    if len(lines) > _DIFFERENCE_MAX:
        print(f"… {len(lines) - _DIFFERENCE_MAX} further lines")
    return 1

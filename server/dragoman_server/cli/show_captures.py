"""`dragoman capture list | show`: the captures that a gateway has kept."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from dragoman.gateway import quote
from dragoman.wire import Json, json_dumps
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.config_source import DEFAULT_FILE
from dragoman_server.config.capture_options import load_capture_options
from dragoman_server.config.file_paths import directory_of
from dragoman_server.config.schema import Config
from dragoman_server.config.stored_files import files_left_behind
from dragoman_server.observability.captures.document import body_of
from dragoman_server.observability.captures.store import SUFFIX, Capture, CaptureStore, read_capture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")

    every = actions.add_parser("list", help="list the captures, the newest first")
    every.add_argument("--limit", type=int, default=100, metavar="N", help="how many to list (default 100)")
    every.add_argument("--json", action="store_true", help="print JSON on standard output")
    add_source(every)
    every.set_defaults(run=_list)

    show = actions.add_parser("show", help="show the requests and replies of a capture")
    show.add_argument("capture", metavar="ID", help="id of the request, or the file of a capture")
    show.add_argument("--json", action="store_true", help="print JSON on standard output")
    add_source(show)
    show.set_defaults(run=_show)


def add_source(parser: argparse.ArgumentParser) -> None:
    """Declare the options that name the directory."""
    parser.add_argument("--directory", metavar="DIR", help="directory of the captures (default: the configuration's)")
    parser.add_argument(
        "-c", "--config", metavar="FILE", help=f"configuration with the table [capture] (default ./{DEFAULT_FILE})"
    )


def find_capture(args: argparse.Namespace) -> Capture:
    """Return the capture that the arguments name. Raises CommandError."""
    name: str = args.capture
    try:
        if "/" in name or name.endswith(SUFFIX):
            return read_capture(name)
        found = _store(args).get(name)
    except OSError as error:
        raise CommandError(name, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(name, str(error)) from None
    if found is None:
        raise CommandError(name, "there is no such capture: `dragoman capture list` lists them")
    return found


def _store(args: argparse.Namespace) -> CaptureStore:
    directory = args.directory
    if directory is None:
        if args.config is None and not Path(DEFAULT_FILE).is_file():
            raise CommandError("--config", f"there is no ./{DEFAULT_FILE}: name the configuration, or --directory")
        path = args.config or DEFAULT_FILE
        options = load_capture_options(path)
        for sentence in files_left_behind(Config(capture=options, directory=directory_of(path))):
            print(sentence, file=sys.stderr)
        if not options.enabled:
            raise CommandError("capture.directory", "is not set, so captures are off")
        directory = options.directory
    return CaptureStore(directory, sys.maxsize, sys.maxsize, float("inf"), time.time)


def _list(args: argparse.Namespace) -> int:
    store, missing = _store(args), ""
    try:
        found = store.list(max(1, args.limit))
    except FileNotFoundError:
        found, missing = [], f": {store.directory} does not exist yet" if args.directory is None else ""
    if args.json:
        sys.stdout.write(json_dumps({"object": "list", "data": found}).decode() + "\n")
        return 0
    for summary in found:
        print(_line(summary))
    if not found:
        print(f"there are no captures{missing}", file=sys.stderr)
    return 0


def _line(summary: Json) -> str:
    """Return a summary in one line."""
    created = datetime.fromtimestamp(summary["created"], UTC).strftime("%Y-%m-%d %H:%M:%S")
    way = summary.get("endpoint") or f"{summary['client']}→{summary['upstream'] or '?'}"
    notes = [f"key {summary['key']}"] if summary["key"] else []
    notes += [word for word in ("texts", "truncated") if summary[word]]
    more = f" ({', '.join(notes)})" if notes else ""
    model = quote(summary["model"] or "?")
    return f"{created}  {summary['id']}  {way}  {model}  {summary['status']} {summary['ended']}{more}"


def _show(args: argparse.Namespace) -> int:
    capture = find_capture(args)
    if args.json:
        sys.stdout.write(json_dumps({**capture.summary, **capture.exchange}).decode() + "\n")
        return 0
    client = capture.exchange["client"]
    print(_line(capture.summary))
    request = client["request"]
    _print_part(f"1. the client's request: {request['method']} {request['path']}", request)
    for number, attempt in enumerate(capture.exchange["attempts"], 1):
        which = f" (attempt {number})" if len(capture.exchange["attempts"]) > 1 else ""
        _print_part(f"2. the upstream's request{which}: POST {attempt['request']['url']}", attempt["request"])
        reply, error = attempt["reply"], attempt["error"]
        if reply is not None:
            _print_part(f"3. the upstream's reply{which}: {reply['status']}, reads: {len(reply['reads'])}", reply)
        if error is not None:
            print(f"   failed: {quote(error['message'])}\n")
    if client["reply"]["status"] is None:
        print("\n4. the client disconnected before its reply")
    else:
        _print_part(f"4. the client's reply: {client['reply']['status']}", client["reply"])
    return 0


def _print_part(title: str, part: Json) -> None:
    kept = " (truncated)" if part["truncated"] else ""
    if omitted := part.get("omitted"):
        kept = f" of {quote(omitted)} (not kept)"
    print(f"\n{title}, {part['bytes']} bytes{kept}")
    for name, value in part["headers"]:
        print(f"   {quote(name)}: {quote(value)}")
    print()
    sys.stdout.flush()
    body = body_of(part)
    sys.stdout.buffer.write(_printable(body) + b"\n")
    sys.stdout.buffer.flush()


def _printable(body: bytes) -> bytes:
    """Return a body without the control characters that could change a terminal's state, with line feeds only."""
    lines = body.replace(b"\r\n", b"\n")
    return bytes(byte if byte >= 0x20 or byte in b"\n\t" else 0x3F for byte in lines).replace(b"\x7f", b"?")

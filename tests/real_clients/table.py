"""`python tests/real_clients/table.py`: run every real client with an upstream of every dialect, and print the table.

What is not installed yet is fetched from npm and PyPI into `DRAGOMAN_CLIENTS_DIR` (`~/.cache/dragoman-clients`) first;
the clients themselves get no network but loopback. A cell that fails is a ✗ with its reason below the table, and the
exit status is 1. `--write` writes docs/reference/clients.md: all of it, or with `--upstream` those columns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # As a script its own folder is there instead.

from real_clients import packages  # noqa: E402
from real_clients.contract import Client  # noqa: E402
from real_clients.page import PAGE, kept, page, tables  # noqa: E402
from real_clients.registry import CLIENTS  # noqa: E402
from real_clients.rounds import UPSTREAMS, Round, failed, play  # noqa: E402

Seen = dict[tuple[str, str], Round]


async def run(clients: list[Client], upstreams: list[str], jobs: int) -> Seen:
    """Play each client with each upstream, `jobs` at once."""
    seen: Seen = {}
    turn = asyncio.Semaphore(jobs)

    async def cell(client: Client, upstream: str, prefix: Path) -> None:
        async with turn:
            seen[client.name, upstream] = played = await play(client, upstream, prefix)
        mark = f"✗ {played.wrong}" if played.wrong else "✓"
        _write_text(f"{client.name} · {upstream}: {mark} ({played.requests} requests, {played.seconds:.1f} s)")

    async with asyncio.TaskGroup() as group:
        for client in clients:
            try:
                prefix = await asyncio.to_thread(packages.install, client, _write_text)
            except packages.NotInstalled as error:
                _write_text(f"{client.name}: {error}")
                seen |= {(client.name, upstream): failed(str(error)) for upstream in upstreams}
                continue
            for upstream in upstreams:
                group.create_task(cell(client, upstream, prefix))
    return seen


def _write_text(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests/real_clients/table.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", metavar="NAME", action="append", help="clients whose name contains this")
    parser.add_argument("--upstream", action="append", choices=UPSTREAMS, help="upstreams of this dialect only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="sessions at once (default: the cores)")
    parser.add_argument("--install", action="store_true", help="install what is missing, and play nothing")
    parser.add_argument("--write", action="store_true", help="write docs/reference/clients.md")
    chosen = parser.parse_args(arguments)
    if chosen.write and chosen.only:
        parser.error("--write needs all clients to be played: leave out --only")
    wanted = [name.lower() for name in chosen.only or [""]]
    clients = [client for client in CLIENTS if any(name in client.name.lower() for name in wanted)]
    if not clients:
        parser.error(f"no such client; there are: {'; '.join(client.name for client in CLIENTS)}")
    if chosen.install:
        return _install(clients)
    upstreams = [upstream for upstream in UPSTREAMS if upstream in (chosen.upstream or UPSTREAMS)]
    # Reported to stop it takes its clients along, anyone who reports it.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    seen = asyncio.run(run(clients, upstreams, max(1, chosen.jobs)))
    if chosen.write:
        others = [upstream for upstream in UPSTREAMS if upstream not in upstreams]
        PAGE.write_text(page(clients, kept(PAGE.read_text("utf-8"), others) | seen), "utf-8")
    print(tables(clients, upstreams, seen))
    return 1 if any(played.wrong for played in seen.values()) else 0


def _install(clients: list[Client]) -> int:
    status = 0
    for client in clients:
        try:
            packages.install(client, _write_text)
        except packages.NotInstalled as error:
            _write_text(f"{client.name}: {error}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

"""Time the writing of usage rows: processor time of the gateway's thread, and rows in a second.

python bench/micro/usage_rows.py [--rows 20000] [--batch 50 1000] [--folder .] [--postgres postgresql://user:pw@host/db]

A batch is what a gateway writes 20 times in a second at most. PostgreSQL gets the schema `bench`, which is not deleted.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from dragoman_server.accounts.usage.jsonl_file import JsonlFile
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.postgres_table import PostgresTable
from dragoman_server.accounts.usage.row import UsageRow
from dragoman_server.accounts.usage.sink import RowFile
from dragoman_server.accounts.usage.sqlite_file import SqliteFile

_ROW: Any = {
    **{"time": "2026-11-22T10:00:00Z", "id": "", "key": "team", "client": "chat", "client_profile": None},
    **{"model": "gpt-5.2", "route": "*", "provider": "up", "upstream": "messages", "error": None, "principal": None},
    **{"upstream_model": "claude-sonnet-4-6", "ended": "completed", "status": 200, "stream": True, "attempts": 1},
    **{"input": 1200, "cache_read": 800, "cache_write": None, "cache_write_1h": None, "output": 350},
    **{"reasoning": 120, "estimated": [], "partial": False, "cost": 0.0123, "duration": 4.5678, "first_event": 0.4321},
}


def measure(name: str, file: RowFile, rows: int, batch: int) -> None:
    """Print one line for batches of this size."""
    start = perf_counter()
    found = [UsageRow(**{**_ROW, "id": f"req_{start:.9f}_{number}"}) for number in range(rows)]
    file.open()
    file.write([UsageRow(**{**_ROW, "id": f"req_{start:.9f}"})])
    began, used = perf_counter(), process_time()
    for first in range(0, rows, batch):
        file.write(found[first : first + batch])
    used, wall = process_time() - used, perf_counter() - began
    file.close()
    print(f"{name:<12} {batch:>6} {used / rows * 1e6:>8.1f} {rows / wall:>9,.0f}", flush=True)


def main() -> None:
    """Measure each size of a batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--batch", type=int, nargs="+", default=[50, 1000])
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--postgres", help="the URL of a database to measure too")
    options = parser.parse_args()
    print("              batch  µs/row    rows/s")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for batch in options.batch:
            measure("jsonl", JsonlFile(f"{folder}/u.jsonl", 10**9, 1), options.rows, batch)
            measure("sqlite", SqliteFile(f"{folder}/u.db", 0), options.rows, batch)
            if options.postgres:
                usage = UsageOptions("postgresql", url=options.postgres, prefix="bench")
                measure("postgresql", PostgresTable(usage), options.rows, batch)


if __name__ == "__main__":
    main()

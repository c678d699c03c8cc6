"""The size of each scenario: a full run, or a sample for CI."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman_bench.processes import open_files_limit

_SPARE_FILES = 128
"""Files of a process that are not connections of the load: listeners, pipes, the event loop, the usage's files."""


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of clients, of one scenario each, and times in seconds.

    `timed` is False for a sample: its checks are counts, and no time or amount of memory decides one.
    """

    stopped: int = 1000
    slow: int = 1000
    leaving: int = 5000
    churned: int = 20_000
    open: int = 20_000
    detached: int = 0
    """The number of these streams whose client has left: they are runs, which end without it."""
    steady: int = 100
    write: float = 20.0
    """The gateway's `timeouts.write` where clients stop reading."""
    slow_bytes_per_s: int = 16_384
    """Bytes that a slow client reads in a second. Its system reports room after each 64 to 128 kB: within `write`."""
    window: float = 4.0
    """Length of one measurement of what neighbours cost; there are `rounds` with others, and one
    more alone."""
    rounds: int = 5
    loads: tuple[str, ...] = ()
    """The loads of `neighbours`; all without any."""
    timed: bool = True


SAMPLE = Size(12, 12, 40, 60, 40, steady=4, write=2.0, slow_bytes_per_s=400_000, window=0.3, rounds=1, timed=False)
"""The sample of CI: seconds, and counts only."""


class TooFewFiles(ValueError):
    """The limit of open files does not allow the load."""


def fitting(streams: int, workers: int, *, least: int = 1, detached: int = 0) -> tuple[int, str]:
    """Return how many of `streams` open streams the limit of open files allows, and a remark if it is fewer.

    A worker has two files per stream, and one for each of the `detached` ones, which are among them. Connections are
    not spread evenly: with several workers, 3 % is left for that. Raises TooFewFiles if fewer than `least` fit.
    """
    limit = open_files_limit()
    files = (limit - _SPARE_FILES) * workers
    if workers > 1:
        files = files * 97 // 100
    room = files // 2 if not detached else (files + detached) // 2
    if room >= streams:
        return streams, ""
    needed = files_needed(streams, workers)
    message = (
        f"{streams:,} streams through {workers} worker{'s' if workers > 1 else ''} need `ulimit -n {needed}` or more, "
        f"and it is {limit}"
    )
    if room < least:
        raise TooFewFiles(f"{message}: raise it (`ulimit -Hn`, LimitNOFILE) or run with fewer streams")
    return room, f"{message}: {room:,} streams were opened"


def files_needed(streams: int, workers: int) -> int:
    """Return the limit of open files that `streams` through `workers` need."""
    share = streams / workers * (1 if workers == 1 else 100 / 97)
    return round(2 * share) + _SPARE_FILES

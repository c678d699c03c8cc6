"""Count the instructions that features add to a request: validation, the log, usage, a key, its limits, and all.

python bench/micro/features_cost.py [--features bare,all] [--direction messages-chat]
python bench/micro/features_cost.py --features default,uvicorn

Each figure is that of one gateway under callgrind (`dragoman bench instructions`), in all its threads, in multiples of
the first gateway's. `bare` validates no stream and `validated` each; metrics and receipts are always on. `start` is a
stream of one delta, whose end comes in a read of its own. In `joined`, two deltas and the end come in one read.
`uvicorn` is the default gateway as an ASGI application, in place of its own server.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from dragoman_bench.gateways.dragoman import config
from dragoman_bench.gateways.features import HEADERS, NAMES, features
from dragoman_bench.gateways.launch import free_port
from dragoman_bench.instructions.callgrind import CountedProcess
from dragoman_bench.instructions.lockstep import Lockstep
from dragoman_bench.replies import reply
from dragoman_bench.wire import request

ROWS = ("start", "joined", "chunk", "whole")
_ASGI = "uvicorn"
_WARM, _TIMES, _BLOCKS, _CHUNKS, _TEXT = 12, 8, 5, 120, 32


def measure(name: str, client: str, upstream: str) -> dict[str, int]:
    """Return the instructions of each row with these features."""
    added = features("default" if name == _ASGI else name)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = free_port()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        text = config(port, upstream, url, added=added).replace("{folder}/", "")
        module, arguments = "dragoman_server", (*added.arguments, "{folder}/config.toml")
        if name == _ASGI:
            quiet = ("--log-level", "warning", "--no-access-log")
            module, arguments = _ASGI, ("--factory", "dragoman_server.asgi:app", "--port", str(port), *quiet)
        files, env = {"config.toml": text}, {"DRAGOMAN_CONFIG": "config.toml"}
        process = CountedProcess(sys.executable, module, arguments, port, files=files, env=env)
        try:
            lockstep = Lockstep(port, listener, process.settle, HEADERS)
            try:
                return _count(process, lockstep, client, upstream)
            finally:
                lockstep.close()
        finally:
            process.stop()


def _count(process: CountedProcess, lockstep: Lockstep, client: str, upstream: str) -> dict[str, int]:
    sent, model = reply(upstream, _TEXT), f"{upstream}-model"
    streamed, whole = request(client, model), request(client, model, stream=False)

    def least(times: int, work: Callable[[], None]) -> int:
        def repeat() -> None:
            for _ in range(times):
                work()

        return min(process.count(repeat) for _ in range(_BLOCKS)) // times

    for _ in range(_WARM):
        lockstep.stream(client, streamed, sent, 1)
    lockstep.stream(client, streamed, sent, 40)
    start = least(_TIMES, lambda: lockstep.stream(client, streamed, sent, 1))
    chunk = (least(1, lambda: lockstep.stream(client, streamed, sent, 1 + _CHUNKS)) - start) // _CHUNKS
    lockstep.joined(client, streamed, sent, 2)
    joined = least(_TIMES, lambda: lockstep.joined(client, streamed, sent, 2))
    lockstep.whole(client, whole, sent)
    return {
        "start": start,
        "joined": joined,
        "chunk": chunk,
        "whole": least(_TIMES, lambda: lockstep.whole(client, whole, sent)),
    }


def main() -> None:
    """Measure each gateway, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--features", default=",".join(NAMES), help="names, of which the first is the base (%(default)s)"
    )
    parser.add_argument("--direction", default="messages-chat", help="client-upstream (default %(default)s)")
    options = parser.parse_args()
    client, _, upstream = options.direction.partition("-")
    names = options.features.split(",")
    print(f"{'':10}" + "".join(f"{row:>12} {'×':>6}" for row in ROWS))
    base: dict[str, int] = {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, counts in zip(names, pool.map(lambda each: measure(each, client, upstream), names), strict=True):
            base = base or counts
            print(
                f"{name:10}" + "".join(f"{counts[row]:>12,} {counts[row] / base[row]:>6.2f}" for row in ROWS),
                flush=True,
            )


if __name__ == "__main__":
    main()

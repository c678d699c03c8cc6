"""Count the instructions of each Python function of a gateway, in a start, a chunk, a whole reply or an agent's turn.

python bench/micro/functions_cost.py [--features default] [--direction messages-chat] [--row start]

It needs Python 3.12 or later, whose perf trampolines name the functions. They also cost some 250 instructions for each
call of a Python function, so that the sum is a quarter above that of `dragoman bench instructions`. Calls of coroutines
are counted twice, for their creation and their first step.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from dragoman_bench.agent_request import agent_request
from dragoman_bench.gateways.dragoman import config
from dragoman_bench.gateways.features import HEADERS, NAMES, features
from dragoman_bench.gateways.launch import free_port, own_module
from dragoman_bench.instructions.callgrind import CountedProcess
from dragoman_bench.instructions.functions import CALLGRIND, PYTHON, Profile, names_of, read_profile
from dragoman_bench.instructions.lockstep import Lockstep
from dragoman_bench.replies import reply
from dragoman_bench.wire import request

ROWS = ("start", "joined", "chunk", "whole", "agent")
_WARM, _TIMES, _CHUNKS, _TEXT = 12, 8, 60, 32
_ENTRANCES = r"RequestHandler\.start |\.data_received |\.eof_received "
"""The functions that the event loop calls for a request."""


def profile(name: str, client: str, upstream: str, row: str) -> tuple[Profile, int]:
    """Return the calls of a gateway with these features, and how many requests or chunks they are for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = free_port()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        added = features(name)
        files = {"config.toml": config(port, upstream, url, added=added).replace("{folder}/", "")}
        arguments = (*added.arguments, "{folder}/config.toml")
        process = CountedProcess(
            *(sys.executable, "dragoman_server", arguments, port),
            env=own_module("")[1],
            files=files,
            options=CALLGRIND,
            python_options=PYTHON,
        )
        try:
            lockstep = Lockstep(port, listener, process.settle, HEADERS)
            sent, model = reply(upstream, _TEXT), f"{upstream}-model"
            body = agent_request(client, model, rich=True) if row == "agent" else request(client, model)
            whole = request(client, model, stream=False)
            chunks = _CHUNKS if row == "chunk" else 1

            def work() -> None:
                if row == "whole":
                    lockstep.whole(client, whole, sent)
                elif row == "joined":
                    lockstep.joined(client, body, sent, 2)
                else:
                    lockstep.stream(client, body, sent, chunks)

            repeat(work, _WARM)
            times = 1 if row == "chunk" else _TIMES
            process.count(lambda: repeat(work, times))
            perf_map = Path(f"/tmp/perf-{process.pid}.map")
            names = names_of(perf_map.read_text())
            perf_map.unlink()
            lockstep.close()
            return read_profile(process.dump(), names), times * chunks
        finally:
            process.stop()


def repeat(work: Callable[[], None], times: int) -> None:
    """Call `work` so many times."""
    for _ in range(times):
        work()


def main() -> None:
    """Profile a gateway, and print its calls as a tree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--features", default="default", choices=NAMES, help="of the gateway (%(default)s)")
    parser.add_argument("--direction", default="messages-chat", help="client-upstream (%(default)s)")
    parser.add_argument("--row", default="start", choices=ROWS, help="what is counted (%(default)s)")
    parser.add_argument("--roots", default=_ENTRANCES, help="pattern of the functions to begin with")
    parser.add_argument("--least", type=int, default=3000, help="instructions of a call that is shown (%(default)s)")
    options = parser.parse_args()
    if not hasattr(sys, "activate_stack_trampoline"):
        parser.error("Python 3.12 or later is needed: it names the functions")
    client, _, upstream = options.direction.partition("-")
    found, times = profile(options.features, client, upstream, options.row)
    print(f"{'inclusive':>10} {'own':>10} {'calls':>7}")
    for line in found.tree(options.roots, options.least, times):
        print(line)


if __name__ == "__main__":
    main()

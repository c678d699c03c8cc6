"""Count the instructions that `[state]` adds to a request: of clients that store nothing, and of one that does.

python bench/micro/stored_cost.py [--redis redis://127.0.0.1:6379/0]

Each figure is that of one gateway under callgrind (`dragoman bench instructions`), in all its threads. `off` is with
`kind = "off"`; the others are percentages of it. The upstream is Chat Completions.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
from collections.abc import Callable

from dragoman_bench.agent_request import agent_request
from dragoman_bench.gateways.dragoman import config
from dragoman_bench.gateways.launch import free_port
from dragoman_bench.instructions.callgrind import CountedProcess
from dragoman_bench.instructions.lockstep import Lockstep
from dragoman_bench.replies import reply
from dragoman_bench.wire import request

ROWS = ("start", "chunk", "whole", "agent")
_UPSTREAM, _MODEL, _TEXT = "chat", "chat-model", 32
_WARM, _TIMES, _BLOCKS, _CHUNKS = 12, 8, 5, 120


def measure(client: str, state: str, *, store: bool) -> dict[str, int]:
    """Return the instructions of each row for a client's requests."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = free_port()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        files = {"config.toml": config(port, _UPSTREAM, url) + state}
        arguments = ("serve", "--quiet", "{folder}/config.toml")
        process = CountedProcess(sys.executable, "dragoman_server", arguments, port, files=files)
        try:
            lockstep = Lockstep(port, listener, process.settle)
            try:
                return _count(process, lockstep, client, store)
            finally:
                lockstep.close()
        finally:
            process.stop()


def _count(process: CountedProcess, lockstep: Lockstep, client: str, store: bool) -> dict[str, int]:
    sent = reply(_UPSTREAM, _TEXT)

    def body(data: bytes) -> bytes:
        fields = json.loads(data)
        return json.dumps({**fields, "store": store} if client == "responses" else fields).encode()

    streamed, whole = body(request(client, _MODEL)), body(request(client, _MODEL, stream=False))
    agent = body(agent_request(client, _MODEL))

    def least(times: int, work: Callable[[], None]) -> int:
        def repeat() -> None:
            for _ in range(times):
                work()

        return min(process.count(repeat) for _ in range(_BLOCKS)) // times

    def stream(body: bytes, chunks: int) -> Callable[[], None]:
        return lambda: lockstep.stream(client, body, sent, chunks)

    for _ in range(_WARM):
        stream(streamed, 1)()
    stream(streamed, 40)()
    start = least(_TIMES, stream(streamed, 1))
    chunk = (least(1, stream(streamed, 1 + _CHUNKS)) - start) // _CHUNKS
    lockstep.whole(client, whole, sent)
    replied = least(_TIMES, lambda: lockstep.whole(client, whole, sent))
    stream(agent, 1)()
    return {"start": start, "chunk": chunk, "whole": replied, "agent": least(2, stream(agent, 1))}


def main() -> None:
    """Measure each client, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--redis", help="URL of a Redis, which gets keys with the prefix `bench`")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kinds = {"memory": "", "sqlite": f'[state]\nkind = "sqlite"\npath = "{folder}/responses.db"\n'}
        if options.redis:
            kinds["redis"] = f'[state]\nkind = "redis"\nurl = "{options.redis}"\nprefix = "bench"\n'
        print(f"{'':34}" + "".join(f"{row:>12}" for row in ROWS))
        for client in ("chat", "responses"):
            off = measure(client, '[state]\nkind = "off"\n', store=False)
            print(f"{client + ', off':34}" + "".join(f"{off[row]:>12,}" for row in ROWS), flush=True)
            for kind, state in kinds.items():
                for store in (False, True)[: 2 if client == "responses" else 1]:
                    on = measure(client, state, store=store)
                    name = f"{client}, {kind}" + (f", store: {str(store).lower()}" if client == "responses" else "")
                    cells = (f"{100 * (on[row] / off[row] - 1):>+10.1f} %" for row in ROWS)
                    print(f"{name:34}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()

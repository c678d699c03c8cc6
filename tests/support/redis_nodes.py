"""Several real redis-servers on loopback: a cluster of three nodes, and a primary with a replica behind a Sentinel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.redis_server import RedisServer, free_port, redis_server

_SLOTS = 16384


def command(server: RedisServer, *words: str | int) -> Any:
    """The reply of a server to a command."""
    from redis import Redis

    with Redis(port=server.port, decode_responses=True, socket_timeout=10) as client:
        return client.execute_command(*words)


def wait(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


@contextmanager
def redis_cluster(folder: Path, *, slots: bool = True) -> Iterator[list[RedisServer]]:
    """Three primaries that serve all slots, or none of them."""
    with ExitStack() as stack:
        nodes, buses = [], [free_port() for _ in range(3)]
        for number in range(3):
            (directory := folder / f"node-{number}").mkdir(parents=True)
            options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--dir", str(directory))
            bus = ("--cluster-port", str(buses[number]))
            nodes.append(stack.enter_context(redis_server(options=(*options, *bus))))
        if slots:
            share = _SLOTS // 3 + 1
            for number, node in enumerate(nodes):
                last = min((number + 1) * share, _SLOTS) - 1
                command(node, "CLUSTER", "ADDSLOTSRANGE", number * share, last)
                command(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for number, node in enumerate(nodes[1:], 1):
            command(nodes[0], "CLUSTER", "MEET", "127.0.0.1", node.port, buses[number])
        if slots:
            wait(lambda: all(_serves(node) for node in nodes), "the cluster does not serve all slots")
        yield nodes


def _serves(node: RedisServer) -> bool:
    info = command(node, "CLUSTER", "INFO")
    text = info if isinstance(info, str) else "".join(f"{name}:{value}\n" for name, value in info.items())
    return "cluster_state:ok" in text and "cluster_known_nodes:3" in text


@dataclass
class Watched:
    """A primary and its replica, and the Sentinel that watches them."""

    primary: RedisServer
    replica: RedisServer
    sentinel: RedisServer

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/mine/0"

    def promoted(self) -> bool:
        """True once the Sentinel names the replica as the primary, and that is one."""
        host = command(self.sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mine")
        return int(host[1]) == self.replica.port and command(self.replica, "ROLE")[0] == "master"


@contextmanager
def redis_behind_sentinel(folder: Path) -> Iterator[Watched]:
    with ExitStack() as stack:
        (first := folder / "primary").mkdir()
        (second := folder / "replica").mkdir()
        primary = stack.enter_context(redis_server(options=("--dir", str(first))))
        options = ("--dir", str(second), "--replicaof", f"127.0.0.1 {primary.port}")
        replica = stack.enter_context(redis_server(options=options))
        wait(lambda: command(replica, "ROLE")[3] == "connected", "the replica is not connected")
        sentinel = RedisServer(options=("--sentinel",))
        file = folder / "sentinel.conf"
        file.write_text(
            f"port {sentinel.port}\nsentinel monitor mine 127.0.0.1 {primary.port} 1\n"
            "sentinel down-after-milliseconds mine 500\nsentinel failover-timeout mine 4000\n"
        )
        sentinel.start_with(file)
        stack.callback(sentinel.kill)
        wait(lambda: int(_state(sentinel)["num-slaves"]) == 1, "the Sentinel does not see the replica")
        yield Watched(primary, replica, sentinel)


def _state(sentinel: RedisServer) -> dict[str, Any]:
    found = command(sentinel, "SENTINEL", "MASTER", "mine")
    return found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))

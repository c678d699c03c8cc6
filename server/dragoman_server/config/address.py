"""The address at which a configuration lets its gateway listen, for commands that send requests to it."""

from __future__ import annotations

import os
from typing import NamedTuple

from dragoman_server.config.accounts_tables import raise_for, read_root
from dragoman_server.config.config_error import Problem
from dragoman_server.config.schema import Server


class Address(NamedTuple):
    """Host and port of a gateway, and a key that it accepts, or an empty text."""

    host: str
    port: int
    key: str = ""

    @property
    def url(self) -> str:
        """The base URL for clients of this machine."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return reachable(f"http://{host}:{self.port}")


def reachable(url: str) -> str:
    """Return a URL at which clients of this machine reach a gateway that listens on all addresses."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def load_address(path: str | os.PathLike[str]) -> Address:
    """Return the address of a file, without the rest of it, and the first key of `server.keys`.

    A key whose environment variable or file is missing is left out: the command may run where it is not set. Raises
    ConfigError.
    """
    problems: list[Problem] = []
    table = read_root(path, problems).table("server")
    given = {"host": table.text("host"), "port": table.integer("port")}
    server = Server(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    wrong = [problem for problem in server.problems() if problem[0] in ("server.host", "server.port")]
    raise_for(path, problems, wrong)
    return Address(server.host, server.port, next(filter(None, table.texts("keys", secret=True) or ()), ""))

"""The parser of the command line. The arguments of a command are declared when it is used."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


class Parser(argparse.ArgumentParser):
    """A parser of a command.

    `declare_later` is a function that adds the arguments. It is called when the command is used, so that `serve` does
    not import the modules of the others, which take 2 MB.

    A command that has the default `agent_args` gets there what follows `--`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.declare_later: Callable[[argparse.ArgumentParser], None] | None = None

    def declare(self) -> None:
        """Declare the arguments, if that has not been done."""
        declare, self.declare_later = self.declare_later, None
        if declare is not None:
            declare(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments of the command."""
        self.declare()
        if self.get_default("agent_args") is None or args is None:
            return super().parse_known_args(args, namespace)
        words = list(args)
        at = words.index("--") if "--" in words else len(words)
        known, unknown = super().parse_known_args(words[:at], namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}; put the agent's own after --")
        known.agent_args = words[at + 1 :]
        return known, unknown

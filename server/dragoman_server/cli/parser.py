"""The parser of the command line. The arguments of a command are declared when it is used."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import takewhile
from typing import Any, NoReturn

from dragoman.gateway import tidy
from dragoman_server.config.value_problems import choice_problem, closest, unknown

_KINDS: dict[Any, str] = {int: "an integer", float: "a number"}


class CommandParser(argparse.ArgumentParser):
    """A parser of a command.

    `declare_later` is a function that adds the arguments. It is called when the command is used, so that `serve` does
    not import the modules of the others, which take 2 MB.

    A command that has the default `agent_args` gets there what follows `--`. A command that has only commands of its
    own prints its help if none is given, and exits with status 2.
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
        """Parse the arguments of the command. Arguments that it does not have are an error."""
        self.declare()
        words = list(sys.argv[1:] if args is None else args)
        if not words and self._subparsers is not None:
            self.exit(2, self.format_help())
        agent = self.get_default("agent_args") is not None
        at = words.index("--") if "--" in words else len(words)
        # Before argparse looks for required arguments: one of them may be the option that has a typing error.
        problems = [self._unknown_option(word) for word in self._own(words[:at]) if not self._knows(word)]
        known, extra = (None, []) if problems else super().parse_known_args(words[:at] if agent else words, namespace)
        problems += [f'unexpected argument "{word}"' for word in extra]
        if problems:
            self.error("; ".join(problems) + ("; put the agent's own after --" if agent else ""))
        if agent:
            known.agent_args = words[at + 1 :]
        return known, extra

    def error(self, message: str) -> NoReturn:
        """Print the usage without the options, the error, and the command for the help. Exit with status 2."""
        usage = self.formatter_class(prog=f"{self.prog} [options]")
        required = [action for action in self._actions if action.required or not action.option_strings]
        usage.add_usage(self.usage, required, ())
        self.exit(2, f"{usage.format_help()}{self.prog}: {tidy(message)}\nfor all options: {self.prog} --help\n")

    def _own(self, words: list[str]) -> list[str]:
        """Return the words that may be options of this command, and not of one of its commands."""
        if self._subparsers is not None:
            words = list(takewhile(lambda word: word.startswith("-"), words))
        return [word for word in words if word.startswith("-") and word != "-"]

    def _knows(self, word: str) -> bool:
        """True for an option, also a shortened one or one with its value, and for a negative number."""
        name, options = word.partition("=")[0], self._option_string_actions
        if name.startswith("--"):
            return any(option.startswith(name) for option in options)
        return name[:2] in options or name[1] in "0123456789."

    def _unknown_option(self, word: str) -> str:
        name = word.partition("=")[0]
        return f"unknown option {name}{closest(name, self._option_string_actions)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError for a value that is not one of the choices, as the configuration's reader does."""
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, unknown(str(action.metavar).lower(), value, action.choices))
        raise argparse.ArgumentError(action, choice_problem(value, action.choices) or "is wrong")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return the value of an argument. Raises ArgumentError."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in _KINDS:
                raise
            raise argparse.ArgumentError(action, f'expected {_KINDS[action.type]}; got "{arg_string}"') from None

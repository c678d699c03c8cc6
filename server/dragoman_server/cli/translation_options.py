"""Arguments of the commands that translate a file: the model's name, the profile, knobs, and the file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from dragoman import Dialect, Knobs, Profile, builtin_profile
from dragoman.gateway import BUILTIN_PROFILES, KNOBS
from dragoman_server.cli.command_error import CommandError
from dragoman_server.config.value_problems import closest, parse_word, value_problem


def add_translation(parser: argparse.ArgumentParser) -> None:
    """Add `--model`, `--profile`, `--knob` and the file."""
    parser.add_argument("--model", help="model name to write (default: the input's own)")
    parser.add_argument("--profile", help="profile of the upstream (default: its vendor's)")
    parser.add_argument(
        "--knob", action="append", default=[], metavar="NAME=VALUE", help="set a knob, e.g. on_loss=reject"
    )
    parser.add_argument("file", metavar="FILE", help="input, - for standard input")


def profile_of(args: argparse.Namespace, upstream: Dialect) -> Profile:
    """Return the profile that `--profile` names. Raises CommandError."""
    names = [name for dialect, name in BUILTIN_PROFILES if dialect == upstream]
    if args.profile is not None and args.profile not in names:
        expected = (
            f"expected one of {', '.join(names)} for {upstream}; got {args.profile!r}{closest(args.profile, names)}"
        )
        raise CommandError("--profile", expected)
    return builtin_profile(upstream, args.profile)


def knobs_of(settings: Sequence[str]) -> Knobs:
    """Return the knobs of `--knob`. Raises CommandError."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, word = setting.partition("=")
        if name not in KNOBS:
            raise CommandError(f"--knob {setting}", f"expected one of {', '.join(KNOBS)}{closest(name, KNOBS)}")
        values[name] = value = parse_word(KNOBS[name], word)
        if wrong := value_problem(KNOBS[name], value):
            raise CommandError(f"--knob {setting}", wrong)
    return Knobs(**values)

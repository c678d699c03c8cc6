"""The profile and the knobs that a command line names."""

from __future__ import annotations

import argparse

import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.translation_options import add_translation, knobs_of, profile_of


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_translation(parser)
    return parser.parse_args([*words, "-"])


def test_knobs() -> None:
    knobs = knobs_of(arguments("--knob", "on_loss=reject", "--knob", "stop_emulation=off").knob)
    assert (knobs.on_loss, knobs.stop_emulation) == ("reject", "off")


@pytest.mark.parametrize(("setting", "problem"), [("on_los=x", "expected one of"), ("on_loss=maybe", "record, reject")])
def test_a_wrong_knob(setting: str, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        knobs_of([setting])


def test_a_profile_is_one_of_the_upstreams_dialect() -> None:
    assert profile_of(arguments("--profile", "compatible"), Dialect.CHAT) != profile_of(arguments(), Dialect.CHAT)
    with pytest.raises(CommandError, match="for messages; got 'openai'"):
        profile_of(arguments("--profile", "openai"), Dialect.MESSAGES)

"""The parts of the demo: excerpts of frames, transcripts of streams, output on the terminal, checks of the scenes."""

from __future__ import annotations

import io

import pytest

from dragoman_server.cli.demo.terminal import StyledText, Terminal, cells, fit, line, wants_colour, wrap


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, False),
    ],
)
def test_colour_variables(env: dict[str, str], expected: bool) -> None:
    assert wants_colour(io.StringIO(), env) is expected


def test_a_terminal_has_colours_unless_it_is_dumb() -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert wants_colour(Tty(), {"TERM": "xterm"})
    assert not wants_colour(Tty(), {"TERM": "dumb"})
    assert not wants_colour(Tty(), {"TERM": "xterm", "NO_COLOR": "1"})


def test_wide_characters_take_two_columns() -> None:
    assert cells("東京 👋") == 7
    assert cells("e\u0301") == 1
    assert fit((StyledText("東京東京"),), 5) == (StyledText("東京"), StyledText("…", "dim"))
    assert fit(line("fits"), 4) == line("fits")


def test_wrapping_keeps_everything_it_has_rows_for() -> None:
    text = '{"model":"m","max_tokens":1024,"stream":true}'
    rows = wrap(text, 20, 9)
    assert "".join(rows) == text
    assert all(cells(row) <= 20 for row in rows)
    assert wrap("x" * 50, 20, 9) == ["x" * 20, "x" * 20, "x" * 10]


def test_columns_line_up_whatever_is_in_them() -> None:
    out = io.StringIO()
    terminal = Terminal(out, colour=False, width=120)
    terminal.sides([line("東京"), line("b")], [line("right")], "◀")
    first, second = out.getvalue().splitlines()
    assert cells(first[: first.index("◀")]) == second.index("│")

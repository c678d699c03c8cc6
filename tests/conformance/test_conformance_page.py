"""The matrix in the docs is the one that the tests play, and the command that prints it sees what fails."""

from __future__ import annotations

from conformance.cases import CASES, DIRECTIONS, MODES, cells
from conformance.matrix import PAGE, Cell, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python tests/conformance/matrix.py --write"


def test_every_direction_has_every_case() -> None:
    """An empty cell has a reason; none is left out silently."""
    assert len(DIRECTIONS) == len(set(DIRECTIONS)) == 12
    assert len({case.name for case in CASES}) == len(CASES)
    played = {(case.name, client, upstream, mode) for case, client, upstream, mode in cells()}
    for case in CASES:
        for client, upstream in DIRECTIONS:
            for mode in MODES:
                empty = (case.name, client, upstream, mode) not in played
                assert empty is bool(case.absent(client, upstream, mode))


def test_a_failure_is_shown() -> None:
    seen: dict[Cell, str | None] = {(case.name, *ways): None for case, *ways in cells()}  # type: ignore[misc]
    assert page(seen) == page()
    seen["text", "chat", "messages", "stream"] = "AssertionError: lost"
    shown = page(seen)
    assert shown.count("✗") == 1
    assert "- text · chat · messages · stream: AssertionError: lost" in shown

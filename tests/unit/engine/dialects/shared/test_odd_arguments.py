"""Arguments in another form than the text of one JSON object."""

from __future__ import annotations

import pytest

from dragoman.dialects.shared.odd_arguments import EMPTY_FIRST, form_of, read_odd


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{}{"a": 1}', ('{"a": 1}', EMPTY_FIRST)),
        (' {} \n {"a":1} ', ('{"a":1}', EMPTY_FIRST)),
        ('"{\\"a\\":1}"', ('{"a":1}', "arguments were encoded twice")),
        (" null ", ("{}", "arguments were null")),
        ('{"a":1} {"a":1}', ('{"a":1}', "arguments were sent again")),
        ('{"a":1}{"a":1}{"a":1}', None),
        ("{}{}{}", None),
        ('{}"a"', None),
        ('{"a":1}{"b":2}', None),
        ('"text"', None),
        ('"{\\"a\\":', None),
        ("nullified", None),
        ("[1]", None),
        ("", None),
    ],
)
def test_only_one_possible_meaning_is_read(text: str, read: tuple[str, str] | None) -> None:
    assert read_odd(text) == read


def test_the_form_of_a_first_fragment() -> None:
    forms = {
        "{}": "empty",
        " {} ": "empty",
        '"{': "text",
        "nu": "null",
        '{"a"': "",
        "": "",
        "{": "",
        '{"a":1}\n{"a"': "text",
    }
    assert {first: form_of(first) for first in forms} == forms

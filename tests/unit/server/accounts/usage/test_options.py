"""The settings of booked usage."""

from __future__ import annotations

import pytest

from dragoman_server.accounts.usage.options import UsageOptions


def test_the_file_has_a_default_of_its_kind() -> None:
    assert UsageOptions("jsonl").file == "usage.jsonl"
    assert UsageOptions("sqlite").file == "usage.db"
    assert UsageOptions("jsonl", path="-").file == "-"


def test_nothing_is_booked_by_default() -> None:
    assert UsageOptions().kind == "off"
    assert not [*UsageOptions().problems()]


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (UsageOptions("csv"), "usage.kind"),
        (UsageOptions("sqlite", path="-"), "usage.path"),
        (UsageOptions("jsonl", max_bytes=10), "usage.max_bytes"),
        (UsageOptions("jsonl", files=0), "usage.files"),
        (UsageOptions("sqlite", keep_days=-1), "usage.keep_days"),
        (UsageOptions("postgresql"), "usage.url"),
        (UsageOptions("postgresql", url="mysql://h"), "usage.url"),
        (UsageOptions("postgresql", path="u.db", url="postgresql://h/d"), "usage.path"),
        (UsageOptions("postgresql", url="postgresql://h/d", prefix=""), "usage.prefix"),
        (UsageOptions("sqlite", url="postgresql://h/d"), "usage.url"),
    ],
)
def test_wrong_values_are_problems(options: UsageOptions, path: str) -> None:
    assert [each for each, _ in options.problems()] == [path]

"""The stored record of a named key."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from dragoman_server.accounts.keys.record import (
    KeyRecord,
    named,
    parse_moment,
    record_of,
    records_of,
    written_moment,
)
from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.limits.key_limits import KeyLimits

HASH = KeyHash.of(new_key())


def test_a_record_is_read_as_it_was_written() -> None:
    limits = KeyLimits(60, 100_000, 4, 10**6, 10**7, 1.5, 20.0)
    record = KeyRecord("alice@example.com", HASH, ("claude-*", "gpt-5"), limits, 2e9, True, 123)
    data = json.loads(json.dumps(record.as_data()))
    assert record_of(data) == record
    assert record_of(data).created == 123


def test_limits_of_a_later_version_are_ignored() -> None:
    data = KeyRecord("a", HASH, limits=KeyLimits(5)).as_data()
    data["limits"]["images_per_minute"] = 3
    assert record_of(data).limits == KeyLimits(5)


@pytest.mark.parametrize(
    ("models", "model", "permitted"),
    [
        ((), "anything", True),
        (("gpt-5",), "gpt-5", True),
        (("gpt-5",), "gpt-5-mini", False),
        (("claude-*", "gpt-?"), "claude-opus-5", True),
        (("claude-*", "gpt-?"), "gpt-5", True),
        (("claude-*",), "CLAUDE-opus", False),
        (("o[1-9]",), "o3", True),
        (("o[1-9]",), "o0", False),
    ],
)
def test_models_are_names_and_patterns(models: tuple[str, ...], model: str, permitted: bool) -> None:
    assert KeyRecord("a", HASH, models).permits(model) is permitted


def test_a_key_expires_at_its_time() -> None:
    record = KeyRecord("a", HASH, expires=1000.0)
    assert not record.expired(999.9)
    assert record.expired(1000.0)
    assert not KeyRecord("a", HASH).expired(1e12)


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "é", "x" * 65, "sk:1"])
def test_a_bad_name_is_a_problem(name: str) -> None:
    assert [path for path, _ in KeyRecord(name, HASH).problems("keys.x")] == ["keys.x"]


def test_limits_outside_their_range_are_problems() -> None:
    record = KeyRecord("a", HASH, ("",), KeyLimits(-1, 10**11, daily_cost=float("nan"), monthly_cost=2e6))
    assert [path for path, _ in record.problems("keys.a")] == [
        "keys.a.models[0]",
        "keys.a.requests_per_minute",
        "keys.a.tokens_per_minute",
        "keys.a.daily_cost",
        "keys.a.monthly_cost",
    ]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("12h", 1000.0 + 12 * 3600),
        ("30d", 1000.0 + 30 * 86400),
        ("8w", 1000.0 + 56 * 86400),
        ("2027-01-01", datetime(2027, 1, 1, tzinfo=UTC).timestamp()),
        ("2027-01-01T12:00:00+02:00", datetime(2027, 1, 1, 10, tzinfo=UTC).timestamp()),
        ("tomorrow", None),
        ("0d", None),
        ("", None),
    ],
)
def test_moments_are_dates_times_and_durations(text: str, moment: float | None) -> None:
    assert parse_moment(text, 1000.0) == moment


def test_a_moment_is_written_in_utc() -> None:
    assert written_moment(datetime(2027, 1, 1, tzinfo=UTC).timestamp()) == "2027-01-01T00:00:00Z"


def test_a_key_is_found_by_name_and_by_id() -> None:
    first, second = KeyRecord("a", HASH), KeyRecord("b", KeyHash.of(new_key()))
    assert named((first, second), "b") is second
    assert named((first, second), first.id) is first
    assert named((first, second), "c") is None


WRONG: list[object] = ["5", [5], {}, True, None]


@pytest.mark.parametrize("limits", [*({"requests_per_minute": value} for value in WRONG), 7, []])
def test_a_stored_key_with_limits_of_other_types_is_rejected(limits: object, caplog: pytest.LogCaptureFixture) -> None:
    """Found by fuzzing: the record was read, and the first request with the key raised TypeError."""
    stored = KeyRecord("alice", HASH).as_data() | {"limits": limits}
    assert records_of([json.dumps(stored).encode()]) == ()
    assert "cannot be read" in caplog.text

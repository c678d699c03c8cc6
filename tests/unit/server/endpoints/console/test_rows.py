"""The rows of the table, and their filter."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Dialect, Failure, translate
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import DIRECTIONS
from dragoman_server.endpoints.console.rows import (
    CHANGING,
    ROWS_MAX,
    RowFilter,
    known_rows,
    merged_rows,
    newest_rows,
    row_of,
    without_known,
)
from dragoman_server.receipt import Receipt
from support import samples
from support.named_keys import made
from support.scopes import end

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES


def receipt(number: int = 1, client: Dialect = MESSAGES, upstream: Dialect = CHAT, **fields: Any) -> Receipt:
    """An open receipt of a streamed request, with a loss if it is one of Messages."""
    body = samples.request(client, stream=True)
    if client is MESSAGES:
        body["max_tokens"] = 99
        body["top_k"] = 4
    fields = {"opened_at": 5.0 + number, "model": "m", "provider": "up", **fields}
    made_receipt = Receipt(f"req_{number}", client, 1000 + number, **fields)
    made_receipt.translation = translate(DIRECTIONS[client, upstream], samples.dump(body), upstream_model="up-m")
    return made_receipt


def seconds(_: Receipt) -> float:
    return 0.0


def test_a_row_of_an_open_stream() -> None:
    one = receipt(key=made("alice")[1])
    assert one.translation is not None
    one.translation.context.output_text = 42
    row = row_of(one, seconds)
    assert row["id"] == "req_1"
    assert (row["client"], row["upstream"], row["state"], row["key"]) == ("messages", "chat", "open", "alice")
    assert (row["model"], row["upstream_model"], row["characters"]) == ("m", "up-m", 42)
    assert row["losses"] == 1
    assert row["stream"] is True


def test_the_row_of_an_ended_request_has_the_same_facts() -> None:
    one = receipt()
    before = row_of(one, seconds)
    end(one, "completed", 200)
    after = row_of(one, seconds)
    same = ("upstream", "upstream_model", "losses", "stream", "provider", "id")
    assert [before[name] for name in same] == [after[name] for name in same]
    assert (after["state"], after["status"]) == ("completed", 200)


def test_a_request_that_was_rejected_has_a_row() -> None:
    one = Receipt("req_1", CHAT, 1)
    end(one, "rejected", 400)
    row = row_of(one, seconds)
    assert (row["upstream"], row["model"], row["seconds"], row["losses"]) == (None, None, None, 0)
    assert row["reason"] is None


def test_the_reason_of_a_row_is_an_own_message_or_a_word() -> None:
    one, two = Receipt("req_1", CHAT, 1), receipt()
    end(one, "rejected", 400, Failure(FailureKind.INVALID_REQUEST, "no", 400, origin=FailureOrigin.CLIENT))
    assert two.translation is not None
    two.translation.context.failure = Failure(FailureKind.RATE_LIMIT, "words of the upstream", 429)
    end(two, "refused", 429)
    assert [row_of(each, seconds)["reason"] for each in (one, two)] == ["no", "rate_limit"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["req_3", "req_2", "req_1"]),
        ({"state": "open"}, ["req_3", "req_2"]),
        ({"state": "ended"}, ["req_1"]),
        ({"state": "completed"}, ["req_1"]),
        ({"client": "chat"}, ["req_2"]),
        ({"upstream": "chat"}, ["req_3", "req_1"]),
        ({"provider": "other"}, []),
        ({"key": "alice"}, ["req_3"]),
        ({"text": "ALI"}, ["req_3"]),
        ({"text": "q_2"}, ["req_2"]),
        ({"losses": "1"}, ["req_3", "req_1"]),
        ({"rows": "1"}, ["req_3"]),
        ({"rows": "-1", "state": ""}, ["req_3", "req_2", "req_1"]),
        ({"before": "1002"}, ["req_2", "req_1"]),
        ({"before": "1002", "opened": "7.0"}, ["req_1"]),
        ({"before": "1002", "opened": "7.000000001"}, ["req_2", "req_1"]),
        ({"before": "x", "opened": "nan"}, ["req_3", "req_2", "req_1"]),
    ],
)
def test_a_filter_selects(query: dict[str, str], expected: list[str]) -> None:
    ended = receipt(1)
    end(ended, "completed", 200)
    receipts = [receipt(3, key=made("alice")[1]), receipt(2, CHAT, MESSAGES), ended]
    wanted = RowFilter.read(query)
    assert [row["id"] for row in newest_rows(receipts, wanted, seconds)] == expected
    assert RowFilter.read(wanted.json()) == wanted, "another worker gets the same filter"


def test_rows_are_bounded() -> None:
    receipts = [receipt(number) for number in range(ROWS_MAX + 5)]
    assert len(newest_rows(receipts, RowFilter.read({"rows": "999"}), seconds)) == ROWS_MAX


@pytest.mark.parametrize(
    "wanted",
    [
        {"state": "failed"},
        {"state": "ended"},
        {"state": "open"},
        {"client": "chat"},
        {"client": "messages"},
        {"provider": "p"},
        {"key": "alice"},
        {"upstream": "chat"},
        {"text": "REQ_1"},
        {"text": "other"},
        {"losses": "1"},
        {},
    ],
)
def test_the_rows_of_other_hosts_are_selected_like_receipts(wanted: dict[str, str]) -> None:
    selection = RowFilter.read(wanted)
    one, two = receipt(1), receipt(2)
    two.provider, two.model = "p", "other"
    end(one, "completed", 200)
    for each in (one, two):
        row = {**row_of(each, seconds), "host": "gw-1"}
        assert selection.selects_row(row) == selection.selects(each)
    assert RowFilter.read({"text": "GW-1"}).selects_row({**row_of(one, seconds), "host": "gw-1"})


def test_rows_of_workers_are_merged_by_time() -> None:
    own = [{"id": "a", "time": 1}, {"id": "c", "time": 3, "opened": 7.5}]
    answers = [{"rows": [{"id": "d", "time": 3, "opened": 7.25}, {"id": "b", "time": 2, "opened": 9.0}]}, {}]
    assert [row["id"] for row in merged_rows(own, answers, 3)] == ["c", "d", "b"]


def test_pages_of_older_rows_have_each_row_once() -> None:
    receipts = [receipt(number, opened_at=5.0 + number) for number in range(9, -1, -1)]
    for each in receipts:
        each.created = 1000  # all in one second
    found: list[str] = []
    query: dict[str, str] = {"rows": "3"}
    for _ in range(5):
        page = newest_rows(receipts, RowFilter.read(query), seconds)
        found += [row["id"] for row in page]
        if page:
            query |= {"before": str(page[-1]["time"]), "opened": str(page[-1]["opened"])}
    assert found == [each.request_id for each in receipts]


def test_of_rows_that_are_known_only_what_changes_is_sent() -> None:
    waiting, begun, ended = receipt(3), receipt(2), receipt(1)
    begun.begun_at = 1.0
    end(ended, "completed", 200)
    receipts, wanted = [waiting, begun, ended], RowFilter()
    first = newest_rows(receipts, wanted, seconds)
    known = known_rows(first)
    second = newest_rows(receipts, wanted, seconds, known)
    assert second[0] == first[0], "a request that waits may get another provider"
    assert [set(row) for row in second[1:]] == [set(CHANGING)] * 2
    assert without_known(first, known) == second
    assert known_rows(second) == known
    end(begun, "completed", 200)
    third = newest_rows(receipts, wanted, seconds, known)
    assert third[1]["state"] == "completed"
    assert set(third[2]) == set(CHANGING)

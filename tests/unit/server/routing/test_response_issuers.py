"""The issuer of a response: separate for each client, bounded, and the candidates that may continue it."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Dialect
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.routing.plan import Candidate, candidates_of
from dragoman_server.routing.response_issuers import Issuer, ResponseIssuers, issuer_of

KEYS = Secret("the-first-key"), Secret("the-second-key")
EAST = Provider("east", Dialect.RESPONSES, "http://east/v1", api_keys=KEYS)
WEST = Provider("west", Dialect.RESPONSES, "http://west/v1")
FIRST, SECOND = candidates_of(EAST, EAST.variants(), "m", 1.0, 1)
OTHER = Candidate(WEST, "m")
RANKING = [OTHER, FIRST, SECOND]
OWNER = b"o" * 32


def knowing(response_id: str, candidate: Candidate) -> ResponseIssuers:
    issuers = ResponseIssuers()
    issuers.add(OWNER, response_id, issuer_of(candidate))
    return issuers


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [(FIRST, [FIRST, SECOND]), (SECOND, [SECOND, FIRST]), (OTHER, [OTHER])],
    ids=["first key", "second key", "other"],
)
def test_only_the_issuer_is_eligible_and_the_key_that_was_used_comes_first(
    candidate: Candidate, expected: list[Candidate]
) -> None:
    issuers = knowing("resp_1", candidate)
    assert issuers.eligible(RANKING, OWNER, {"previous_response_id": "resp_1"}) == expected


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"previous_response_id": None, "conversation": None},
        {"previous_response_id": "resp_2"},
        {"previous_response_id": 7},
        {"conversation": "conv_2"},
        {"conversation": {"id": ["resp_1"]}},
        {"conversation": {}},
        {"conversation": 3},
    ],
    ids=str,
)
def test_a_request_that_continues_nothing_known_keeps_the_order(payload: dict[str, Any]) -> None:
    assert knowing("resp_1", FIRST).eligible(RANKING, OWNER, payload) is RANKING


def test_an_issuer_that_is_no_candidate_is_unknown() -> None:
    issuers = knowing("resp_1", FIRST)
    assert issuers.eligible([OTHER], OWNER, {"previous_response_id": "resp_1"}) == [OTHER]
    moved = FIRST._replace(provider=Provider("east", Dialect.RESPONSES, "http://moved/v1"))
    assert issuers.eligible([OTHER, moved], OWNER, {"previous_response_id": "resp_1"}) == [OTHER, moved]


def test_a_key_that_was_replaced_leaves_the_provider() -> None:
    issuers = ResponseIssuers()
    issuers.add(OWNER, "resp_1", issuer_of(FIRST)._replace(key="gone"))
    assert issuers.eligible(RANKING, OWNER, {"previous_response_id": "resp_1"}) == [FIRST, SECOND]


def test_clients_are_separate() -> None:
    issuers = knowing("resp_1", FIRST)
    assert issuers.find(b"another client", "resp_1") is None
    assert issuers.find(b"", "resp_1") is None
    assert issuers.find(OWNER, "resp_1") == Issuer("east", "http://east/v1", FIRST.key)


def test_the_one_that_was_not_used_longest_is_forgotten() -> None:
    issuers = ResponseIssuers(12)
    for number in range(3):
        issuers.add(OWNER, f"resp_{number}", issuer_of(OTHER))
    assert issuers.find(OWNER, "resp_0") is not None
    issuers.add(OWNER, "resp_1", issuer_of(FIRST))
    issuers.add(OWNER, "resp_3", issuer_of(OTHER))
    assert len(issuers) == 3
    assert [issuers.find(OWNER, f"resp_{number}") is not None for number in range(4)] == [True, True, False, True]


def test_ids_of_any_text_are_kept() -> None:
    for name in ("", "\udc80", "x" * 100_000):
        assert knowing(name, OTHER).find(OWNER, name) == issuer_of(OTHER)


def test_a_response_that_is_not_to_be_stored_is_not_expected() -> None:
    assert ResponseIssuers().expect(OWNER, {"store": False}, OTHER) is None


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}], ids=str)
def test_a_response_brings_its_conversation(conversation: Any) -> None:
    issuers = ResponseIssuers()
    expected = issuers.expect(OWNER, {"conversation": conversation}, OTHER)
    assert expected is not None
    expected.issuer = issuer_of(FIRST)  # after a fallback
    expected.issued("resp_1")
    for payload in ({"previous_response_id": "resp_1"}, {"conversation": conversation}):
        assert issuers.eligible(RANKING, OWNER, payload) == [FIRST, SECOND]


def test_a_translated_reply_issues_nothing() -> None:
    issuers = ResponseIssuers()
    expected = issuers.expect(OWNER, {"store": None, "conversation": "conv_1"}, OTHER)
    assert expected is not None
    expected.issued(None)
    assert len(issuers) == 0

"""The pauses of single clients at one provider: whom a failure pauses, what ends it, and what is forgotten."""

from __future__ import annotations

import pytest

from dragoman_server.routing.circuit_breaker import CircuitBreaker
from dragoman_server.routing.client_pauses import KEPT, ClientPauses, Party, party_of
from support.manual_clock import ManualClock

KEY, ONE, TWO, OTHER = b"key", b"conversation 1", b"conversation 2", b"another key"
PLACE = "", "m"


def pauses(clock: ManualClock, failures: int = 2) -> ClientPauses:
    return ClientPauses(lambda: CircuitBreaker(failures, 10.0, 40.0, clock), clock)


def fail(found: ClientPauses, *parties: Party) -> list[bool]:
    results = []
    for party in parties:
        for breaker in found.of(party):
            breaker.begin()
        results.append(found.failed(party, 0.0))
    return results


def pausing(found: ClientPauses, party: Party) -> bool:
    return any(breaker.remaining() for breaker in found.of(party))


def test_a_party_is_a_key_and_a_conversation() -> None:
    assert party_of(KEY, ONE) == (KEY, KEY + ONE)
    assert party_of(KEY, ONE)[1] != party_of(OTHER, ONE)[1]
    assert party_of(b"", ONE) == (ONE,)
    assert party_of(KEY, None) == (KEY,)
    assert party_of(b"", None) == ()


def test_one_conversation_pauses_alone() -> None:
    found = pauses(ManualClock())
    assert fail(found, (KEY, ONE), (KEY, ONE)) == [False, True]
    assert pausing(found, (KEY, ONE))
    assert not pausing(found, (KEY, TWO))
    assert not pausing(found, (OTHER, b"x"))


def test_two_conversations_pause_their_client() -> None:
    found = pauses(ManualClock())
    assert fail(found, (KEY, ONE), (KEY, TWO)) == [False, True]
    assert pausing(found, (KEY, b"a third one"))
    assert not pausing(found, (OTHER, b"x"))


def test_a_success_ends_the_pauses_of_its_party() -> None:
    found = pauses(ManualClock())
    fail(found, (KEY, ONE), (KEY, ONE))
    assert found.open
    assert not found.succeeded((OTHER,))
    assert found.succeeded((KEY, ONE))
    assert len(found) == 0
    assert not found.succeeded((KEY, ONE))


def test_a_client_that_has_tested_a_provider_in_vain_is_held() -> None:
    found = pauses(ManualClock(), failures=9)
    assert found.failed((KEY, ONE), 10.0)
    assert pausing(found, (KEY, TWO))
    assert not pausing(found, (OTHER, b"x"))


def test_old_failures_are_forgotten() -> None:
    clock = ManualClock()
    found = pauses(clock)
    fail(found, (KEY, ONE), (KEY, ONE))
    clock.advance(10 + KEPT - 1)
    assert not found.succeeded((OTHER,))
    clock.advance(2)
    assert found.succeeded((OTHER,)), "an open breaker was dropped"
    assert len(found) == 0


def test_no_number_of_conversations_fills_the_memory() -> None:
    found = pauses(ManualClock())
    for number in range(3000):
        fail(found, (KEY, b"%d" % number))
        found.cool(("", f"m{number}"), 30, requested=True, party=(KEY,))
    assert len(found) == 2000


@pytest.mark.parametrize(
    ("parties", "paused"),
    [
        ([(KEY, ONE)], [(KEY, ONE)]),
        ([(KEY, ONE), (KEY, ONE)], [(KEY, ONE)]),
        ([(KEY, ONE), (KEY, TWO)], [(KEY, ONE), (KEY, TWO), (KEY, b"x")]),
    ],
    ids=["conversation", "again", "client"],
)
def test_a_requested_pause_is_for_those_who_got_it(parties: list[Party], paused: list[Party]) -> None:
    clock = ManualClock()
    found = pauses(clock)
    assert not any(found.cool(PLACE, 30, requested=True, party=party) for party in parties)
    every = [(KEY, ONE), (KEY, TWO), (KEY, b"x"), (OTHER, b"y")]
    assert [party for party in every if found.pause(PLACE, party) == (30, True)] == paused
    assert found.pause(("", "another model"), (KEY, ONE)) == (0, False)
    clock.advance(30)
    assert found.pause(PLACE, (KEY, ONE)) == (0, False)
    assert len(found) == 0


def test_a_pause_of_two_clients_is_for_all() -> None:
    clock = ManualClock()
    found = pauses(clock)
    assert not found.cool(PLACE, 30, requested=False, party=(KEY, ONE))
    assert found.cool(PLACE, 30, requested=True, party=(OTHER, b"x"))
    clock.advance(31)
    assert not found.cool(PLACE, 30, requested=False, party=(KEY, ONE))
    clock.advance(31)
    assert not found.cool(PLACE, 30, requested=False, party=(OTHER, b"x")), "the first one is over"

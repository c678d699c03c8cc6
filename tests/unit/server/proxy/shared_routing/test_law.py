"""Places are divided: all get as many, none more than it needs, and what is left goes by turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.proxy.shared_routing.law import Holder, decide, divide
from dragoman_server.routing.shared_slots import Grant, PlaceClaim

NEEDS = st.lists(st.integers(0, 12), min_size=1, max_size=6)


@given(st.integers(0, 30), NEEDS, st.randoms(use_true_random=False))
def test_places_are_divided_fairly(places: int, needs: list[int], random: object) -> None:
    turns = list(range(len(needs)))
    random.shuffle(turns)  # type: ignore[attr-defined]
    found = divide(places, list(zip(turns, needs, strict=True)))
    assert sum(found) == min(places, sum(needs)), "all are used"
    assert all(has <= need for has, need in zip(found, needs, strict=True))
    wanting = [at for at, need in enumerate(needs) if found[at] < need]
    for at in wanting:
        for other, has in enumerate(found):
            assert has <= found[at] + 1, "no process has more places than one that wants more"
            if has == found[at] + 1 and other in wanting:
                assert turns[other] < turns[at]


def test_a_process_has_what_it_uses_and_no_more() -> None:
    claim = PlaceClaim("up", 8, 8, 7, 5, False)
    after, grant = decide(claim, Holder(8, 12, 3), [Holder(0, 5, 4)], 9)
    assert grant == Grant(4, 4, 1), "it begins no request until it is at its half"
    assert after == Holder(7, 11, 3)


def test_a_process_without_requests_keeps_its_turn() -> None:
    claim = PlaceClaim("up", 8, 8, 0, 0, False)
    assert decide(claim, None, [Holder(3, 3, 1)], 9) == (None, Grant(0, 0, 5))
    assert decide(claim, Holder(2, 2, 4), [Holder(3, 3, 1)], 9) == (Holder(0, 0, 4), Grant(0, 0, 5))

"""The division of the places of a provider, and of the budget of retries, between processes.

The rules are in `docs/explanation/shared-bounds.md`. The script of Redis is the same in Lua; a property test compares
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dragoman_server.proxy.shared_routing.interface import RetryClaim
from dragoman_server.routing.shared_slots import Grant, PlaceClaim

WINDOW = 10
"""Seconds in which requests and retries are counted."""


class Holder(NamedTuple):
    """The part of a process in a provider: `held` places, of the `need` ones that it uses or wants.

    Of several that want the last places, the one with the lowest `turn` gets one first.
    """

    held: int
    need: int
    turn: int


def divide(places: int, needs: Sequence[tuple[int, int]]) -> list[int]:
    """Divide places between processes with these turns and needs. Return the number of each.

    All get as many, except that none gets more than it needs. What cannot be divided goes to the lowest turns.
    """
    found = [0] * len(needs)
    left = sorted(range(len(needs)), key=lambda at: needs[at][1])
    while left and needs[left[0]][1] <= places // len(left):
        at = left.pop(0)
        found[at] = needs[at][1]
        places -= found[at]
    if left:
        each, more = divmod(places, len(left))
        for rank, at in enumerate(sorted(left, key=lambda at: needs[at][0])):
            found[at] = each + (rank < more)
    return found


def decide(claim: PlaceClaim, own: Holder | None, others: Sequence[Holder], turn: int) -> tuple[Holder | None, Grant]:
    """Return what a process has after a claim (None: it has nothing, and had nothing before), and the grant.

    `own` is what it had, and `turn` is higher than all turns before.
    """
    held_by_others = sum(each.held for each in others)
    need = claim.taken + claim.waiting
    turn_now = turn if own is None or claim.has_begun else own.turn
    if not need:
        # Its turn stays until its lease ends: a process whose requests are dropped is the next one.
        after = Holder(0, 0, turn_now) if own is not None else None
        return after, Grant(0, 0, max(0, claim.limit - held_by_others))
    others_need = [(each.turn, each.need) for each in others]
    target = divide(claim.limit, [*others_need, (turn_now, need)])[-1]
    places = min(target, max(0, claim.limit - held_by_others))
    held = max(claim.taken, places)
    waits = [(each.turn, each.need - each.held) for each in others]
    queue = divide(claim.queue, [*waits, (turn_now, need - held)])[-1]
    if own is not None and places > own.held:
        turn_now = turn
    return Holder(held, min(need, held + queue), turn_now), Grant(
        places, queue, max(0, claim.limit - held_by_others - held)
    )


def grant_retries(claim: RetryClaim, counted: Mapping[int, tuple[int, int]], second: int) -> tuple[int, int, int]:
    """Return the retries that are granted, and the requests and the retries to count in this second.

    `counted` has the requests and the retries by second.
    """
    window = [each for at, each in counted.items() if second - WINDOW < at <= second]
    requests = claim.requests + sum(each[0] for each in window)
    retries = claim.made + sum(each[1] for each in window)
    most = max(claim.least, int(claim.share * requests))
    granted = min(claim.wanted, max(0, most - retries))
    return granted, claim.requests, claim.made + granted

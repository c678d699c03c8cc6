"""The responses of one client push out no entry of another from the memory of who issued which response.

50,000 are known in all, and the newest ones of one busy client were all that was known.
"""

from __future__ import annotations

import random
import tracemalloc

from dragoman_server.routing.response_issuers import RESPONSES_MAX, Issuer, ResponseIssuers

UP = Issuer("up", "http://up/v1", "")
BUSY, OTHER = b"b" * 32, b"o" * 32


def test_a_busy_client_has_a_fourth() -> None:
    issuers = ResponseIssuers(400)
    issuers.add(OTHER, "resp_1", UP)
    for number in range(4000):
        issuers.add(BUSY, f"resp_{number}", UP)
    print(f"{len(issuers)} of 400 are known")
    assert issuers.find(OTHER, "resp_1") == UP
    assert len(issuers) == 101
    assert issuers.find(BUSY, "resp_3900") == UP
    assert issuers.find(BUSY, "resp_3899") is None


def test_the_idlest_client_loses_one_if_many_fill_the_memory() -> None:
    issuers = ResponseIssuers(40)
    owners = [b"%d" % number for number in range(6)]
    for owner in owners:
        for number in range(10):
            issuers.add(owner, f"resp_{number}", UP)
    assert len(issuers) == 40
    assert [issuers.find(owner, "resp_9") is not None for owner in owners] == [False] * 2 + [True] * 4
    assert len(issuers._known) == 4


def test_clients_without_keys_share_all() -> None:
    issuers = ResponseIssuers(40)
    for number in range(50):
        issuers.add(b"", f"resp_{number}", UP)
    assert len(issuers) == 40
    assert issuers.find(b"", "resp_10") == UP
    assert issuers.find(b"", "resp_9") is None


def test_the_size_is_that_of_the_entries() -> None:
    issuers, chance = ResponseIssuers(60), random.Random(1)
    for _ in range(5000):
        issuers.add(b"%d" % chance.randrange(9), f"resp_{chance.randrange(30)}", UP)
        issuers.find(b"%d" % chance.randrange(9), f"resp_{chance.randrange(30)}")
        assert len(issuers) == sum(map(len, issuers._known.values())) <= 60


def test_an_entry_of_an_owner_of_its_own_takes_little_memory() -> None:
    issuers = ResponseIssuers(RESPONSES_MAX // 10)
    tracemalloc.start()
    try:
        for number in range(RESPONSES_MAX // 5):
            issuers.add(b"%32d" % number, "resp_1", UP)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(f"{peak // len(issuers)} bytes for each of {len(issuers)} entries")
    assert len(issuers) == len(issuers._known) == RESPONSES_MAX // 10
    assert peak <= 1024 * len(issuers)

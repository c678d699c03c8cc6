"""The stores of shared routing: one suite for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dragoman_server.accounts.limits.claim import KEPT_MS
from dragoman_server.proxy.shared_routing import interface, redis_scripts, sqlite
from dragoman_server.proxy.shared_routing.interface import (
    ISSUER_SECONDS,
    LEASE,
    RUN_SECONDS,
    TAKEN_SECONDS,
    Answer,
    RetryClaim,
    RoutingStore,
)
from dragoman_server.routing.shared_slots import Grant, PlaceClaim
from support.redis_server import RedisServer, redis_server
from support.routing_stores import KINDS, NO_RETRIES, opened
from support.stores import Clock


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> AsyncIterator[RoutingStore]:
    url = request.getfixturevalue("redis").url if request.param == "redis" else ""
    async with opened(request.param, clock, tmp_path, url) as found:
        yield found


def claim(taken: int, waiting: int = 0, *, limit: int = 4, queue: int = 4, begun: bool = False) -> PlaceClaim:
    return PlaceClaim("up", limit, queue, taken, waiting, begun)


async def places(store: RoutingStore, process: str, *claims: PlaceClaim) -> list[Grant]:
    return list((await store.exchange(process, claims, NO_RETRIES)).grants)


async def test_places_are_granted_up_to_the_limit(store: RoutingStore) -> None:
    assert await places(store, "a", claim(0, 3)) == [Grant(3, 0, 1)]
    assert await places(store, "b", claim(0, 3)) == [Grant(1, 2, 0)]
    assert await places(store, "a", claim(2)) == [Grant(2, 0, 1)]
    assert await places(store, "b", claim(1, 2)) == [Grant(2, 1, 0)]


async def test_providers_are_apart_and_one_call_has_many(store: RoutingStore) -> None:
    other = PlaceClaim("other: {} ü", 2, 0, 0, 5, False)
    assert await places(store, "a", claim(0, 1), other) == [Grant(1, 0, 3), Grant(2, 0, 0)]
    assert await places(store, "b", other, claim(0, 9)) == [Grant(0, 0, 0), Grant(3, 4, 0)]


async def test_an_answer_that_was_lost_changes_nothing(store: RoutingStore) -> None:
    for _ in range(3):
        assert await places(store, "a", claim(0, 3)) == [Grant(3, 0, 1)]


async def test_a_process_that_no_longer_calls_loses_its_places(store: RoutingStore, clock: Clock) -> None:
    assert await places(store, "killed", claim(0, 4)) == [Grant(4, 0, 0)]
    clock.now += LEASE - 1
    answer = await store.exchange("a", [claim(0, 4)], NO_RETRIES)
    assert answer == Answer(2, 0, [Grant(0, 4, 0)])
    clock.now += 1
    answer = await store.exchange("a", [claim(0, 4)], NO_RETRIES)
    assert answer == Answer(1, 0, [Grant(4, 0, 0)])


async def test_a_call_renews_the_places(store: RoutingStore, clock: Clock) -> None:
    for _ in range(5):
        await store.exchange("a", [claim(4)], NO_RETRIES)
        clock.now += LEASE - 1
        assert await places(store, "b", claim(0, 1)) == [Grant(0, 1, 0)]


async def test_more_requests_than_the_limit_are_counted_as_they_are(store: RoutingStore) -> None:
    """After an outage of the store, or with a smaller limit."""
    assert await places(store, "a", claim(6)) == [Grant(4, 0, 0)]
    assert await places(store, "b", claim(0, 1)) == [Grant(0, 1, 0)]
    assert await places(store, "a", claim(4)) == [Grant(3, 0, 0)]
    assert await places(store, "a", claim(3)) == [Grant(3, 0, 1)]
    assert await places(store, "b", claim(0, 1)) == [Grant(1, 0, 0)]


async def test_two_processes_take_turns_at_one_place(store: RoutingStore) -> None:
    assert await places(store, "a", claim(0, 2, limit=1)) == [Grant(1, 1, 0)]
    assert await places(store, "b", claim(0, 1, limit=1)) == [Grant(0, 1, 0)]
    assert await places(store, "a", claim(1, 2, limit=1, begun=True)) == [Grant(0, 2, 0)]
    assert await places(store, "a", claim(0, 2, limit=1)) == [Grant(0, 2, 1)]
    assert await places(store, "b", claim(0, 1, limit=1)) == [Grant(1, 0, 0)]


async def test_a_process_that_was_refused_comes_before_one_that_was_served_since(store: RoutingStore) -> None:
    def one(taken: int, waiting: int = 0, *, begun: bool = False) -> PlaceClaim:
        return claim(taken, waiting, limit=1, queue=1, begun=begun)

    assert await places(store, "a", one(0, 2)) == [Grant(1, 1, 0)]
    assert await places(store, "b", one(0, 1)) == [Grant(0, 0, 0)]
    assert await places(store, "b", one(0)) == [Grant(0, 0, 0)]
    assert await places(store, "a", one(1, 1, begun=True)) == [Grant(1, 1, 0)]
    assert await places(store, "b", one(0, 1)) == [Grant(0, 1, 0)]
    assert await places(store, "a", one(1, 1)) == [Grant(0, 0, 0)]


async def test_retries_are_a_share_of_all_requests(store: RoutingStore, clock: Clock) -> None:
    async def retries(
        process: str, requests: int, made: int, wanted: int, *, share: float = 0.5, least: int = 1
    ) -> int:
        return (await store.exchange(process, [], RetryClaim(requests, made, wanted, share, least))).retries

    assert await retries("a", 0, 0, 5) == 1
    assert await retries("b", 0, 0, 5) == 0
    assert await retries("b", 9, 0, 0) == 0
    assert await retries("a", 1, 1, 2) == 2, "5 of 10 requests, of which two were made"
    assert await retries("b", 0, 0, 9) == 1
    assert await retries("b", 0, 0, 9) == 0
    clock.now += 9
    assert await retries("a", 0, 0, 9) == 0
    clock.now += 1
    assert await retries("a", 0, 0, 9) == 1
    assert await retries("a", 0, 0, 9, share=0.0, least=0) == 0


async def test_an_issuer_is_known_to_its_client_only(store: RoutingStore) -> None:
    await store.keep_issuer("aa", "01", "east")
    await store.keep_issuer("aa", "02", "west")
    await store.keep_issuer("aa", "01", "north")
    assert [await store.find_issuer("aa", each) for each in ("01", "02", "03")] == ["north", "west", None]
    assert await store.find_issuer("", "01") is None


async def test_an_issuer_is_forgotten_some_time_after_its_last_use(store: RoutingStore, clock: Clock) -> None:
    await store.keep_issuer("aa", "01", "east")
    await store.keep_issuer("aa", "02", "east")
    clock.now += ISSUER_SECONDS - 10
    assert await store.find_issuer("aa", "01") == "east"
    clock.now += 11
    assert await store.find_issuer("aa", "02") is None
    assert await store.find_issuer("aa", "01") == "east"


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_a_client_has_so_many_issuers_at_most(
    kind: str, clock: Clock, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "ISSUERS_MAX", 3)
    most = f", {interface.ISSUERS_MAX}\n"
    assert most in redis_scripts.KEEP_ISSUER
    monkeypatch.setattr(redis_scripts, "KEEP_ISSUER", redis_scripts.KEEP_ISSUER.replace(most, ", 3\n"))
    url = request.getfixturevalue("redis").url if kind == "redis" else ""
    async with opened(kind, clock, tmp_path, url) as store:
        for number in range(5):
            await store.keep_issuer("aa", str(number), "east")
            clock.now += 1
        await store.keep_issuer("bb", "0", "west")
        assert [await store.find_issuer("aa", str(number)) for number in range(5)] == [None, None, *["east"] * 3]
        assert await store.find_issuer("bb", "0") == "west"


async def test_a_running_response_is_taken_by_one_process(store: RoutingStore, clock: Clock) -> None:
    await store.keep_run("aa", "01", '{"row":1}')
    assert await store.take_run("bb", "01") is None
    assert await store.take_run("aa", "02") is None
    assert [await store.take_run("aa", "01") for _ in range(2)] == ['{"row":1}', None]
    clock.now += TAKEN_SECONDS + 1  # the process that has taken it was killed
    assert [await store.take_run("aa", "01") for _ in range(2)] == ['{"row":1}', None]
    await store.end_run("aa", "01")
    clock.now += TAKEN_SECONDS + 1
    assert await store.take_run("aa", "01") is None


async def test_a_running_response_is_forgotten_after_its_time(store: RoutingStore, clock: Clock) -> None:
    await store.keep_run("aa", "01", "one")
    await store.keep_run("aa", "02", "two")
    clock.now += RUN_SECONDS - 10
    assert await store.take_run("aa", "01") == "one"
    clock.now += 11
    assert await store.take_run("aa", "02") is None
    await store.keep_run("aa", "03", "three")
    assert await store.take_run("aa", "03") == "three"


def test_a_second_settlement_is_recognised_for_longer() -> None:
    assert RUN_SECONDS * 1000 + TAKEN_SECONDS * 1000 < KEPT_MS


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_a_client_has_so_many_running_responses_at_most(
    kind: str, clock: Clock, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "RUNS_MAX", 3)
    most = f", {interface.RUNS_MAX}, "
    assert most in redis_scripts.KEEP_RUN
    monkeypatch.setattr(redis_scripts, "KEEP_RUN", redis_scripts.KEEP_RUN.replace(most, ", 3, "))
    url = request.getfixturevalue("redis").url if kind == "redis" else ""
    async with opened(kind, clock, tmp_path, url) as store:
        for number in range(5):
            await store.keep_run("aa", str(number), "one")
            clock.now += 1
        await store.keep_run("bb", "0", "two")
        assert [await store.take_run("aa", str(number)) for number in range(5)] == [None, None, *["one"] * 3]
        assert await store.take_run("bb", "0") == "two"

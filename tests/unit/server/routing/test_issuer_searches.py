"""The searches for issuers: misses are remembered, requests for one id share a search, and each client has few."""

from __future__ import annotations

import asyncio

import pytest

from dragoman import DragomanError
from dragoman_server.routing.issuer_searches import (
    CLIENTS_MAX,
    MISS_SECONDS,
    MISSES_MAX,
    OPEN_MAX,
    TRIES_MAX,
    IssuerSearches,
)
from dragoman_server.routing.response_issuers import Issuer

EAST, WEST, NORTH = (Issuer(name, f"https://{name}.example/v1", "") for name in ("east", "west", "north"))
ALL = (EAST, WEST, NORTH)


class Providers:
    """Providers with these answers, all others have nothing. With `closed`, they answer only when it is set."""

    def __init__(self, answers: dict[Issuer, bool | None] | None = None) -> None:
        self.answers = answers or {}
        self.asked: list[Issuer] = []
        self.open = asyncio.Event()
        self.open.set()

    async def ask(self, issuer: Issuer) -> bool | None:
        self.asked.append(issuer)
        await self.open.wait()
        return self.answers.get(issuer, False)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_providers_are_asked_in_order_up_to_the_first_that_has_it() -> None:
    providers, searches = Providers({WEST: True, NORTH: True}), IssuerSearches(Clock())
    assert await searches.find(b"client", "resp_1", ALL, providers.ask) == WEST
    assert providers.asked == [EAST, WEST]


async def test_an_id_that_no_one_has_is_asked_for_again_after_a_while() -> None:
    providers, clock = Providers(), Clock()
    searches = IssuerSearches(clock)
    for _ in range(5):
        assert await searches.find(b"client", "resp_1", ALL, providers.ask) is None
    assert providers.asked == [*ALL]
    clock.now += MISS_SECONDS
    providers.answers[NORTH] = True
    assert await searches.find(b"client", "resp_1", ALL, providers.ask) == NORTH
    assert providers.asked == [*ALL, *ALL]


async def test_a_miss_is_that_of_its_client_id_and_provider() -> None:
    providers, searches = Providers({NORTH: True}), IssuerSearches(Clock())
    assert await searches.find(b"client", "resp_1", (EAST, WEST), providers.ask) is None
    assert await searches.find(b"client", "resp_1", ALL, providers.ask) == NORTH
    assert await searches.find(b"another", "resp_1", (EAST,), providers.ask) is None
    assert await searches.find(b"client", "resp_2", (EAST,), providers.ask) is None
    assert providers.asked == [EAST, WEST, NORTH, EAST, EAST]


async def test_a_provider_that_does_not_answer_is_asked_again_and_may_have_it() -> None:
    providers, searches = Providers({WEST: None, NORTH: None}), IssuerSearches(Clock())
    for _ in range(2):
        assert await searches.find(b"client", "resp_1", ALL, providers.ask) == WEST
    assert providers.asked == [EAST, WEST, NORTH, WEST, NORTH]


async def test_the_first_providers_are_asked_only() -> None:
    many = tuple(Issuer("one", "https://one.example/v1", str(number)) for number in range(20))
    providers, searches = Providers(), IssuerSearches(Clock())
    for _ in range(3):
        assert await searches.find(b"client", "resp_1", many, providers.ask) is None
    assert providers.asked == [*many[:TRIES_MAX]]


async def test_requests_for_one_id_share_a_search() -> None:
    providers, searches = Providers({WEST: True}), IssuerSearches(Clock())
    providers.open.clear()
    finding = [asyncio.create_task(searches.find(b"client", "resp_1", ALL, providers.ask)) for _ in range(50)]
    await turns()
    finding[0].cancel()  # the one that began it
    await turns()
    providers.open.set()
    assert await asyncio.gather(*finding[1:]) == [WEST] * 49
    assert providers.asked == [EAST, WEST]


async def test_a_search_ends_with_the_last_request_that_waits_for_it() -> None:
    providers, searches = Providers({WEST: True}), IssuerSearches(Clock())
    providers.open.clear()
    finding = [asyncio.create_task(searches.find(b"client", "resp_1", ALL, providers.ask)) for _ in range(3)]
    await turns()
    for task in finding:
        task.cancel()
    following = asyncio.create_task(searches.find(b"client", "resp_1", ALL, providers.ask))
    await turns()
    assert [task.cancelled() for task in finding] == [True] * 3
    providers.open.set()
    assert await following == WEST
    assert providers.asked == [EAST, EAST, WEST]


async def test_a_client_has_few_searches_at_a_time_and_others_go_on() -> None:
    providers, searches = Providers({EAST: True}), IssuerSearches(Clock())
    providers.open.clear()
    finding = [asyncio.create_task(searches.find(b"client", f"resp_{n}", ALL, providers.ask)) for n in range(30)]
    await turns()
    assert len(providers.asked) == OPEN_MAX
    another = asyncio.create_task(searches.find(b"another", "resp_1", ALL, providers.ask))
    await turns()
    assert len(providers.asked) == OPEN_MAX + 1
    providers.open.set()
    assert await asyncio.gather(*finding, another) == [EAST] * 31


async def test_a_client_with_many_unknown_ids_is_rejected_until_they_are_forgotten() -> None:
    providers, clock = Providers(), Clock()
    searches = IssuerSearches(clock)
    results = await asyncio.gather(
        *(searches.find(b"client", f"resp_{number}", ALL, providers.ask) for number in range(200)),
        return_exceptions=True,
    )
    rejected = [each for each in results if isinstance(each, DragomanError)]
    assert len(rejected) >= 200 - MISSES_MAX - OPEN_MAX
    assert {each.failure.status for each in rejected} == {429}
    assert {each.failure.headers["retry-after"] for each in rejected} == {str(int(MISS_SECONDS))}
    assert len(providers.asked) <= (MISSES_MAX + OPEN_MAX) * len(ALL)
    assert await searches.find(b"another", "resp_1", ALL, providers.ask) is None
    clock.now += MISS_SECONDS
    assert await searches.find(b"client", "resp_1", ALL, providers.ask) is None


async def test_one_that_waits_too_long_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a place the client's search has not begun; with one, the provider that is silent may have it."""
    monkeypatch.setattr("dragoman_server.routing.issuer_searches.SECONDS", 0.0)
    providers, searches = Providers(), IssuerSearches(Clock())
    providers.open.clear()
    finding = [searches.find(b"client", f"resp_{number}", ALL, providers.ask) for number in range(OPEN_MAX + 1)]
    *first, last = await asyncio.gather(*finding, return_exceptions=True)
    assert first == [EAST] * OPEN_MAX
    assert isinstance(last, DragomanError)
    assert last.failure.status == 429


async def test_the_clients_that_are_known_are_bounded() -> None:
    providers, searches = Providers(), IssuerSearches(Clock())
    for number in range(CLIENTS_MAX + 50):
        await searches.find(b"%d" % number, "resp_1", (EAST,), providers.ask)
    assert len(searches) == CLIENTS_MAX
    asked = len(providers.asked)
    await searches.find(b"%d" % (CLIENTS_MAX + 49), "resp_1", (EAST,), providers.ask)
    assert len(providers.asked) == asked

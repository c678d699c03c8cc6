"""When a credential is fetched: expiry, many waiting requests, refusals, and a source that is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from dragoman.aio import UpstreamRequest
from dragoman_server.credentials.credential import CredentialError, Grant, SourceError
from dragoman_server.credentials.renewal import LEAST, MARGIN, PAUSE, Renewal
from support.clocks import Clock
from support.waiting import until

NAME = "providers.p.credential"


class Tokens:
    """A source whose fetches last until the test lets them end."""

    refusals = frozenset((401,))

    def __init__(self, seconds: float = 3600.0) -> None:
        self.seconds = seconds
        self.fetched: list[bool] = []
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.same = ""

    async def fetch(self, *, refused: bool) -> Grant[str]:
        self.fetched.append(refused)
        number = len(self.fetched)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return Grant(self.same or f"token {number}", self.seconds)

    async def authorized(self, request: UpstreamRequest, value: str) -> UpstreamRequest:
        raise NotImplementedError

    def secrets(self, value: str) -> Sequence[str]:
        raise NotImplementedError


class Kept:
    """A renewal with its source, its clock, and the credentials that it reported."""

    def __init__(self, seconds: float = 3600.0) -> None:
        self.source, self.clock = Tokens(seconds), Clock()
        self.learned: list[list[str]] = []
        self.renewal: Renewal[str] = Renewal(self.source, NAME, self.learned.append, self.clock)

    async def settled(self) -> None:
        """Let a fetch in the background end."""
        await until(lambda: self.renewal._task is None)


async def test_a_hundred_requests_wait_for_one_fetch() -> None:
    kept = Kept()
    kept.source.gate.clear()
    waiting = [asyncio.create_task(kept.renewal.current()) for _ in range(100)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # its client has disconnected: the others are served all the same
    await asyncio.sleep(0)
    kept.source.gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == ["token 1"] * 99
    assert kept.source.fetched == [False]
    assert await kept.renewal.current() == "token 1"
    assert len(kept.source.fetched) == 1


async def test_it_is_fetched_before_it_expires_without_a_wait() -> None:
    kept = Kept()
    assert await kept.renewal.current() == "token 1"
    kept.clock.now += 3600 - MARGIN - 1
    assert await kept.renewal.current() == "token 1"
    assert len(kept.source.fetched) == 1
    kept.clock.now += 1
    kept.source.gate.clear()
    assert [await kept.renewal.current() for _ in range(100)] == ["token 1"] * 100
    await asyncio.sleep(0)
    assert len(kept.source.fetched) == 2
    kept.source.gate.set()
    await kept.settled()
    assert await kept.renewal.current() == "token 2"
    assert kept.learned == [["token 1"], ["token 2", "token 1"]]


async def test_after_its_end_requests_wait_for_the_next_one() -> None:
    kept = Kept(10.0)
    await kept.renewal.current()
    kept.clock.now += 10.0
    assert not kept.renewal.is_valid
    found = await asyncio.gather(*(kept.renewal.current() for _ in range(100)))
    assert found == ["token 2"] * 100
    assert len(kept.source.fetched) == 2


async def test_a_wrong_clock_does_not_make_each_request_a_fetch() -> None:
    kept = Kept(-600.0)
    assert [await kept.renewal.current() for _ in range(3)] == ["token 1"] * 3
    kept.clock.now += LEAST
    assert await kept.renewal.current() == "token 2"


async def test_a_hundred_refusals_are_one_fetch() -> None:
    kept = Kept()
    refused = await kept.renewal.current()
    kept.source.gate.clear()
    waiting = [asyncio.create_task(kept.renewal.after_refusal(refused)) for _ in range(100)]
    await asyncio.sleep(0)
    kept.source.gate.set()
    assert await asyncio.gather(*waiting) == ["token 2"] * 100
    assert kept.source.fetched == [False, True]
    # A late refusal of the old one.
    assert await kept.renewal.after_refusal(refused) == "token 2"
    assert len(kept.source.fetched) == 2


async def test_refusals_do_not_fetch_without_end() -> None:
    kept = Kept()
    first = await kept.renewal.current()
    second = await kept.renewal.after_refusal(first)
    assert second == "token 2"
    assert await kept.renewal.after_refusal(second) is None
    kept.clock.now += PAUSE
    assert await kept.renewal.after_refusal(second) == "token 3"


async def test_a_refusal_that_nothing_waits_for() -> None:
    kept = Kept()
    first = await kept.renewal.current()
    kept.renewal.end("another")
    assert kept.renewal.is_valid
    kept.renewal.end(first)
    assert not kept.renewal.is_valid
    second = await kept.renewal.current()
    assert second == "token 2"
    kept.renewal.end(second)  # too early
    assert await kept.renewal.current() is second


async def test_a_source_that_is_away_is_asked_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    kept = Kept()
    kept.source.error = SourceError("it is away: check the network")
    for _ in range(3):
        with pytest.raises(CredentialError, match=r"providers\.p\.credential: it is away: check the network"):
            await kept.renewal.current()
    assert len(kept.source.fetched) == 1
    assert kept.renewal.problem
    kept.clock.now += PAUSE
    with pytest.raises(CredentialError):
        await kept.renewal.current()
    kept.clock.now += PAUSE
    kept.source.error = None
    assert await kept.renewal.current() == "token 3"
    assert not kept.renewal.problem
    assert [record.getMessage() for record in caplog.records] == [
        "providers.p.credential: it is away: check the network",
        "providers.p.credential works again",
    ]


async def test_a_credential_outlives_a_failed_renewal() -> None:
    kept = Kept(100.0)
    await kept.renewal.current()
    kept.clock.now += 90.0
    kept.source.error = SourceError("away")
    assert await kept.renewal.current() == "token 1"
    await kept.settled()
    assert kept.renewal.problem
    assert await kept.renewal.current() == "token 1"
    assert len(kept.source.fetched) == 2  # no further one within the pause
    kept.clock.now += 10.0
    with pytest.raises(CredentialError):
        await kept.renewal.current()


async def test_an_unforeseen_error_shows_no_text() -> None:
    kept = Kept()
    kept.source.error = RuntimeError("canary-token")
    with pytest.raises(CredentialError) as caught:
        await kept.renewal.current()
    assert "canary" not in str(caught.value)
    assert "(RuntimeError)" in str(caught.value)


async def test_an_unchanged_credential_is_no_other_one() -> None:
    kept = Kept()
    kept.source.same = "kept"
    first = await kept.renewal.current()
    assert await kept.renewal.after_refusal(first) is first
    assert kept.learned[-1] == ["kept"]


async def test_it_begins_in_the_background_and_can_be_closed() -> None:
    kept = Kept()
    kept.source.gate.clear()
    kept.renewal.start()
    kept.renewal.start()
    await asyncio.sleep(0)
    assert kept.source.fetched == [False]
    assert repr(kept.renewal) == "<Renewal providers.p.credential empty>"
    waiting = asyncio.create_task(kept.renewal.current())
    await asyncio.sleep(0)
    await kept.renewal.close()
    with pytest.raises(CredentialError, match="closed"):
        await waiting
    kept.source.gate.set()
    assert await kept.renewal.current() == "token 2"
    assert repr(kept.renewal) == "<Renewal providers.p.credential valid>"

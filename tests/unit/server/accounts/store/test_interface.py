"""The rules that each store follows: one suite for all of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.limits.claim import KEPT_MS, Claim, Outcome, Settlement
from dragoman_server.accounts.limits.decision import SCALE
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.store import memory, postgres, redis, sqlite
from dragoman_server.accounts.store.interface import AccountStore, KeyStore, Lease, Spent, StoreError
from dragoman_server.accounts.store.options import StoreOptions
from support.claims import claim_on, settlement_on
from support.stores import KINDS, Clock, opened

DAY, MONTH = "2026-11-22", "2026-11"
DAY_SECONDS = 86_400.0
_NUMBERS = itertools.count()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> AsyncIterator[AccountStore]:
    url = request.getfixturevalue("redis").url if request.param == "redis" else ""
    async with opened(request.param, clock, tmp_path, url) as found:
        yield found


@pytest.fixture(params=[*KINDS, "postgresql"])
async def key_store(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> AsyncIterator[KeyStore]:
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").url
        options = StoreOptions("postgresql", url=url, prefix=f"keys-{next(_NUMBERS)}", timeout=10.0)
        kept = postgres.PostgresKeyStore(options)
        await kept.open()
        yield kept
        await kept.close()
    else:
        url = request.getfixturevalue("redis").url if request.param == "redis" else ""
        async with opened(request.param, clock, tmp_path, url) as found:
            yield found


def claim(
    lease: str, *, key: str = "alice", concurrent: int = 0, requests: int = 0, budget: int = 0, tokens: int = 1
) -> Claim:
    buckets = (("requests", requests, 1),) if requests else ()
    budgets = (("daily_tokens", DAY, budget, tokens),) if budget else ()
    return claim_on(key, lease, concurrent, buckets, budgets)


def charge(lease: str, tokens: int, *, key: str = "alice", granted: bool = True, period: str = DAY) -> Settlement:
    return settlement_on(key, lease, granted, (), (("daily_tokens", period, 10**6, tokens),))


async def test_a_claim_without_limits_is_granted(store: AccountStore) -> None:
    assert await store.admit(claim("1")) == Outcome((), 1, (), ())


async def test_a_bucket_holds_its_limit_and_is_filled(store: AccountStore, clock: Clock) -> None:
    for number in range(3):
        outcome = await store.admit(claim(str(number), requests=3))
        assert outcome == Outcome((), number + 1, ((2 - number) * SCALE,), ())
    assert (await store.admit(claim("x", requests=3))).rejected == ("requests",)
    clock.now += 19.999
    assert (await store.admit(claim("x", requests=3))).rejected == ("requests",)
    clock.now += 0.001
    assert (await store.admit(claim("x", requests=3))).rejected == ()


async def test_keys_do_not_share_limits(store: AccountStore) -> None:
    assert (await store.admit(claim("1", requests=1))).rejected == ()
    assert (await store.admit(claim("2", requests=1, key="bob"))).rejected == ()
    assert (await store.admit(claim("3", requests=1))).rejected == ("requests",)


async def test_open_requests_are_counted_until_they_are_settled(store: AccountStore) -> None:
    assert (await store.admit(claim("1", concurrent=2))).open == 1
    assert (await store.admit(claim("2", concurrent=2))).open == 2
    assert await store.admit(claim("3", concurrent=2)) == Outcome(("concurrent",), 2, (), ())
    await store.settle([settlement_on("alice", "1", True)])
    assert (await store.admit(claim("3", concurrent=2))).rejected == ()


async def test_an_open_request_that_is_not_renewed_expires(store: AccountStore, clock: Clock) -> None:
    await store.admit(claim("1", concurrent=2))
    await store.admit(claim("2", concurrent=2))
    clock.now += 59
    await store.renew([Lease("alice", "2"), Lease("alice", "unknown"), Lease("bob", "1")])
    clock.now += 2
    assert (await store.admit(claim("3", concurrent=2))).open == 2
    assert (await store.admit(claim("4", concurrent=2))).rejected == ("concurrent",)


async def test_a_request_that_has_expired_can_still_be_settled(store: AccountStore, clock: Clock) -> None:
    await store.admit(claim("1", budget=100, tokens=10))
    clock.now += 600
    await store.settle([charge("1", 25)])
    assert await store.spent("alice") == [Spent("daily_tokens", DAY, 35)]


@pytest.mark.parametrize("days", [1, -1])
async def test_an_open_request_is_kept_when_the_clock_jumps_and_comes_back(
    store: AccountStore, clock: Clock, days: int
) -> None:
    await store.admit(claim("1", concurrent=1, budget=100, tokens=10))
    for jump in (days, -days):
        clock.now += jump * 86_400
        await store.renew([Lease("alice", "1")])
        assert (await store.admit(claim("2", concurrent=1))).rejected == ("concurrent",)
    clock.now += days * 86_400
    await store.settle([charge("1", 25)])
    clock.now -= days * 86_400
    assert await store.spent("alice") == [Spent("daily_tokens", DAY, 35)]


async def test_a_lease_is_forgotten_in_the_end(store: AccountStore, clock: Clock) -> None:
    await store.admit(claim("1", budget=100, tokens=10))
    clock.now += KEPT_MS / 1000 + 61
    await store.admit(claim("2"))
    await store.settle([charge("1", 25)])
    assert await store.spent("alice") == [Spent("daily_tokens", DAY, 10)]


async def test_a_renewal_does_not_restore_what_was_settled(store: AccountStore) -> None:
    await store.admit(claim("1", concurrent=1))
    await store.settle([settlement_on("alice", "1", True)])
    await store.renew([Lease("alice", "1")])
    assert (await store.admit(claim("2", concurrent=1))).rejected == ()


async def test_a_budget_counts_estimates_and_then_what_was_used(store: AccountStore) -> None:
    assert (await store.admit(claim("1", budget=100, tokens=60))).spent == (60,)
    assert await store.admit(claim("2", budget=100, tokens=60)) == Outcome(("daily_tokens",), 1, (), (60,))
    await store.settle([charge("1", -20)])
    assert (await store.admit(claim("2", budget=100, tokens=60))).spent == (100,)


@pytest.mark.parametrize("granted", [True, False])
async def test_a_settlement_is_applied_once(store: AccountStore, granted: bool) -> None:
    if granted:
        await store.admit(claim("1", budget=1000, tokens=10))
    for _ in range(3):
        await store.settle([charge("1", 30, granted=granted), charge("1", 30, granted=granted)])
    assert await store.spent("alice") == [Spent("daily_tokens", DAY, 40 if granted else 30)]


async def test_the_settlement_of_an_unknown_claim_changes_nothing(store: AccountStore) -> None:
    await store.settle([charge("never", 30)])
    assert await store.spent("alice") == []


async def test_a_settlement_for_a_day_that_has_passed_goes_into_that_day(store: AccountStore, clock: Clock) -> None:
    clock.now = datetime(2026, 11, 22, 23, 59, 50, tzinfo=UTC).timestamp()
    await store.admit(claim("1", budget=100))
    clock.now += 20
    await store.admit(claim("2", budget=100, tokens=5))
    await store.settle([charge("1", 50)])
    assert await store.spent("alice") == [Spent("daily_tokens", "2026-11-23", 5)]
    clock.now -= 20
    assert await store.spent("alice") == [Spent("daily_tokens", DAY, 51)]


async def test_what_was_not_granted_counts_when_it_is_settled(store: AccountStore, clock: Clock) -> None:
    clock.now += DAY_SECONDS
    await store.settle([charge("1", 30, granted=False)])
    assert await store.spent("alice") == [Spent("daily_tokens", "2026-11-23", 30)]


@pytest.mark.parametrize("days", [-40, -1, 1, 40])
async def test_a_clock_that_was_wrong_leaves_the_sums_of_the_right_days(
    store: AccountStore, clock: Clock, days: int
) -> None:
    budgets = (("daily_tokens", DAY, 100, 60), ("monthly_tokens", MONTH, 100, 60))
    assert not (await store.admit(claim_on("alice", "1", 0, (), budgets))).rejected
    right = clock.now
    clock.now += days * DAY_SECONDS
    await store.admit(claim_on("alice", "wrong", 0, (), budgets))
    clock.now = right
    for number in range(5):
        outcome = await store.admit(claim_on("alice", f"then-{number}", 0, (), budgets))
        assert outcome.rejected == ("daily_tokens", "monthly_tokens")
        assert outcome.spent == (60, 60)
    assert await store.spent("alice") == [Spent("daily_tokens", DAY, 60), Spent("monthly_tokens", MONTH, 60)]


@pytest.mark.parametrize(
    ("moment", "period"),
    [
        (datetime(2026, 11, 30, 23, 59, 59, 999_000, UTC), "2026-11-30"),
        (datetime(2026, 12, 1, tzinfo=UTC), "2026-12-01"),
        (datetime(2028, 2, 29, 23, 59, 59, tzinfo=UTC), "2028-02-29"),
        (datetime(2028, 3, 1, tzinfo=UTC), "2028-03-01"),
        (datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), "2026-12-31"),
        (datetime(2100, 2, 28, 12, tzinfo=UTC), "2100-02-28"),
        (datetime(2100, 3, 1, 0, 0, 1, tzinfo=UTC), "2100-03-01"),
        # Where clocks are set forward and back, the days of UTC go on.
        (datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), "2026-03-29"),
        (datetime(2026, 10, 25, 0, 30, tzinfo=ZoneInfo("Europe/Berlin")), "2026-10-24"),
        (datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=ZoneInfo("America/New_York")), "2026-11-01"),
    ],
)
async def test_a_period_is_a_day_and_a_month_of_utc(
    store: AccountStore, clock: Clock, moment: datetime, period: str
) -> None:
    clock.now = moment.timestamp()
    budgets = (("daily_tokens", DAY, 100, 1), ("monthly_tokens", MONTH, 100, 2))
    outcome = await store.admit(claim_on("alice", "1", 0, (), budgets))
    assert outcome.at == int(clock.now * 1000)
    expected = [Spent("daily_tokens", period, 1), Spent("monthly_tokens", period[:7], 2)]
    assert await store.spent("alice") == expected


async def test_all_stores_agree_on_the_periods_of_many_years(store: AccountStore, clock: Clock) -> None:
    for number in range(400):
        clock.now = 1_700_000_000 + number * 86_400 * 37.3
        await store.admit(claim("1", key=str(number), budget=100))
        expected = datetime.fromtimestamp(clock.now, UTC).strftime("%Y-%m-%d")
        assert [each.period for each in await store.spent(str(number))] == [expected]


# --- reservations ----------------------------------------------------------------------------------------------------


def reserving(lease: str, hold: int, budget: int = 100, tokens: int = 10) -> Claim:
    return claim_on("alice", lease, 0, (), (("daily_tokens", DAY, budget, tokens, hold),))


def settled(lease: str, hold: int, tokens: int = 0) -> Settlement:
    return settlement_on("alice", lease, True, (), (("daily_tokens", DAY, 100, tokens, hold),))


async def test_a_reservation_ends_with_its_request(store: AccountStore) -> None:
    assert not (await store.admit(reserving("1", 40))).rejected
    assert not (await store.admit(reserving("2", 40))).rejected
    outcome = await store.admit(reserving("3", 1, tokens=0))
    assert (outcome.rejected, outcome.spent, outcome.held) == (("daily_tokens",), (20,), (80,))
    await store.settle([settled("1", 40, 5)])
    outcome = await store.admit(reserving("3", 35, tokens=0))
    assert (outcome.rejected, outcome.spent, outcome.held) == ((), (25,), (40,))
    assert await store.spent("alice") == [Spent("daily_tokens", DAY, 25)]


async def test_a_reservation_that_is_settled_twice_is_returned_once(store: AccountStore) -> None:
    await store.admit(reserving("1", 40))
    await store.admit(reserving("2", 40))
    await store.settle([settled("1", 40), settled("1", 40)])
    await store.settle([settled("1", 40)])
    assert (await store.admit(reserving("3", 0, tokens=0))).held == (40,)


async def test_a_reservation_ends_with_its_lease(store: AccountStore, clock: Clock) -> None:
    await store.admit(reserving("dead", 40))
    await store.admit(reserving("2", 40))
    clock.now += 59
    await store.renew([Lease("alice", "2")])
    clock.now += 2
    outcome = await store.admit(reserving("3", 30))
    assert (outcome.rejected, outcome.spent, outcome.held) == ((), (30,), (40,))
    # A gateway that was only slow settles later: what it used counts, and nothing is returned twice.
    await store.renew([Lease("alice", "dead")])
    await store.settle([settled("dead", 40, 7)])
    outcome = await store.admit(reserving("4", 0, tokens=0))
    assert (outcome.spent, outcome.held) == ((37,), (70,))


async def test_a_renewal_does_not_restore_a_reservation_that_has_ended(store: AccountStore, clock: Clock) -> None:
    await store.admit(reserving("1", 40))
    clock.now += 61
    await store.renew([Lease("alice", "1")])
    assert (await store.admit(reserving("2", 0, tokens=0))).held == (0,)


async def test_a_rejected_request_reserves_nothing(store: AccountStore) -> None:
    assert (await store.admit(reserving("1", 200))).rejected
    assert (await store.admit(reserving("2", 0))).held == (0,)


async def test_a_reservation_does_not_take_from_the_next_day(store: AccountStore, clock: Clock) -> None:
    await store.admit(reserving("1", 90))
    clock.now += DAY_SECONDS
    await store.renew([Lease("alice", "1")])
    assert not (await store.admit(reserving("2", 90))).rejected


async def test_a_day_and_a_month_are_separate_sums(store: AccountStore) -> None:
    budgets = (("daily_tokens", DAY, 100, 7), ("monthly_tokens", MONTH, 1000, 7))
    await store.admit(claim_on("alice", "1", 0, (), budgets))
    assert await store.spent("alice") == [Spent("daily_tokens", DAY, 7), Spent("monthly_tokens", MONTH, 7)]


async def test_large_amounts_stay_exact(store: AccountStore) -> None:
    limit, used = 10**15, 10**15 - 1
    part = ("monthly_cost", MONTH, limit, used)
    outcome = await store.admit(claim_on("alice", "1", 0, (("tokens", 10**10, 10**10 - 1),), (part,)))
    assert outcome == Outcome((), 1, (SCALE,), (used,))
    await store.settle([settlement_on("alice", "1", True, (), (("monthly_cost", MONTH, limit, 1 - used),))])
    assert await store.spent("alice") == [Spent("monthly_cost", MONTH, 1)]


async def test_claims_at_the_same_time_share_a_limit(store: AccountStore) -> None:
    outcomes = await asyncio.gather(*(store.admit(claim(str(number), requests=7)) for number in range(40)))
    assert sum(not outcome.rejected for outcome in outcomes) == 7


async def test_keys_are_kept_with_a_version(key_store: KeyStore) -> None:
    before = await key_store.keys()
    assert before is not None
    assert list(before.records) == []
    assert await key_store.keys(before.version) is None
    alice = KeyRecord("alice", KeyHash.of(new_key()), ("m*",), KeyLimits(5, daily_cost=1.5), 2e9, True)
    bob = KeyRecord("bob", KeyHash.of(new_key()))
    await key_store.put_key(alice)
    await key_store.put_key(bob)
    found = await key_store.keys(before.version)
    assert found is not None
    assert sorted(found.records, key=lambda record: record.name) == [alice, bob]
    assert await key_store.keys(found.version) is None


async def test_a_key_is_replaced_and_removed(key_store: KeyStore) -> None:
    alice, bob = (KeyRecord(name, KeyHash.of(new_key()), admin=True) for name in ("alice", "bob"))
    await key_store.put_key(alice)
    await key_store.put_key(bob)
    found = await key_store.keys()
    assert found is not None
    changed = replace(alice, admin=False, tag="red")
    await key_store.put_key(changed)
    again = await key_store.keys(found.version)
    assert again is not None
    assert again.whole
    assert sorted(again.records, key=lambda record: record.name) == [changed, bob]
    assert await key_store.remove_key(alice.id)
    assert not await key_store.remove_key(alice.id)
    last = await key_store.keys(again.version)
    assert last is not None
    assert (list(last.records), last.whole) == ([bob], True)


async def test_a_removed_key_is_gone_and_has_no_new_budget(store: AccountStore) -> None:
    """Gateways admit it until they read the keys again: its counters must stay."""
    record = KeyRecord("alice", KeyHash.of(new_key()))
    await store.put_key(record)
    assert not (await store.admit(claim("1", key=record.id, budget=100))).rejected
    spent = await store.spent(record.id)
    assert spent
    found = await store.keys()
    assert found is not None
    assert await store.remove_key(record.id)
    assert not await store.remove_key(record.id)
    again = await store.keys(found.version)
    assert again is not None
    assert list(again.records) == []
    assert await store.spent(record.id) == spent


async def test_there_is_a_limit_of_keys(key_store: KeyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory, postgres, redis, sqlite):
        monkeypatch.setattr(module, "KEYS_MAX", 2)
    records = [KeyRecord(name, KeyHash.of(new_key())) for name in "abc"]
    await key_store.put_key(records[0])
    await key_store.put_key(records[1])
    with pytest.raises(StoreError, match="2 keys already"):
        await key_store.put_key(records[2])
    await key_store.put_key(records[1])


async def test_a_cooldown_lasts_for_the_longest_time(store: AccountStore, clock: Clock) -> None:
    await store.cool("openai", 30)
    await store.cool("openai", 10)
    await store.cool("local", 5)
    assert await store.cooldowns() == {"openai": 30, "local": 5}
    clock.now += 6
    assert await store.cooldowns() == {"openai": 24}
    clock.now += 30
    assert await store.cooldowns() == {}


async def test_there_is_a_limit_of_cooldowns(store: AccountStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory, redis, sqlite):
        monkeypatch.setattr(module, "COOLDOWNS_MAX", 2)
    for seconds, name in enumerate("abc", 10):
        await store.cool(name, seconds)
    assert sorted(await store.cooldowns()) == ["b", "c"]


async def test_a_closed_store_raises(store: AccountStore) -> None:
    await store.close()
    if not isinstance(store, memory.MemoryAccountStore):
        with pytest.raises(StoreError):
            await store.ping()

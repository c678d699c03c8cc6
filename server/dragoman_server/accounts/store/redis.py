"""The store in Redis (or Valkey), for gateways on many machines.

A request takes one round trip when it is admitted and one when it has ended. Requests that are admitted or that end in
one turn of the event loop share it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from secrets import token_hex
from typing import Any, cast

from dragoman.threads import RedisConnection
from dragoman.wire import json_dumps
from dragoman_server.accounts.keys.record import KEYS_MAX, KeyRecord, records_of
from dragoman_server.accounts.limits.claim import Amounts, BucketLimit, BudgetLimit, Claim, Outcome, Settlement
from dragoman_server.accounts.limits.decision import KeyState
from dragoman_server.accounts.limits.period import periods_at
from dragoman_server.accounts.store import redis_scripts as scripts
from dragoman_server.accounts.store.interface import Lease, Spent, StoredKeys, StoreError, spent_of
from dragoman_server.accounts.store.memory import COOLDOWNS_MAX
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.redis_pipe import RedisCalls

log = logging.getLogger("dragoman")
SCHEMA = 1
"""The version of what is stored."""
KEPT = "noeviction"
"""The only `maxmemory-policy` of Redis that evicts nothing."""


class RedisAccountStore(RedisCalls):
    """The store in Redis. `clock` returns Unix seconds, for tests; by default times are those of Redis."""

    def __init__(self, options: StoreOptions, clock: Callable[[], float] | None = None) -> None:
        self._options = options
        self._clock = clock
        prefix = options.prefix
        self._prefix = prefix
        keys = f"{{{prefix}:keys}}"
        schema = f"{keys}:schema", SCHEMA
        connection = RedisConnection(
            options.url, options.timeout, setting=options.redis_setting, decode=True, schema=schema
        )
        super().__init__(connection)
        self._keys = keys, f"{keys}:version", f"{keys}:marks"
        """The names of the keys, their version, and the marks of all versions."""
        self._probe = f"{keys}:data", f"{keys}:probe"
        self._data: str | None = None
        """The word that Redis has kept since this process knows it."""
        self._cooldowns = f"{prefix}:cooldowns"

    async def ping(self) -> None:
        """Write something. If Redis has lost its data since the last call, that is a warning."""
        found = await self.run(scripts.PROBE, self._probe, (token_hex(8),))
        if self._data is not None and found != self._data:
            log.warning(
                "Redis has lost its data: budgets and limits began again at zero (let it keep them: appendonly yes,"
                " and maxmemory-policy noeviction)"
            )
        self._data = found

    async def remarks(self) -> Sequence[str]:
        """Return a warning if Redis may evict what the gateway has stored."""
        from redis.exceptions import ResponseError

        async with self.connection.call() as client:
            redis: Any = client
            try:
                if self.connection.is_cluster:
                    found = await redis.execute_command("INFO", "memory", target_nodes="primaries")
                    infos = list(found.values()) if "maxmemory_policy" not in found else [found]
                else:
                    infos = [await redis.info("memory")]
            except ResponseError:
                return ()  # this user may not read it
        policy = next((each for info in infos if (each := info.get("maxmemory_policy", KEPT)) != KEPT), KEPT)
        if policy == KEPT:
            return ()
        return (
            f"Redis may evict keys and budgets: its maxmemory-policy is {policy}; set it to {KEPT},"
            f" and {self._options.redis_setting} to a Redis that is no cache",
        )

    def _now(self) -> str:
        return "" if self._clock is None else str(int(self._clock() * 1000))

    def _keys_of(self, key: str) -> tuple[str, str, str, str]:
        """Return the names of the counters, the leases, the reservations and their ends of a client key."""
        name = f"{self._prefix}:{{{key}}}:"
        return f"{name}state", f"{name}leases", f"{name}held", f"{name}held-until"

    async def _run_all(self, script: str, calls: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        """Run a script that may be repeated with several arguments, in one round trip unless it is a cluster."""
        await asyncio.gather(*[self.run(script, keys, args) for keys, args in calls])

    async def now(self) -> float:
        """Return the time of Redis."""
        if self._clock is not None:
            return self._clock()
        seconds, micros = await self.run(scripts.NOW, self._probe[:1], ())
        return int(seconds) + int(micros) / 1e6

    async def admit(self, claim: Claim) -> Outcome:
        """Grant a claim or reject it."""
        args = [
            self._now(),
            claim.lease,
            str(claim.limits.concurrent),
            *_parts(claim, claim.limits.buckets, claim.limits.budgets, claim.amounts),
        ]
        reply = await self.run(scripts.ADMIT, self._keys_of(claim.key), args)
        rejected, is_open, levels, spent, held, at = reply.split("|")
        names = tuple(rejected.split(",")) if rejected else ()
        return Outcome(names, int(is_open), _numbers(levels), _numbers(spent), _numbers(held), int(at))

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Apply the settlements, each once."""
        calls = []
        for each in settlements:
            claim, changes = each.claim, each.changes
            mark = f"{self._prefix}:{{{claim.key}}}:settled:{claim.lease}"
            # Limits that do not change are left out.
            buckets = [limit for limit in claim.limits.buckets if changes[limit[-1]]]
            budgets = [limit for limit in claim.limits.budgets if changes[limit[-1]]]
            parts = _parts(claim, buckets, budgets, changes)
            args = [self._now(), claim.lease, "1" if each.granted else "0", *parts]
            calls.append(((*self._keys_of(claim.key), mark), args))
        if calls:
            await self._run_all(scripts.SETTLE, calls)

    async def renew(self, leases: Iterable[Lease]) -> None:
        """Keep the leases from expiring."""
        by_key: dict[str, list[str]] = {}
        for key, lease in leases:
            by_key.setdefault(key, []).append(lease)
        calls = [(self._keys_of(key)[1:], (self._now(), *names)) for key, names in by_key.items()]
        if calls:
            await self._run_all(scripts.RENEW, calls)

    async def spent(self, key: str) -> Sequence[Spent]:
        """Return the budgets of a key."""
        now = await self.now()
        async with self.connection.call() as redis:
            found = cast("dict[str, str]", await redis.hgetall(self._keys_of(key)[0]))
        return spent_of(_state_of(found), periods_at(int(now * 1000)))

    async def keys(self, known: Hashable | None = None) -> StoredKeys | None:
        """Return all keys, or None if their version is still `known`."""
        args = (str(known[0]), known[1]) if isinstance(known, tuple) else ("", "")
        found = await self.run(scripts.READ_KEYS, self._keys, args)
        if not found:
            return None
        version, mark, whole, records = found
        return StoredKeys((version, mark), records_of(data.encode() for data in records), bool(whole))

    async def put_key(self, record: KeyRecord) -> None:
        """Add a key."""
        args = (record.id, json_dumps(record.as_data()).decode(), str(KEYS_MAX), token_hex(8))
        if not await self.run(scripts.PUT_KEY, self._keys, args):
            raise StoreError(f"there are {KEYS_MAX} keys already: revoke some")

    async def remove_key(self, key: str) -> bool:
        """Remove a key."""
        return bool(await self.run(scripts.REMOVE_KEY, self._keys, (key, token_hex(8))))

    async def cool(self, name: str, seconds: float) -> None:
        """Let a cooldown last for at least `seconds`."""
        args = (self._now(), name, str(int(seconds * 1000)), str(COOLDOWNS_MAX))
        await self.run(scripts.COOL, (self._cooldowns,), args)

    async def cooldowns(self) -> Mapping[str, float]:
        """Return the remaining seconds of the cooldowns."""
        found = await self.run(scripts.COOLDOWNS, (self._cooldowns,), (self._now(),))
        return {name: int(millis) / 1000 for name, millis in zip(found[::2], found[1::2], strict=True)}


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def _parts(claim: Claim, buckets: Sequence[BucketLimit], budgets: Sequence[BudgetLimit], amounts: Amounts) -> list[str]:
    """Return the arguments of a script for limits of a claim, with the amounts that are taken from them."""
    args = [str(len(buckets))]
    for name, limit, unit in buckets:
        args += (name, str(limit), str(amounts[unit]))
    args.append(str(len(budgets)))
    periods, holds = claim.periods, claim.holds
    for name, span, limit, unit in budgets:
        hold = holds[unit] if holds else 0
        args += (name, str(span), str(limit), str(amounts[unit]))
        args += (periods[span] if periods else "", str(-hold if claim.holds_less else hold))
    return args


def _state_of(found: Mapping[str, str]) -> KeyState:
    """Return the budgets in the hash of a client key's counters."""
    state = KeyState()
    for field, period in found.items():
        name, _, kind = field.rpartition(":")
        if kind == "period":
            pairs = [each.partition("=") for each in found.get(f"{name}:others", "").split()]
            others = tuple([(other, int(total)) for other, _, total in pairs])
            state.budgets[name] = period, int(found[f"{name}:spent"]), others
    return state

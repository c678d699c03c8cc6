"""The accounts of one gateway: the limits of its named keys, and the health of the store that holds them.

On the request's way there is at most one call of the store, when the request is admitted.
Everything else runs in two tasks: one sends settlements, the other one renews leases, reads changed keys, and tries a
store that did not answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from dragoman import Dialect, Usage
from dragoman.gateway import ServiceReport
from dragoman.wire import Json
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.known_keys import KnownKeys
from dragoman_server.accounts.limits.claim import (
    CONCURRENCY,
    IN_COST,
    IN_REQUESTS,
    IN_TOKENS,
    NO_HOLDS,
    PER_DAY,
    REQUESTS,
    ActiveLimits,
    Amounts,
    Claim,
    Holds,
    Outcome,
    Settlement,
)
from dragoman_server.accounts.limits.period import periods_at
from dragoman_server.accounts.limits.prices import Prices, cost_units, money
from dragoman_server.accounts.limits.rejection import no_price, rejection
from dragoman_server.accounts.limits.settlement import (
    cancellation_of,
    changes_of_end,
    claim_of_end,
    kept_claim,
    settlement_of,
    tokens_of,
)
from dragoman_server.accounts.settlements import Settlements
from dragoman_server.accounts.store.create import create_store
from dragoman_server.accounts.store.interface import AccountStore, Lease, StoreError
from dragoman_server.accounts.store.memory import MemoryAccountStore
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store_guard import StoreGuard
from dragoman_server.observability import metric_families as families
from dragoman_server.observability.metric_families import Totals

log = logging.getLogger("dragoman")
TICK = 1.0
"""Seconds between two attempts to reach a store that did not answer."""
RENEW = 20.0
"""Seconds between two renewals of the open requests: a third of the time after which they expire."""
_JUMP = 10.0
"""Seconds by which the clock has jumped if it differs so much from one that does not jump: leases are renewed then."""
_TRIAL = "trial"
"""The id of no key, by which a store that did not answer is tried."""
_TRIAL_LIMITS = ActiveLimits(0, ((REQUESTS, 1, IN_REQUESTS),), (("daily_tokens", PER_DAY, 1, IN_TOKENS),))
_CLOSE = 2.0
"""Seconds that the last settlements have when the gateway closes."""


class Accounts:
    """The keys and limits of one gateway.

    Args:
        records: The keys of the configuration.
        options: The table `[store]`.
        totals: The counters to add to.
        prices: The price table; without one, requests of keys with a budget of cost are rejected.
        now: A function that returns Unix seconds.
        store: The store, by default that of the options.
    """

    def __init__(
        self,
        records: Sequence[KeyRecord],
        options: StoreOptions,
        *,
        totals: Totals,
        prices: Prices | None = None,
        now: Callable[[], float] = time.time,
        store: AccountStore | None = None,
    ) -> None:
        self._options = options
        self._totals = totals
        self._prices = prices
        self._now = now
        self._store = create_store(options, now) if store is None else store
        self._guard = StoreGuard(self._store, options, totals)
        self.keys = KnownKeys(records, options, store=self._store, guarded=self._guard.call, totals=totals, now=now)
        self._is_remarked = False
        self._settlements = Settlements(self._send, self._dropped)
        self._memory = self._store if isinstance(self._store, MemoryAccountStore) else None
        """The store, if it is one of this process, whose settlements need no queue."""
        self._leases: dict[str, str] = {}
        """The leases of open requests that a store has granted, with the ids of their keys."""
        self._tasks: list[asyncio.Task[None]] = []

    # --- life --------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store, and read its keys if it answers. Raises StoreError if the store cannot be used at all."""
        await self._guard.open()
        run = asyncio.get_running_loop().create_task
        await self.keys.open()
        with suppress(StoreError):
            await self._refresh()
        self._tasks = [run(self._settlements.run()), run(self._maintain())]
        if (following := self.keys.follow()) is not None:
            self._tasks.append(following)

    @property
    def healthy(self) -> bool:
        """False while the store of the limits does not answer."""
        return self._guard.healthy

    @property
    def is_open(self) -> bool:
        """True from the end of `open` to `close`."""
        return bool(self._tasks)

    async def close(self) -> None:
        """Send the last settlements, and close the store."""
        if self.healthy:
            await self._settlements.flush(_CLOSE)
        if waiting := len(self._settlements):
            log.warning("the store did not take the end of %d requests: their limits count estimates", waiting)
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(StoreError):
            await self._store.close()
        await self.keys.close()

    def configure(self, records: Sequence[KeyRecord], options: StoreOptions) -> bool:
        """Use these keys of a new configuration. Return False if its store is another one, which needs a restart."""
        same = _place(options) == _place(self._options)
        if same:
            self._options = self._guard.options = options
        self.keys.configure(records, self._options)
        return same

    async def _maintain(self) -> None:
        renewed = refreshed = asyncio.get_running_loop().time()
        ahead = self._now() - renewed
        while True:
            # Of a store in memory, leases are all that there is to do.
            await asyncio.sleep(RENEW / 4 if self._memory is not None else min(TICK, self._options.refresh))
            now = asyncio.get_running_loop().time()
            try:
                if not self.healthy:
                    await self._retry()
                if now - renewed >= RENEW or abs(self._now() - now - ahead) >= _JUMP:
                    renewed, ahead = now, self._now() - now
                    await self._guard.call("renew", lambda: self._store.renew(self._open_leases()))
                if now - refreshed >= self._options.refresh or not self.keys.known:
                    refreshed = now
                    await self._refresh()
            except StoreError:
                continue  # recorded where it was raised
            except Exception:
                log.exception("the maintenance of limits failed by a defect")

    async def _refresh(self) -> None:
        """Check the store, and read what may have changed in it. Raises StoreError."""
        await self._guard.call("ping", self._store.ping)
        if not self._is_remarked:
            for remark in await self._guard.call("remarks", self._store.remarks):
                log.warning("%s", remark)
            self._is_remarked = True
        await self.keys.refresh()

    async def _retry(self) -> None:
        """Reach a store that did not answer. Raises StoreError."""
        await self._guard.retry(self._try_limits)
        log.warning(
            "the store of limits answers again; ended requests that it did not count yet: %d", len(self._settlements)
        )
        self._settlements.resume()

    async def _try_limits(self) -> None:
        """Count a request of no key, and those that have ended. Raises StoreError.

        Redis may write a word and refuse to count: a permission lacks, or another program overwrote a counter.
        """
        claim = Claim(_TRIAL, f"{_TRIAL}-{os.urandom(6).hex()}", _TRIAL_LIMITS, (0, 0, 0))
        await self._store.admit(claim)
        await self._store.settle([cancellation_of(claim), *self._settlements.first()])

    # --- limits ------------------------------------------------------------------------------------------------------

    def holds(self, record: KeyRecord, tokens: int, output: int, targets: Sequence[tuple[str, str | None]]) -> Amounts:
        """Return what the budgets of a key reserve for a reply of at most `output` tokens.

        `tokens` is the estimate of the input. The request may go to each of the `targets`, which are models and
        providers; the dearest counts.
        """
        limits = record.limits
        if not (output and limits.budgets):
            return ()
        cost = 0
        if limits.has_cost:
            estimate, whole = Usage(input_total=tokens), Usage(input_total=tokens, output_total=output)
            most = max(cost_units(self._prices, whole, *target) or 0 for target in targets)
            # The claim takes the estimate of the first.
            cost = max(0, most - (cost_units(self._prices, estimate, *targets[0]) or 0))
        return 0, output, cost

    def explained(self, record: KeyRecord, holds: Amounts) -> dict[str, str]:
        """Return these reservations by the names of the key's budgets, as texts: tokens, and costs."""
        found = ((name, unit, holds[unit]) for name, _, _, unit in record.limits.budgets) if holds else ()
        return {name: money(amount) if unit == IN_COST else f"{amount} tokens" for name, unit, amount in found}

    async def admit(
        self,
        record: KeyRecord,
        lease: str,
        client: Dialect,
        model: str,
        tokens: int,
        provider: str | None = None,
        *,
        holds: Holds = NO_HOLDS,
    ) -> Claim:
        """Check all limits of a key for one request, and reserve its estimate. Return the claim, for `settle`.

        Args:
            record: The key, with limits.
            lease: The id of the request.
            client: The dialect of the error.
            model: The upstream's model, for its price.
            tokens: The estimate of the request's input.
            provider: The provider's name, for a price of its own.
            holds: What budgets reserve besides.

        Raises DragomanError: 403 for a model without a price, 429 for a limit, 503 if the store does not answer and
        the configuration rejects requests then.
        """
        limits, cost = record.limits.active, 0
        assert limits is not None
        if limits.has_cost:
            found = cost_units(self._prices, Usage(input_total=tokens), model, provider)
            if found is None:
                raise no_price(model)
            cost = found
        claim = Claim(record.hash.id, lease, limits, (1, tokens if tokens > 1 else 1, cost), *holds)
        return await self._granted(claim, client)

    def has_price(self, model: str, provider: str) -> bool:
        """True if the cost of a request to this model of a provider is known."""
        return self._prices is not None and self._prices.cost(Usage(), model, provider) is not None

    async def admit_request(self, record: KeyRecord, lease: str, client: Dialect, *, waits: bool) -> Claim | None:
        """Check the limits of requests of a key for a request without tokens. Return the claim, for `settle`.

        None if the key has no such limit. A request that `waits` for an upstream is one of those that are open at the
        same time. The other arguments are those of `admit`, and so are the errors.
        """
        limits, concurrent = record.limits.requests, record.limits.concurrent_requests
        if waits and concurrent:
            limits = ActiveLimits(concurrent, limits.buckets if limits is not None else (), ())
        if limits is None:
            return None
        claim = Claim(record.hash.id, lease, limits, (1, 0, 0))
        return await self._granted(claim, client)

    async def _granted(self, claim: Claim, client: Dialect) -> Claim:
        """Return a claim that the store has granted, or that is admitted without it. Raises DragomanError."""
        try:
            outcome = await self._outcome(claim)
        except asyncio.CancelledError:
            # The client has disconnected. The store may have granted the claim.
            self._settlements.add(cancellation_of(claim))
            raise
        except StoreError:
            self._guard.check_policy()
            return claim
        if outcome.rejected:
            for name in outcome.rejected:
                self._totals.add(families.LIMIT_REJECTIONS, (name,))
            raise rejection(claim, outcome, client, self._now())
        claim.levels, claim.periods = outcome.levels, periods_at(outcome.at)
        self._leases[claim.lease] = claim.key
        return claim

    def _open_leases(self) -> list[Lease]:
        return [Lease(key, lease) for lease, key in self._leases.items()]

    async def _outcome(self, claim: Claim) -> Outcome:
        if not self.healthy:
            raise StoreError("the store does not answer")
        # A client that waits for a reply's end before its next request must not be rejected for the one that ended.
        waiting = bool(claim.limits.concurrent) and self._settlements.holds(claim.key)
        try:
            outcome = await self._guard.call("admit", lambda: self._store.admit(claim))
            if waiting and CONCURRENCY in outcome.rejected:
                await self._settlements.flush(self._options.timeout)
                outcome = await self._guard.call("admit", lambda: self._store.admit(claim))
        except StoreError:
            # It may have been granted although the answer did not arrive.
            self._settlements.add(cancellation_of(claim))
            raise
        return outcome

    def settle(
        self,
        claim: Claim,
        usage: Usage | None,
        model: str,
        *,
        sent: bool,
        provider: str | None = None,
        service: ServiceReport | None = None,
    ) -> None:
        """Count what an admitted request used; called once for each, at its end.

        `service` is what the upstream stated about its service, for the cost. Without `usage` the estimate stays if the
        request was `sent` to the upstream and accepted, else nothing is counted.
        """
        self._leases.pop(claim.lease, None)
        tokens: int | None = None
        cost: int | None = None
        if usage is not None:
            tokens, cost = self._used(claim, usage, model, provider, service)
        elif not sent:
            tokens = cost = 0
        self._settle(settlement_of(claim, tokens, cost))

    def settle_end(
        self,
        kept: Json | Claim,
        usage: Usage | None,
        model: str,
        *,
        provider: str | None = None,
        service: ServiceReport | None = None,
    ) -> None:
        """Count what a response has used that its upstream has run: `settle` has counted its estimates.

        `kept` is the claim of its request. It is counted once, whichever process reads the end first.
        """
        claim = claim_of_end(kept_claim(kept) if isinstance(kept, Claim) else kept)
        if usage is None:
            return
        changes = changes_of_end(claim, *self._used(claim, usage, model, provider, service))
        self._settle(Settlement(claim, False, changes))

    def _settle(self, settlement: Settlement) -> None:
        if self._memory is not None:
            self._memory.settle_now(settlement)
        else:
            self._settlements.add(settlement)

    def _used(
        self, claim: Claim, usage: Usage, model: str, provider: str | None, service: ServiceReport | None
    ) -> tuple[int, int | None]:
        """Return the tokens and the cost of a usage; no cost if the claim needs none."""
        if usage.input_total is None:
            usage = replace(usage, input_total=claim.amounts[IN_TOKENS])
        cost = None
        if claim.limits.has_cost:
            cost = cost_units(self._prices, usage, model, provider, service)
        return tokens_of(usage), cost

    async def _send(self, settlements: Sequence[Settlement]) -> None:
        await self._guard.call("settle", lambda: self._store.settle(settlements))

    def _dropped(self) -> None:
        self._totals.add(families.SETTLEMENTS_DROPPED)

    # --- for routing -------------------------------------------------------------------------------------------------

    async def cool(self, name: str, seconds: float) -> None:
        """Let all gateways of the store know a cooldown. Raises StoreError."""
        await self._guard.call("cool", lambda: self._store.cool(name, seconds))

    async def cooldowns(self) -> Mapping[str, float]:
        """Return the remaining seconds of the cooldowns that any gateway of the store has made. Raises StoreError."""
        return await self._guard.call("cooldowns", self._store.cooldowns)


def _place(options: StoreOptions) -> StoreOptions:
    """Return the options without those that a reload may change."""
    return replace(options, timeout=0.0, on_failure="", refresh=0.0, reserve=False, reserve_tokens=0)

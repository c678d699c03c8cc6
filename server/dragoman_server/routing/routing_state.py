"""The state of the providers in one process: requests at each, breakers, pauses of keys, and the retry budget.

It lasts as long as the gateway. A reload changes the limits and keeps what is known of the providers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from random import random as system_random
from typing import TYPE_CHECKING

from dragoman import DragomanError, Failure
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.wire import json_dumps, json_loads
from dragoman_server.config.provider import Provider
from dragoman_server.config.routing_options import RetryOptions
from dragoman_server.config.schema import Config
from dragoman_server.observability import metric_families as families
from dragoman_server.observability.metric_families import Totals
from dragoman_server.routing.circuit_breaker import CircuitBreaker
from dragoman_server.routing.client_pauses import ClientPauses, Party
from dragoman_server.routing.issuer_searches import IssuerSearches
from dragoman_server.routing.outcomes import ANSWERED, AttemptOutcome, Blame
from dragoman_server.routing.plan import Candidate, Plan
from dragoman_server.routing.refused_keys import RefusedKeys
from dragoman_server.routing.response_issuers import ResponseIssuers
from dragoman_server.routing.retry_budget import Budget, RetryBudget
from dragoman_server.routing.running_responses import RunningResponses
from dragoman_server.routing.slots import Slots

if TYPE_CHECKING:
    from dragoman_server.routing.shared_slots import SharedSlots  # needed with a store only

log = logging.getLogger("dragoman")
Share = Callable[[str, float], None]
"""Reports a pause to other gateways, by its name and seconds. It must not block."""
_PROVIDER, _KEY = "provider", "key"


_PAUSES_MAX = 1000
"""Most pauses of keys that are kept for one provider: models are named by clients."""


class ProviderState:
    """One provider: its `slots`, its `breaker`, the pauses of single `clients`, and its keys by name.

    `busy` is the number of requests with each key. `cooled` has the pauses by key and model: their ends, and whether
    the provider has requested them.
    """

    def __init__(self, breaker: CircuitBreaker, slots: Slots | SharedSlots) -> None:
        self.breaker = breaker
        self.clients: ClientPauses | None = None
        """None as long as no client is known to have failed."""
        self.slots = slots
        self.busy: dict[str, int] = {}
        self.cooled: dict[tuple[str, str], tuple[float, bool]] = {}


class RoutingState:
    """The providers' state. `clock` returns seconds from any origin, `random` numbers from 0 up to 1.

    `totals` are the counters to add to. `share`, if it is set, is called with each pause that begins here. `issuers`
    has the providers that store responses which clients may continue, `searches` finds those that are not known,
    `running` has the responses that upstreams run.
    """

    def __init__(
        self,
        config: Config,
        totals: Totals,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = system_random,
    ) -> None:
        self.clock = clock
        self.random = random
        self.totals = totals
        self.share: Share | None = None
        self.issuers = ResponseIssuers()
        self.searches = IssuerSearches(clock)
        self.running = RunningResponses()
        self.refused = RefusedKeys()
        self._options: RetryOptions = config.retries
        self._config = config
        self._providers: dict[str, ProviderState] = {}
        self.own_budget = RetryBudget(config.retries.budget, config.retries.budget_min, clock)
        self.budget: Budget = self.own_budget
        self._shared_slots: Callable[[Provider], SharedSlots] | None = None

    @property
    def options(self) -> RetryOptions:
        """The settings of retries."""
        return self._options

    def share_bounds(self, budget: Budget, slots: Callable[[Provider], SharedSlots]) -> None:
        """Use this budget, and for providers without requests the slots that `slots` returns, from now on."""
        self.budget, self._shared_slots = budget, slots
        for name, state in self._providers.items():
            provider = self._config.providers.get(name)
            if provider is not None and not (state.slots.taken or state.slots.waiting):
                state.slots = slots(provider)

    def configure(self, config: Config) -> None:
        """Use the limits of a new configuration."""
        before, self._config, self._options = self._config, config, config.retries
        options = config.retries
        self.budget.configure(options.budget, options.budget_min)
        for name in [name for name in self._providers if name not in config.providers]:
            state = self._providers[name]
            if not state.slots.taken and not state.slots.waiting:
                del self._providers[name]
                self._report_breaker(name, state, closed=True)
        for name, state in self._providers.items():
            for breaker in (state.breaker, *(state.clients.breakers() if state.clients is not None else ())):
                breaker.configure(options.failures, options.cooldown, options.cooldown_max)
            if (provider := config.providers.get(name)) is not None:
                state.slots.configure(provider.concurrent, provider.queue)
                if _place(provider) != _place(before.providers.get(name)):
                    # The operator has changed what failed.
                    state.cooled.clear()
                    self.refused.forget(name)
                    state.clients = None
                    state.breaker.succeeded()
                    self._report_breaker(name, state)

    def of(self, provider: Provider) -> ProviderState:
        """Return the state of a provider."""
        state = self._providers.get(provider.name)
        if state is None:
            new_slots = self._shared_slots or _slots
            state = ProviderState(self._new_breaker(), new_slots(provider))
            self._providers[provider.name] = state
        return state

    def _new_breaker(self) -> CircuitBreaker:
        options = self._options
        return CircuitBreaker(options.failures, options.cooldown, options.cooldown_max, self.clock)

    # --- the choice --------------------------------------------------------------------------------------------------

    def ranking(self, plan: Plan, conversation: bytes | None) -> list[Candidate]:
        """Return the candidates of a plan in the order in which one request prefers them."""
        return plan.ranked(conversation, self._busy, self.random)

    def knows_clients(self, ranking: Iterable[Candidate]) -> bool:
        """True if single clients may pause at one of these candidates."""
        return any(self.of(candidate.provider).clients is not None for candidate in ranking)

    def usable(self, ranking: Iterable[Candidate], party: Party = ()) -> list[Candidate]:
        """Return the candidates that a request can go to now: those with a free place, then those with a queue.

        If all others pause, those follow whose key failed without a word on when to return, the soonest first.
        """
        free: list[Candidate] = []
        queued: list[Candidate] = []
        paused: list[tuple[float, int, Candidate]] = []
        for candidate in ranking:
            state = self.of(candidate.provider)
            seconds, requested = self._pause(candidate, state, party)
            if requested:
                continue
            full = state.slots.full
            if full and state.slots.is_closed_to(party[:1]):
                continue
            if seconds > 0.0:
                paused.append((seconds, len(paused), candidate))
            elif full:
                queued.append(candidate)
            else:
                free.append(candidate)
        return free + queued or [candidate for *_, candidate in sorted(paused, key=lambda each: each[:2])]

    def remaining(self, candidate: Candidate, party: Party = ()) -> float:
        """Return the seconds for which a candidate still pauses for a party; 0 if it does not."""
        return self._pause(candidate, self.of(candidate.provider), party)[0]

    def _pause(self, candidate: Candidate, state: ProviderState, party: Party) -> tuple[float, bool]:
        """Return the seconds for which a candidate still pauses, and whether it must not be used before."""
        seconds = state.breaker.remaining()
        requested = seconds > 0.0
        place = candidate.key, candidate.upstream_model
        if state.clients is not None:
            own = max((breaker.remaining() for breaker in state.clients.of(party)), default=0.0)
            cooled, by_provider = state.clients.pause(place, party)
            seconds, requested = max(seconds, own, cooled), requested or own > 0.0 or by_provider
        if (pause := state.cooled.get(place)) is not None:
            until, by_provider = pause
            if (left := until - self.clock()) <= 0.0:
                del state.cooled[place]
            else:
                seconds, requested = max(seconds, left), requested or by_provider
        return seconds, requested

    def _busy(self, candidate: Candidate) -> int:
        state = self.of(candidate.provider)
        return state.busy.get(candidate.key, 0) if candidate.key else state.slots.taken

    def is_broken(self, candidate: Candidate, party: Party = ()) -> bool:
        """True if a provider pauses after failures, for a party or for all, and did not succeed since."""
        state = self.of(candidate.provider)
        return any(breaker.open for breaker in _breakers(state, party))

    def works(self, candidate: Candidate) -> bool:
        """True if a provider has not failed since its last success."""
        return self.of(candidate.provider).breaker.failures == 0

    def paused(self) -> frozenset[str]:
        """Return the names of the providers that have failed, and pause for all clients or are tested."""
        return frozenset(name for name, state in self._providers.items() if state.breaker.open)

    def unavailable(self, ranking: Sequence[Candidate], party: Party = ()) -> DragomanError:
        """Return the error for a request of a party that no candidate can take now."""
        pauses = [self.remaining(candidate, party) for candidate in ranking]
        after = min(pauses)
        if after <= 0.0:
            return overloaded()
        if any(self.is_broken(candidate, party) for candidate in ranking):
            kind, message, status = FailureKind.OVERLOADED, "the providers of this model have failed and pause", 503
        else:
            kind, message, status = FailureKind.RATE_LIMIT, "the providers of this model are at their rate limits", 429
        return DragomanError(_own(kind, f"{message}; try again in {_whole(after)} s", status, after))

    # --- attempts ----------------------------------------------------------------------------------------------------

    def begin(self, candidate: Candidate, party: Party = ()) -> None:
        """Record that an attempt begins. Its place was taken; `end` and then `free` must follow."""
        state = self.of(candidate.provider)
        state.breaker.begin()
        if state.clients is not None:
            for breaker in state.clients.of(party):
                breaker.begin()
        if candidate.key:
            state.busy[candidate.key] = state.busy.get(candidate.key, 0) + 1

    def end(self, candidate: Candidate, outcome: AttemptOutcome, party: Party = (), *, again: bool = False) -> None:
        """Record how an attempt of a party ended. Without one, failures are those of the provider itself.

        `again`: the same request has failed there before, so this is no further failure of the provider.
        """
        name, state = candidate.provider.name, self.of(candidate.provider)
        self.totals.add(families.ATTEMPTS, (name, outcome.word))
        if outcome is ANSWERED or outcome.word in ("refused", "too_long"):
            closed = state.breaker.succeeded()
            if self.refused.found:
                self.refused.accept(name, candidate.key)
            if state.clients is not None:
                closed |= state.clients.succeeded(party)
                if not len(state.clients):
                    state.clients = None
            if closed:
                self._report_breaker(name, state)
                log.warning("provider %s works again", name)
            return
        if not outcome.by_content:
            party = ()
        if outcome.blame is Blame.PROVIDER:
            self._fail(name, state, party, again=again)
            # A `retry-after` is respected here, too.
            if outcome.after:
                self._cool(candidate, state, outcome.after, requested=True, party=party)
        elif outcome.blame is Blame.KEY:
            # The provider answered, but nothing is known of its other requests.
            self._abandon(state, party)
            if not outcome.by_content:
                self.refused.refuse(name, candidate.key, outcome.word)
            requested = outcome.after is not None and outcome.status == 429
            seconds = self._options.cooldown if outcome.after is None else outcome.after
            self._cool(candidate, state, seconds, requested=requested, party=party)
        else:
            self._abandon(state, party)

    def _fail(self, name: str, state: ProviderState, party: Party, *, again: bool) -> None:
        # A client whose request has tested a provider in vain leaves the next test to others.
        hold = self._options.cooldown if state.breaker.is_tested else 0.0
        if not (party and again) and state.breaker.failed(*party[:1]):
            self._opened(name, state)
        if party and self._clients(state).failed(party, hold):
            self._report_breaker(name, state)
            log.warning("provider %s failed again and again for one client or conversation, which pauses there", name)

    def _clients(self, state: ProviderState) -> ClientPauses:
        if state.clients is None:
            state.clients = ClientPauses(self._new_breaker, self.clock)
        return state.clients

    @staticmethod
    def _abandon(state: ProviderState, party: Party) -> None:
        for breaker in _breakers(state, party):
            breaker.abandoned()

    def free(self, candidate: Candidate) -> None:
        """Record that a request has left a candidate: its reply has ended, or its attempt failed."""
        state = self.of(candidate.provider)
        if candidate.key:
            left = state.busy.get(candidate.key, 1) - 1
            if left > 0:
                state.busy[candidate.key] = left
            else:
                state.busy.pop(candidate.key, None)
        state.slots.free()

    def deny(self, reason: str) -> None:
        """Count a retry that was not made: `budget`, `attempts`, `wait` or `candidates`."""
        self.totals.add(families.RETRIES_DENIED, (reason,))

    def queued(self, provider: str, number: int) -> None:
        """Count a request that has joined (1) or left (-1) a queue."""
        self.totals.add(families.QUEUED_REQUESTS, (provider,), number)

    # --- pauses ------------------------------------------------------------------------------------------------------

    def _cool(
        self, candidate: Candidate, state: ProviderState, seconds: float, *, requested: bool, party: Party
    ) -> None:
        seconds = min(seconds, self._options.cooldown_max)
        if seconds > 0.0:
            place = candidate.key, candidate.upstream_model
            if party and not self._clients(state).cool(place, seconds, requested=requested, party=party):
                return
            self._put_pause(state, place, seconds, requested)
            if self.share is not None and requested:
                self.share(_KEY + ":" + json_dumps([candidate.provider.name, *place]).decode(), seconds)

    def _put_pause(self, state: ProviderState, place: tuple[str, str], seconds: float, requested: bool) -> None:
        now = self.clock()
        until, before = state.cooled.get(place, (0.0, False))
        if now + seconds > until:
            if len(state.cooled) >= _PAUSES_MAX:
                state.cooled = {each: pause for each, pause in state.cooled.items() if pause[0] > now}
                if len(state.cooled) >= _PAUSES_MAX:
                    del state.cooled[next(iter(state.cooled))]
            state.cooled[place] = now + seconds, requested or (before and until > now)

    def _opened(self, name: str, state: ProviderState) -> None:
        self._report_breaker(name, state)
        seconds = state.breaker.remaining()
        log.warning("provider %s failed %d times in a row and pauses for %g s", name, state.breaker.failures, seconds)
        if self.share is not None:
            self.share(f"{_PROVIDER}:{name}", seconds)

    def _report_breaker(self, name: str, state: ProviderState, *, closed: bool = False) -> None:
        is_open = not closed and (state.breaker.open or (state.clients is not None and state.clients.open))
        self.totals.put(families.BREAKERS_OPEN, (name,), 1 if is_open else 0)

    def learn(self, name: str, seconds: float) -> None:
        """Adopt a pause that another gateway has begun. Names that are not known here are ignored."""
        kind, _, rest = name.partition(":")
        seconds = min(seconds, self._options.cooldown_max)
        if seconds <= 0.0:
            return
        if kind == _PROVIDER and (provider := self._config.providers.get(rest)) is not None:
            state = self.of(provider)
            if self._options.failures and not state.breaker.open:
                state.breaker.hold(seconds)
                self._report_breaker(rest, state)
        elif kind == _KEY:
            try:
                owner, key, model = json_loads(rest.encode())
            except (ValueError, TypeError):
                return
            provider = self._config.providers.get(owner)
            if provider is not None and isinstance(key, str) and isinstance(model, str):
                self._put_pause(self.of(provider), (key, model), seconds, True)


def _slots(provider: Provider) -> Slots:
    return Slots(provider.concurrent, provider.queue)


def _breakers(state: ProviderState, party: Party) -> Sequence[CircuitBreaker]:
    """Return the breakers that concern a party."""
    return (state.breaker,) if state.clients is None else (state.breaker, *state.clients.of(party))


def _place(provider: Provider | None) -> object:
    """Return what decides whether a provider can be reached and accepts its keys."""
    return provider and (provider.base_url, provider.api_key, provider.api_keys, provider.credential)


def overloaded() -> DragomanError:
    """Return the error for a request that finds no place and no room in a queue."""
    message = "the providers of this model have as many requests as they may have; try again later"
    return DragomanError(_own(FailureKind.OVERLOADED, message, 503, 1.0))


def _own(kind: FailureKind, message: str, status: int, after: float) -> Failure:
    failure = Failure(kind, message, status, origin=FailureOrigin.PROXY, reason="no_provider")
    failure.headers["retry-after"] = str(_whole(after))
    return failure


def _whole(seconds: float) -> int:
    return max(1, ceil(seconds))

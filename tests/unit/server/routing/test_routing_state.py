"""The state of providers: who is usable, pauses of keys, sharing of pauses, and what a reload keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman import Dialect, Failure
from dragoman.errors import FailureKind
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.routing_options import RetryOptions
from dragoman_server.config.schema import Config
from dragoman_server.observability.metric_families import ATTEMPTS, BREAKERS_OPEN, Totals
from dragoman_server.routing.backoff import RetryHints
from dragoman_server.routing.client_pauses import Party
from dragoman_server.routing.outcomes import ANSWERED, AttemptOutcome, outcome_of_failure, outcome_of_status
from dragoman_server.routing.plan import Candidate, candidates_of
from dragoman_server.routing.routing_state import RoutingState
from support.manual_clock import ManualClock


class Scene:
    """Two providers, the first of them with two keys."""

    def __init__(self, **limits: Any) -> None:
        keys = Secret("the-first-key"), Secret("the-second-key")
        one = Provider("one", Dialect.CHAT, "http://one/v1", api_keys=keys, **limits)
        two = Provider("two", Dialect.CHAT, "http://two/v1")
        self.retries = RetryOptions(failures=2, cooldown=10, cooldown_max=100)
        self.config = Config(providers={"one": one, "two": two}, retries=self.retries)
        self.clock = ManualClock()
        self.totals = Totals()
        self.state = RoutingState(self.config, self.totals, clock=self.clock, random=lambda: 0.5)
        self.first, self.second = candidates_of(one, one.variants(), "m", 1.0, 1)
        self.other = Candidate(two, "m")
        self.all = [self.first, self.second, self.other]

    def attempt(self, candidate: Candidate, outcome: AttemptOutcome, party: Party = (), *, again: bool = False) -> None:
        assert self.state.of(candidate.provider).slots.take()
        self.state.begin(candidate, party)
        self.state.end(candidate, outcome, party, again=again)
        self.state.free(candidate)


def limited(seconds: float | None = None) -> AttemptOutcome:
    return outcome_of_status(429, RetryHints(seconds))


def test_a_key_at_its_limit_rests_and_its_sibling_goes_on() -> None:
    scene = Scene()
    scene.attempt(scene.first, limited(30))
    assert scene.state.usable(scene.all) == [scene.second, scene.other]
    scene.clock.advance(30)
    assert scene.state.usable(scene.all) == scene.all


def test_other_models_of_the_key_go_on() -> None:
    scene = Scene()
    scene.attempt(scene.first, limited(30))
    other_model = scene.first._replace(upstream_model="n")
    assert scene.state.usable([scene.first, other_model]) == [other_model]


def test_failures_of_the_provider_pause_all_its_keys() -> None:
    scene = Scene()
    scene.attempt(scene.first, outcome_of_status(500))
    scene.attempt(scene.second, outcome_of_status(500))
    assert scene.state.usable(scene.all) == [scene.other]
    assert scene.totals.read(BREAKERS_OPEN, "one") == [1]
    scene.clock.advance(10)
    scene.attempt(scene.first, ANSWERED)
    assert scene.state.usable(scene.all) == scene.all
    assert scene.totals.read(BREAKERS_OPEN, "one") == [0]
    assert scene.totals.read(ATTEMPTS, "one", "unavailable") == [2]


def test_a_key_that_rests_by_our_own_choice_is_used_if_there_is_no_other() -> None:
    """The upstream returned no time: a request that would be refused here may well be accepted there."""
    scene = Scene()
    scene.attempt(scene.first, limited())
    scene.clock.advance(1)
    scene.attempt(scene.second, limited())
    assert scene.state.usable([scene.second, scene.first]) == [scene.first, scene.second]
    assert scene.state.usable(scene.all) == [scene.other]


def test_a_time_that_the_upstream_set_is_respected() -> None:
    scene = Scene()
    for candidate in scene.all:
        scene.attempt(candidate, limited(30))
    assert scene.state.usable(scene.all) == []
    failure = scene.state.unavailable(scene.all).failure
    assert (failure.status, failure.headers["retry-after"]) == (429, "30")


def test_providers_that_failed_are_reported_as_such() -> None:
    scene = Scene()
    for candidate in (scene.first, scene.first, scene.other, scene.other):
        scene.attempt(candidate, outcome_of_status(503))
    failure = scene.state.unavailable(scene.all).failure
    assert (failure.status, failure.headers["retry-after"]) == (503, "10")


def test_places_decide_after_pauses() -> None:
    scene = Scene(concurrent=1, queue=1)
    slots = scene.state.of(scene.first.provider).slots
    assert slots.take()
    assert scene.state.usable(scene.all) == [scene.other, scene.first, scene.second]
    assert slots.wait(lambda: None)
    assert scene.state.usable(scene.all) == [scene.other]
    assert scene.state.unavailable([scene.first]).failure.status == 503


def test_busy_keys_are_counted() -> None:
    scene = Scene()
    state = scene.state.of(scene.first.provider)
    for _ in range(2):
        assert state.slots.take()
        scene.state.begin(scene.first)
    assert (state.busy, state.slots.taken) == ({scene.first.key: 2}, 2)
    for _ in range(2):
        scene.state.free(scene.first)
    assert (state.busy, state.slots.taken) == ({}, 0)


def test_pauses_are_shared_and_learned() -> None:
    one, two = Scene(), Scene()
    one.state.share = two.state.learn
    two.state.share = lambda name, seconds: pytest.fail(f"{name} was shared again")
    one.attempt(one.first, limited(30))
    for _ in range(2):
        one.attempt(one.other, outcome_of_status(500))
    assert two.state.usable(two.all) == [two.second]
    assert two.totals.read(BREAKERS_OPEN, "two") == [1]
    two.clock.advance(30)
    assert two.state.usable(two.all) == two.all


@pytest.mark.parametrize(
    "name", ["", "provider:gone", "key:", "key:[]", 'key:["gone","",""]', 'key:["one",1,2]', "x:y"]
)
def test_unknown_pauses_are_ignored(name: str) -> None:
    scene = Scene()
    scene.state.learn(name, 30)
    assert scene.state.usable(scene.all) == scene.all


def test_the_names_of_shared_pauses_reveal_no_key() -> None:
    scene, names = Scene(), list[str]()
    scene.state.share = lambda name, _: names.append(name)
    scene.attempt(scene.first, limited(30))
    assert len(names) == 1
    assert "the-first-key" not in names[0]


def test_pauses_are_limited_in_number() -> None:
    scene = Scene()
    for number in range(1200):
        scene.attempt(scene.first._replace(upstream_model=f"m{number}"), limited(30))
    assert len(scene.state.of(scene.first.provider).cooled) == 1000


def test_a_pause_is_never_longer_than_the_longest() -> None:
    scene = Scene()
    scene.attempt(scene.first, limited(100_000))
    assert scene.state.remaining(scene.first) == 100


def test_a_reload_changes_limits_and_keeps_pauses() -> None:
    scene = Scene()
    scene.attempt(scene.first, limited(30))
    one = replace(scene.config.providers["one"], concurrent=1)
    scene.state.configure(replace(scene.config, providers={"one": one, "two": scene.other.provider}))
    assert scene.state.usable([scene.first, scene.second]) == [scene.second]
    slots = scene.state.of(one).slots
    assert slots.take()
    assert slots.full


@pytest.mark.parametrize("change", [{"base_url": "http://elsewhere/v1"}, {"api_key": Secret("a-new-key")}])
def test_a_provider_that_was_changed_begins_again(change: dict[str, Any]) -> None:
    scene = Scene()
    scene.attempt(scene.other, limited(30))
    for _ in range(2):
        scene.attempt(scene.other, outcome_of_status(500))
    two = replace(scene.config.providers["two"], **change)
    scene.state.configure(replace(scene.config, providers={**scene.config.providers, "two": two}))
    assert scene.state.usable([Candidate(two, "m")]) == [Candidate(two, "m")]
    assert scene.totals.read(BREAKERS_OPEN, "two") == [0]


def test_a_reload_drops_a_provider_that_is_gone() -> None:
    scene = Scene()
    for _ in range(2):
        scene.attempt(scene.other, outcome_of_status(500))
    scene.state.configure(replace(scene.config, providers={"one": scene.config.providers["one"]}))
    assert scene.totals.read(BREAKERS_OPEN, "two") == [0]
    scene.state.configure(scene.config)
    assert scene.state.usable([scene.other]) == [scene.other]


CONTENT = outcome_of_status(500)
ATTACKER, CLIENT = (b"key 1", b"conversation 1"), (b"key 2", b"conversation 2")


def test_failures_of_one_client_are_neither_shared_nor_a_pause_of_others() -> None:
    scene, names = Scene(), list[str]()
    scene.state.share = lambda name, _: names.append(name)
    for outcome in (CONTENT, CONTENT, outcome_of_status(503, RetryHints(60)), outcome_of_status(403)):
        scene.attempt(scene.other, outcome, ATTACKER)
    assert scene.state.usable([scene.other], ATTACKER) == []
    assert scene.state.unavailable([scene.other], ATTACKER).failure.status == 503
    assert scene.state.usable([scene.other], CLIENT) == [scene.other]
    assert scene.totals.read(BREAKERS_OPEN, "two") == [1]
    assert names == []
    scene.attempt(scene.other, ANSWERED, CLIENT)
    assert scene.state.usable([scene.other], ATTACKER) == []


def test_a_pause_of_two_clients_is_shared() -> None:
    scene, names = Scene(), list[str]()
    scene.state.share = lambda name, _: names.append(name)
    for party in (ATTACKER, CLIENT):
        scene.attempt(scene.other, outcome_of_status(503, RetryHints(60)), party)
    assert scene.state.usable([scene.other], (b"key 3",)) == []
    assert len(names) == 2


def test_a_client_whose_tests_fail_does_not_keep_a_provider_paused() -> None:
    """After an outage the attacker takes each test that it can: the next one is another client's, a second later."""
    scene = Scene()
    for party in (ATTACKER, CLIENT):
        scene.attempt(scene.other, CONTENT, party)
    assert scene.state.usable([scene.other], (b"key 3",)) == []
    scene.clock.advance(10)
    scene.attempt(scene.other, CONTENT, ATTACKER)
    assert scene.state.usable([scene.other], ATTACKER) == []
    scene.clock.advance(1)
    assert scene.state.usable([scene.other], ATTACKER) == []
    assert scene.state.usable([scene.other], CLIENT) == [scene.other]
    scene.attempt(scene.other, ANSWERED, CLIENT)
    assert scene.state.usable([scene.other], (b"key 3",)) == [scene.other]


def test_a_provider_that_cannot_be_reached_pauses_for_all() -> None:
    scene = Scene()
    refused = outcome_of_failure(Failure(FailureKind.API, "no", 502, reason="unreachable"))
    for _ in range(2):
        scene.attempt(scene.other, refused, ATTACKER)
    assert scene.state.usable([scene.other], CLIENT) == []


def test_retries_of_one_request_count_once_for_the_provider() -> None:
    scene = Scene()
    for party in (ATTACKER, CLIENT):
        for again in (False, True):
            scene.attempt(scene.first, CONTENT, party, again=again)
            assert scene.state.usable([scene.first], (b"key 3",)) == ([] if party is CLIENT else [scene.first])


def test_a_new_place_of_a_provider_ends_the_pauses_of_clients() -> None:
    scene = Scene()
    for _ in range(2):
        scene.attempt(scene.other, CONTENT, ATTACKER)
    two = replace(scene.config.providers["two"], base_url="http://elsewhere/v1")
    scene.state.configure(replace(scene.config, providers={**scene.config.providers, "two": two}))
    assert scene.state.usable([Candidate(two, "m")], ATTACKER) == [Candidate(two, "m")]
    assert scene.totals.read(BREAKERS_OPEN, "two") == [0]


def test_failures_of_requests_from_before_a_pause_hold_no_one() -> None:
    scene = Scene()
    scene.state.begin(scene.other, CLIENT)
    for party in (ATTACKER, (b"key 3",)):
        scene.attempt(scene.other, CONTENT, party)
    scene.clock.advance(9)
    scene.state.end(scene.other, CONTENT, CLIENT)
    scene.clock.advance(1)
    assert scene.state.usable([scene.other], CLIENT) == [scene.other]


def test_a_refused_key_is_known_until_it_works_or_is_replaced() -> None:
    """A 403 may be about what was sent, and a key of the client's own is no key of the gateway."""
    scene = Scene()
    for outcome in (outcome_of_status(403), outcome_of_status(401, own_key=False), limited(), outcome_of_status(500)):
        scene.attempt(scene.first, outcome)
        assert not scene.state.refused.found
    scene.attempt(scene.first, outcome_of_status(401))
    scene.attempt(scene.other, outcome_of_status(401))
    scene.attempt(scene.second, ANSWERED)
    assert scene.state.refused.words({"one"}) == {"unauthorized"}
    scene.attempt(scene.first, outcome_of_status(400))
    assert scene.state.refused.words({"one"}) == frozenset()
    replaced = replace(scene.config.providers["two"], api_key=Secret("another-key"))
    scene.state.configure(replace(scene.config, providers={**scene.config.providers, "two": replaced}))
    assert not scene.state.refused.found


def test_a_provider_pauses_until_it_works() -> None:
    scene = Scene()
    scene.attempt(scene.other, outcome_of_status(500))
    assert scene.state.paused() == frozenset()
    scene.attempt(scene.other, outcome_of_status(500))
    assert scene.state.paused() == {"two"}
    scene.clock.advance(10)
    assert scene.state.paused() == {"two"}, "it is tested"
    scene.attempt(scene.other, ANSWERED)
    assert scene.state.paused() == frozenset()

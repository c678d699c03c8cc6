"""The order in which requests try candidates: by priority, in proportion to weights, stable for a conversation."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Dialect
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.routing.plan import LEAST_BUSY, STICKY, WEIGHTED, Candidate, Plan, candidates_of

PROVIDERS = [Provider(f"up{n}", Dialect.CHAT, "http://127.0.0.1:1") for n in range(6)]
CANDIDATES = st.lists(st.tuples(st.floats(0.1, 10), st.integers(1, 3)), min_size=1, max_size=len(PROVIDERS)).map(
    lambda rows: tuple(Candidate(PROVIDERS[n], "m", w, p) for n, (w, p) in enumerate(rows))
)
BALANCES = st.sampled_from([STICKY, LEAST_BUSY, WEIGHTED])


def idle(_: Candidate) -> int:
    return 0


@given(CANDIDATES, BALANCES, st.binary(min_size=1, max_size=16), st.integers())
def test_every_candidate_comes_once_and_priorities_rise(
    candidates: tuple[Candidate, ...], balance: str, conversation: bytes, seed: int
) -> None:
    order = Plan(candidates, 3, balance).ranked(conversation, idle, Random(seed).random)
    assert sorted(order, key=candidates.index) == list(candidates)
    assert [each.priority for each in order] == sorted(each.priority for each in candidates)


@given(CANDIDATES, st.binary(min_size=1, max_size=16), st.integers())
def test_a_conversation_has_one_order_and_loses_only_the_candidate_that_leaves(
    candidates: tuple[Candidate, ...], conversation: bytes, seed: int
) -> None:
    random = Random(seed).random
    order = Plan(candidates, 3).ranked(conversation, idle, random)
    assert Plan(candidates, 3).ranked(conversation, idle, random) == order
    for gone in candidates if len(candidates) > 1 else ():
        left = tuple(each for each in candidates if each is not gone)
        assert Plan(left, 3).ranked(conversation, idle, random) == [each for each in order if each is not gone]


@pytest.mark.parametrize("balance", [STICKY, WEIGHTED])
def test_shares_follow_the_weights(balance: str) -> None:
    candidates = tuple(Candidate(PROVIDERS[n], "m", weight) for n, weight in enumerate((1.0, 3.0, 6.0)))
    plan, random = Plan(candidates, 3, balance), Random(7).random
    first = Counter(plan.ranked(str(n).encode(), idle, random)[0].provider.name for n in range(4000))
    for n, share in enumerate((0.1, 0.3, 0.6)):
        assert first[f"up{n}"] / 4000 == pytest.approx(share, abs=0.04)


@given(st.lists(st.integers(0, 20), min_size=2, max_size=6), st.integers())
def test_the_least_busy_candidate_comes_first(busy: list[int], seed: int) -> None:
    candidates = tuple(Candidate(PROVIDERS[n], "m", number=n) for n in range(len(busy)))
    order = Plan(candidates, 3, LEAST_BUSY).ranked(None, lambda each: busy[each.number], Random(seed).random)
    assert [busy[each.number] for each in order] == sorted(busy)


def test_keys_share_the_weight_of_their_provider() -> None:
    provider = Provider("up", Dialect.CHAT, "http://x", api_keys=(Secret("one-key"), Secret("two-key")))
    found = candidates_of(provider, provider.variants(), "m", 3.0, 2)
    assert [(each.weight, each.priority, each.number) for each in found] == [(1.5, 2, 1), (1.5, 2, 2)]
    keys = [each.provider.api_key for each in found]
    assert [key.reveal() for key in keys if key is not None] == ["one-key", "two-key"]
    assert len({each.key for each in found}) == 2
    assert not any("key" in each.key for each in found)


def test_a_provider_with_one_key_is_one_candidate() -> None:
    assert candidates_of(PROVIDERS[0], PROVIDERS[0].variants(), "m", 1.0, 1) == [Candidate(PROVIDERS[0], "m")]

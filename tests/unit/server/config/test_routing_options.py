"""The rules for targets and retries, and the number of attempts that follows from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import (
    ATTEMPTS_MAX,
    TARGETS_MAX,
    RetryOptions,
    RouteTarget,
    target_problems,
)

PROVIDERS = {"a": object(), "b": object()}


@pytest.mark.parametrize(
    ("targets", "path"),
    [
        ([RouteTarget("c")], "at[0].provider"),
        ([RouteTarget("a"), RouteTarget("a")], "at[1]"),
        ([RouteTarget("a", weight=0)], "at[0].weight"),
        ([RouteTarget("a", weight=float("nan"))], "at[0].weight"),
        ([RouteTarget("a"), RouteTarget("b", priority=0)], "at[1].priority"),
        ([RouteTarget("a", f"m{n}") for n in range(TARGETS_MAX + 1)], "at"),
    ],
)
def test_problems_name_the_target(targets: list[RouteTarget], path: str) -> None:
    assert [at for at, _ in target_problems("at", targets, PROVIDERS)] == [path]


def test_a_provider_may_have_several_models() -> None:
    assert not list(target_problems("at", [RouteTarget("a", "big"), RouteTarget("a", "small")], PROVIDERS))


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (RetryOptions(attempts=ATTEMPTS_MAX + 1), "retries.attempts"),
        (RetryOptions(backoff=-1), "retries.backoff"),
        (RetryOptions(wait=float("inf")), "retries.wait"),
    ],
)
def test_problems_name_the_setting(options: RetryOptions, path: str) -> None:
    assert [at for at, _ in options.problems()] == [path]
    assert not list(RetryOptions().problems())


@pytest.mark.parametrize(("attempts", "good"), [(None, True), (1, True), (20, True), (0, False), (21, False)])
def test_the_attempts_of_a_route(attempts: int | None, good: bool) -> None:
    route = Route("m", "up", attempts=attempts)
    found = [at for at, _ in route.problems("at", {"up": Provider("up", Dialect.CHAT, "http://h/v1")})]
    assert found == ([] if good else ["at.attempts"])


@given(st.one_of(st.none(), st.integers(1, 20)), st.integers(0, 20), st.booleans())
def test_the_most_specific_number_of_attempts_counts(route: int | None, general: int, several: bool) -> None:
    found = RetryOptions(attempts=general).attempts_of(route, several)
    assert found == (route or general or (3 if several else 1))

"""The breaker as a state machine: when it opens, how long, what closes it, and how many requests test a provider."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.routing.circuit_breaker import PROBE, CircuitBreaker
from support.manual_clock import ManualClock


def breaker(clock: ManualClock, failures: int = 3) -> CircuitBreaker:
    return CircuitBreaker(failures, 10.0, 40.0, clock)


def opened(clock: ManualClock) -> CircuitBreaker:
    found = breaker(clock)
    for _ in range(3):
        found.begin()
        found.failed()
    return found


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 5))
def test_it_opens_with_so_many_failures_in_a_row(results: list[bool], limit: int) -> None:
    found, row = breaker(ManualClock(), limit), 0
    for success in results:
        found.begin()
        if success:
            found.succeeded()
            row = 0
        else:
            row += 1
            assert found.failed() == (limit > 0 and row == limit)
        assert found.open == (limit > 0 and row >= limit)


def test_one_request_tests_the_provider_after_the_pause() -> None:
    clock = ManualClock()
    found = opened(clock)
    assert found.remaining() == 10
    clock.advance(10)
    assert found.remaining() == 0
    found.begin()
    assert found.remaining() > 0
    assert found.succeeded()
    assert found.remaining() == 0
    assert not found.succeeded()


def test_pauses_double_up_to_the_longest_and_begin_again_after_a_success() -> None:
    clock = ManualClock()
    found = opened(clock)
    for pause in (20, 40, 40):
        clock.advance(found.remaining())
        found.begin()
        assert found.failed()
        assert found.remaining() == pause
    clock.advance(40)
    found.begin()
    found.succeeded()
    for _ in range(3):
        found.begin()
        found.failed()
    assert found.remaining() == 10


def test_late_failures_do_not_lengthen_a_pause() -> None:
    clock = ManualClock()
    found = opened(clock)
    clock.advance(4)
    assert not found.failed()
    assert found.remaining() == 6


def test_a_test_without_a_result_lets_the_next_request_through() -> None:
    clock = ManualClock()
    found = opened(clock)
    clock.advance(10)
    found.begin()
    found.abandoned()
    assert found.remaining() == 0


@given(st.floats(0.1, 100))
def test_another_gateway_can_open_it(seconds: float) -> None:
    clock = ManualClock()
    found = breaker(clock)
    assert found.hold(seconds)
    assert found.remaining() <= 40
    assert not found.hold(seconds)
    clock.advance(40)
    assert found.remaining() == 0
    found.begin()
    assert found.succeeded()


def test_tests_of_a_provider_begin_a_second_apart() -> None:
    """One that takes long, or that its client holds open, does not keep out the others."""
    clock = ManualClock()
    found = opened(clock)
    clock.advance(10)
    found.begin()
    assert found.remaining() == PROBE
    clock.advance(PROBE)
    assert found.remaining() == 0


@given(st.lists(st.sampled_from([b"a", b"b", b""]), max_size=30), st.integers(1, 6))
def test_failures_of_one_part_never_open_it(parts: list[bytes], limit: int) -> None:
    """Two parts do, each with half of the failures at most, and the provider's own failures do."""
    found = breaker(ManualClock(), limit)
    seen: list[bytes] = []
    for part in parts:
        found.begin()
        opens = found.failed(part)
        seen.append(part)
        counted = seen.count(b"") + sum(min(seen.count(each), (limit + 1) // 2) for each in (b"a", b"b"))
        assert opens == (counted >= limit and set(seen) not in ({b"a"}, {b"b"}))
        if opens:
            break


def test_a_part_whose_test_fails_does_not_lengthen_the_pause_of_all() -> None:
    clock = ManualClock()
    found = opened(clock)
    clock.advance(10)
    for part in (b"a", b"a", b"b"):
        clock.advance(PROBE)
        assert found.remaining() == 0
        found.begin()
        longer = found.failed(part)
        assert longer == (part == b"b")
    assert found.remaining() == 20

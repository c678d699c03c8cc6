"""The health of the store of responses."""

from __future__ import annotations

import pytest

from dragoman.threads import NotStored, StoreError, Unreadable
from dragoman_server.observability.metric_families import STATE_ERRORS, STATE_UP, Totals
from dragoman_server.proxy.store_health import FAILURES_MAX, StoreHealth


class Store:
    """Counts its calls, which fail if there is an error."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: StoreError | None = None

    async def get(self) -> str:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return "found"


@pytest.fixture
def totals() -> Totals:
    return Totals()


async def test_a_store_that_fails_is_not_called_until_it_answers(
    totals: Totals, caplog: pytest.LogCaptureFixture
) -> None:
    health, store = StoreHealth(totals), Store()
    health.open()
    assert totals.read(STATE_UP)[0] == 1
    assert await health.call("get", store.get) == "found"
    store.error = StoreError("Redis did not answer within 5 s")
    for _ in range(10):
        with pytest.raises(StoreError, match="did not answer within 5 s"):
            await health.call("get", store.get)
    assert store.calls == 1 + FAILURES_MAX
    assert health.failing.is_set()
    assert (totals.read(STATE_UP)[0], totals.read(STATE_ERRORS, "get")[0]) == (0, FAILURES_MAX)
    with pytest.raises(StoreError):
        await health.probe("expire", store.get)
    assert store.calls == 2 + FAILURES_MAX
    store.error = None
    assert await health.probe("expire", store.get) == "found"
    assert await health.call("get", store.get) == "found"
    assert not health.failing.is_set()
    assert totals.read(STATE_UP)[0] == 1
    assert caplog.text.count("the store of responses fails: Redis did not answer") == 1
    assert caplog.text.count("the store of responses answers again") == 1


@pytest.mark.parametrize("error", [NotStored("larger than the store"), Unreadable("stored with another key")])
async def test_a_response_that_cannot_be_stored_or_read_is_no_failure_of_the_store(
    totals: Totals, error: StoreError
) -> None:
    health, store = StoreHealth(totals), Store()
    store.error = error
    for _ in range(2 * FAILURES_MAX):
        with pytest.raises(type(error)):
            await health.call("get", store.get)
    assert store.calls == 2 * FAILURES_MAX
    assert not health.failing.is_set()


async def test_single_failures_stop_no_call(totals: Totals) -> None:
    health, store = StoreHealth(totals), Store()
    for number in range(20):
        store.error = StoreError("busy") if number % FAILURES_MAX else None
        if store.error is None:
            await health.call("get", store.get)
        else:
            with pytest.raises(StoreError):
                await health.call("get", store.get)
    assert store.calls == 20


async def test_where_writes_fail_reads_go_on(totals: Totals) -> None:
    health, disk, readable = StoreHealth(totals), Store(), Store()
    disk.error = StoreError("the disk is full")
    for _ in range(2 * FAILURES_MAX):
        with pytest.raises(StoreError):
            await health.call("put", disk.get)
        assert await health.call("get", readable.get) == "found"
        assert health.failing.is_set()
    assert (disk.calls, readable.calls) == (FAILURES_MAX, 2 * FAILURES_MAX)

"""A bounded cache whose entries expire."""

from __future__ import annotations

from dragoman_server.endpoints.ttl_cache import TTLCache
from support.clocks import Clock


def test_entries_expire() -> None:
    clock = Clock()
    cache: TTLCache[str, int] = TTLCache(9, 5.0, clock)
    cache.put("a", 1)
    clock.now += 4.9
    assert cache.get("a") == 1
    assert "a" in cache
    clock.now += 0.1
    assert cache.get("a") is None
    assert len(cache) == 0


def test_the_oldest_entry_is_evicted_first() -> None:
    cache: TTLCache[int, int] = TTLCache(2, 5.0, Clock())
    for key in (1, 2, 1, 3):
        cache.put(key, key)
    assert [cache.get(key) for key in (1, 2, 3)] == [1, None, 3]

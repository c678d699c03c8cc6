"""The memo of what was worked out lately: it holds no more than it may, and what is asked for stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from dragoman.reasoning.envelope_cache import TextCache


def size(memo: TextCache[str]) -> int:
    return sum(len(text) for text in (*memo.young, *memo._old))


@given(st.integers(0, 60), st.lists(st.integers(0, 40)))
def test_it_never_holds_more_than_it_may(most: int, asked: list[int]) -> None:
    memo: TextCache[str] = TextCache(most)
    for length in asked:
        text = "x" * length
        found = memo.get(text)
        assert found in (None, text)
        if found is None:
            memo.put(text, text)
            assert memo.get(text) == (text if length <= most // 2 else None)
        assert size(memo) <= most


def test_what_was_longest_unused_goes_first() -> None:
    memo: TextCache[int] = TextCache(60)
    memo.put("asked for", 0)
    for number in range(20):
        memo.put(f"number {number:2}", number)
        assert memo.get("asked for") == 0
    assert memo.get("number 19") == 19
    assert memo.get("number  0") is None


def test_the_same_is_counted_once() -> None:
    memo: TextCache[str] = TextCache(10)
    for _ in range(9):
        memo.put("aaa", "a")
    memo.put("bb", "b")
    assert not memo._old
    assert memo._size == 5


def test_it_forgets_on_request() -> None:
    memo: TextCache[int] = TextCache(10)
    memo.put("aaaaa", 1)
    memo.put("bbbbb", 2)
    memo.clear()
    assert memo.get("aaaaa") is memo.get("bbbbb") is None
    assert memo._size == 0


def test_threads_may_share_it() -> None:
    memo: TextCache[str] = TextCache(200)

    def ask(seed: int) -> bool:
        right = True
        for step in range(3000):
            text = str((seed * 7 + step * step) % 151)
            found = memo.get(text)
            right = right and found in (None, text)
            if found is None:
                memo.put(text, text)
        return right

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))
    assert size(memo) <= 200 + 8 * 3  # one text of each thread may be counted late

"""The last responses of a connection, from which further ones continue, bounded in number and bytes.

Responses form a tree: each has its own items, input and output, and continues the items of its parent. Items are JSON
as bytes, and each is kept once, however many responses continue it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable

from dragoman.gateway import join_items

PATH_MAX = 4096
"""Most responses in a row. A client that gets further sends its whole conversation again, as one response."""


class _Response:
    """One response. `references` counts its name in the history and the responses that continue it.

    `depth` is the number of responses up to this one.
    """

    __slots__ = ("depth", "items", "lane", "parent", "references")

    def __init__(self, parent: _Response | None, items: bytes, lane: str | None) -> None:
        self.parent = parent
        self.depth: int = 1 if parent is None else parent.depth + 1
        self.items = items
        self.lane = lane
        self.references = 1


class HistoryBudget:
    """The bytes that all histories of a process keep, at most `limit`; `used` are those that they keep now."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._by_use: OrderedDict[History, None] = OrderedDict()

    def spend(self, history: History, size: int) -> None:
        """Count `size` bytes more of a history.

        Above the limit, histories of the client that keeps the most are dropped, the one that was unused for longest
        first. Their connections are to be closed: a client that connects again sends its whole conversation.
        """
        self.used += size
        self.touch(history)
        while self.used > self.limit and self._by_use:
            kept: Counter[bytes] = Counter()
            for each in self._by_use:
                kept[each.owner] += each.used
            largest = max(kept, key=kept.__getitem__)
            oldest = next(each for each in self._by_use if each.owner == largest)
            oldest.clear()
            oldest.on_dropped()

    def touch(self, history: History) -> None:
        """Record that a history is used."""
        self._by_use[history] = None
        self._by_use.move_to_end(history)

    def refund(self, size: int) -> None:
        """Stop counting `size` bytes."""
        self.used -= size

    def forget(self, history: History) -> None:
        """Stop tracking a history that keeps nothing."""
        self._by_use.pop(history, None)


class History:
    """The last responses of one connection: at most `count`, with at most `size` bytes of items.

    `on_dropped` is called when the budget had everything dropped. `owner` is the digest of the client's key.
    """

    def __init__(
        self, count: int, size: int, budget: HistoryBudget, on_dropped: Callable[[], None], owner: bytes = b""
    ) -> None:
        self.owner = owner
        self._count = count
        self._size = size
        self._budget = budget
        self.on_dropped = on_dropped
        self._responses: OrderedDict[str, _Response] = OrderedDict()
        self.used = 0

    def __len__(self) -> int:
        return len(self._responses)

    async def find(self, response_id: str) -> bytes | None:
        """Return all items of the conversation up to a response, its output included; None if it is unknown.

        They are JSON, with commas between them.
        """
        found = self._responses.get(response_id)
        if found is None:
            return None
        self._budget.touch(self)
        parts: list[bytes] = []
        node: _Response | None = found
        while node is not None:
            parts.append(node.items)
            node = node.parent
        return join_items(*reversed(parts))

    def add(self, response_id: str, previous: str | None, items: bytes, lane: str | None) -> None:
        """Keep a response of a lane, with its own `items`. It continues `previous`, if one is given.

        If that is unknown, or the last of `PATH_MAX` in a row, the response is not kept.

        The oldest responses are dropped to keep the bounds, this one too if its conversation alone exceeds them.
        """
        parent = None if previous is None else self._responses.get(previous)
        if previous is not None and (parent is None or parent.depth >= PATH_MAX):
            return
        if parent is not None:
            parent.references += 1
        if (replaced := self._responses.pop(response_id, None)) is not None:
            self._release(replaced)
        self._responses[response_id] = _Response(parent, items, lane)
        self.used += len(items)
        while self._responses and (len(self._responses) > self._count or self.used > self._size):
            self._release(self._responses.popitem(last=False)[1])
        # The bytes of those that were just dropped are refunded before these are counted.
        self._budget.spend(self, len(items))

    def drop(self, response_id: str, lane: str | None) -> None:
        """Drop a response that a turn in `lane` has failed to continue, if it is of that lane: see responses §10."""
        found = self._responses.get(response_id)
        if found is not None and found.lane == lane:
            self._release(self._responses.pop(response_id))

    def clear(self) -> None:
        """Drop everything."""
        while self._responses:
            self._release(self._responses.popitem()[1])
        self._budget.forget(self)

    def _release(self, response: _Response) -> None:
        """Drop one reference of a response, and what is no longer referenced."""
        node: _Response | None = response
        while node is not None:
            node.references -= 1
            if node.references:
                return
            self.used -= len(node.items)
            self._budget.refund(len(node.items))
            node = node.parent

"""Blocks: the provider's own key of a block to its canonical index, and their order for targets that cannot interleave.

Most stream defects users report of gateways are one defect: a translator without an explicit map from the upstream's
block to its own. This is the map; a miss *is* the protocol error, so deltas need no test of their own.
"""

from __future__ import annotations

from collections.abc import Hashable

from .errors import LimitExceeded, UpstreamProtocolError
from .events import Annotation, BlockEnd, BlockStart, Delta, Deltas, Error, Event, Kind, Logprobs, Opaque
from .limits import DEFAULT, Limits


class BlockMap:
    """Provider key → (index, kind) of the blocks that are open. Indexes count up from 0 in start order."""

    __slots__ = ("count", "limits", "open")

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.open: dict[Hashable, tuple[int, Kind]] = {}
        self.count = 0
        self.limits = limits

    def start(self, key: Hashable, kind: Kind) -> int:
        """Open a block and give its index.

        Raises UpstreamProtocolError if the key is open already, LimitExceeded past `limits.blocks`.
        """
        if key in self.open:
            raise UpstreamProtocolError(f"upstream started block {key} twice")
        if self.count >= self.limits.blocks:
            raise LimitExceeded("blocks", self.limits.blocks, upstream=True)
        index = self.count
        self.count = index + 1
        self.open[key] = index, kind
        return index

    def end(self, key: Hashable) -> int:
        """Close a block and give its index. Raises UpstreamProtocolError if it is not open."""
        entry = self.open.pop(key, None)
        if entry is None:
            raise UpstreamProtocolError(f"upstream ended block {key}, which is not open")
        return entry[0]


class Sequencer:
    """A stage on events: holds every block back until the ones before it have ended (`block_order = sequential`).

    For clients that assume one open block. It holds back at most `limits.reply_body` characters; more than that ends
    the stream in an error.
    """

    __slots__ = ("_current", "_held", "_limit", "_size", "_waiting", "done")

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.done = False
        self._limit = limits.reply_body
        self._size = 0
        self._current: int | None = None
        self._waiting: list[int] = []
        self._held: dict[int, list[Event]] = {}

    def feed(self, events: list[Event], /) -> list[Event]:
        """The events that may leave now, in an order with one open block at a time."""
        out: list[Event] = []
        for event in events:
            kind = type(event)
            if kind is BlockStart:
                assert isinstance(event, BlockStart)
                if self._current is None:
                    self._current = event.index
                    out.append(event)
                else:
                    self._waiting.append(event.index)
                    self._held[event.index] = [event]
            elif isinstance(event, Delta | Deltas | Opaque | Annotation | Logprobs | BlockEnd):
                if event.index != self._current:
                    if isinstance(event, Delta | Deltas):
                        self._size += _length(event)
                        if self._size > self._limit:
                            out.append(Error(LimitExceeded("reply_body", self._limit, upstream=True).failure))
                            self.done = True
                            break
                    self._held[event.index].append(event)
                    continue
                out.append(event)
                if kind is BlockEnd:
                    self._advance(out)
            else:
                out.append(event)
        return out

    def finish(self) -> list[Event]:
        """Nothing: a stream that ends with open blocks ends in an error, and they stay unfinished."""
        return []

    def _advance(self, out: list[Event]) -> None:
        self._current = None
        while self._waiting and self._current is None:
            index = self._waiting.pop(0)
            held = self._held.pop(index)
            self._size -= sum(_length(event) for event in held if isinstance(event, Delta | Deltas))
            out += held
            if type(held[-1]) is not BlockEnd:
                self._current = index


def _length(event: Delta | Deltas) -> int:
    return len(event.text if isinstance(event, Delta) else event.said)

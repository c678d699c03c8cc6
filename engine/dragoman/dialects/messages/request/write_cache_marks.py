"""Writes the explicit cache marks (`cache_control`) of a Messages request (mapping §7.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses

MAX_MARKS: Final = 4
"""Most marks that the API accepts in one request, including the automatic one at the top level."""

_KEY: Final = "cache_control"
_TTL: Final[dict[str, str]] = {"5m": "5m", "1h": "1h", "30m": "5m", "12h": "1h"}
"""Lifetime of any dialect → lifetime of Messages: the same, else the next shorter one, never a more expensive one."""


class CacheMarks:
    """Marks blocks while they are written, and at the end changes what the API would reject.

    Args:
        losses: where marks that are not sent are recorded.
        explicit: True if the upstream accepts explicit marks; otherwise none are written.
        ttl: the lifetime of marks that state none (OpenAI's `prompt_cache_options.ttl`), or None.
    """

    def __init__(self, losses: Losses, *, explicit: bool, ttl: Any = None) -> None:
        self._losses = losses
        self._on = explicit
        self._ttl = ttl if type(ttl) is str else None
        self._put: list[tuple[Json, Path]] = []

    def put(self, block: Json, cache: Json | None, at: Path) -> None:
        """Mark `block` if the client marked the part at `at` (`cache` is not None)."""
        if cache is None:
            return
        if not self._on:
            self._losses.add(LossCode.CACHE_HINT, at)
            return
        ttl = _TTL.get(cache.get("ttl") or self._ttl or "")
        block[_KEY] = {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}
        self._put.append((block, at))

    def settle(self, body: Json, automatic: Json | None) -> None:
        """Keep the last marks of the body, which cover the longest prefix, and shorten lifetimes of one hour behind
        shorter ones, which the API rejects.

        `automatic` is the mark of the request itself, or None. It counts as one behind the last block.
        """
        if automatic is not None:
            if not self._on:
                self._losses.add(LossCode.CACHE_HINT, (_KEY,))
                automatic = None
            else:
                self.put(body, automatic, ())
        put = self._put
        if len(put) < 2 or (len(put) <= MAX_MARKS and len({block[_KEY].get("ttl") == "1h" for block, _ in put}) == 1):
            return
        places = {id(block): place for place, block in enumerate(_in_prefix_order(body))}
        # Without the marks of blocks that are not sent after all.
        marked = {places[id(block)]: (block, at) for block, at in put if id(block) in places}
        sent = [marked[place] for place in sorted(marked)]
        most = MAX_MARKS if automatic is None else MAX_MARKS - 1
        for block, at in sent[:-MAX_MARKS]:
            del block[_KEY]
            self._losses.add(LossCode.CACHE_HINT, at, f"only the last {most} marks are sent")
        short = False
        for block, at in sent[-MAX_MARKS:]:
            if block[_KEY].get("ttl") != "1h":
                short = True
            elif short:
                block[_KEY] = {"type": "ephemeral", "ttl": "5m"}
                self._losses.add(LossCode.CACHE_HINT, at or (_KEY,), "became 5m, as the mark of a shorter one precedes")


def _in_prefix_order(body: Json) -> Iterator[Json]:
    """Yields the blocks of a body that may have a mark, in the order of the prompt, then the body itself."""
    yield from body.get("tools", ())
    yield from _blocks(body.get("system"))
    for message in body["messages"]:
        yield from _blocks(message["content"])
    yield body


def _blocks(content: Any) -> Iterator[Json]:
    """Yields the blocks of a content array, each after those inside it."""
    if type(content) is list:
        for block in content:
            kind = block["type"]
            if kind == "tool_result" or kind == "search_result":
                yield from _blocks(block.get("content"))
            elif kind == "document" and type(block["source"]) is dict:
                yield from _blocks(block["source"].get("content"))
            yield block

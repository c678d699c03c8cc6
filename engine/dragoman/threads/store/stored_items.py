"""The items of a stored path or conversation, read in parts: a page, one item, or all of them up to a limit.

The outlines of the nodes are known before. Of their contents only what is needed is read and parsed, a part at a time,
and the caller decides what is parsed in a thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from dragoman.canonical.request import Json
from dragoman.errors import LimitExceeded
from dragoman.threads.conversation import MAY_DELETE, MAY_UPDATE, WITHOUT_ITEMS, Change, ConversationHead, members
from dragoman.threads.item_list import ItemPage, after_not_found, item_ids, page_from, shown_input
from dragoman.threads.item_reference import response_of
from dragoman.threads.node import READ_NODES, Node, Outline, batches
from dragoman.threads.store.interface import StoreError
from dragoman.wire.json_codec import dumps, loads

Load = Callable[[Sequence[Outline]], Awaitable[list[Node]]]
"""Returns nodes, as `Store.nodes` does for one owner."""
Compute = Callable[[int, Callable[[], Any]], Awaitable[Any]]
"""Calls a job that parses so many bytes, and returns its result: in a thread, if they are many."""


class Section(NamedTuple):
    """A node with items of a list: those of its input, and with `output` those of its reply."""

    outline: Outline
    output: bool


def sections_of(path: Sequence[Outline], tree: Sequence[Outline] = (), *, output: bool = True) -> list[Section]:
    """Return the sections of a path; without the output of its last node unless `output`.

    `tree` is the tree of a path that begins in a conversation. A path of one node is the whole conversation.
    """
    if tree:
        path = [*members(tree, path[1].id if len(path) > 1 else None), *path[2:]]
    return [Section(each, output or each is not path[-1]) for each in path]


_Read = tuple[Section, Node]


async def _at_once(_: int, job: Callable[[], Any]) -> Any:
    return job()


class StoredItems:
    """The items of these sections, oldest first, without those that the conversation has deleted.

    `load` reads nodes, and `compute` calls what parses them, by default at once; `size` is the number of bytes of all
    of them. The methods raise StoreError.
    """

    def __init__(self, load: Load, sections: Sequence[Section], compute: Compute = _at_once) -> None:
        self._load = load
        self._compute = compute
        self._sections = [each for each in sections if not each.outline.id.startswith(WITHOUT_ITEMS)]
        self._deletions = [each.outline for each in sections if each.outline.id.startswith(MAY_DELETE)]
        self.size = sum([each.outline.size for each in sections])

    async def history(self, most: int) -> list[Any]:
        """Return the items as upstreams get them. Raises LimitExceeded if their JSON has more than `most` bytes."""
        found: list[Any] = []
        deleted, length = await self._deleted(), 0
        for sections in _parts(self._sections):
            part = await self._read(sections)
            items, size = await self._call_for(part, _sent, part, deleted, self.size > most)
            length += size
            if length > most:
                raise LimitExceeded("request_body", most, upstream=False)
            found += items
        return found

    async def check_length(self, most: int) -> None:
        """Raise LimitExceeded if the JSON of the items has more than `most` bytes."""
        if self.size > most:
            await self.history(most)

    async def page(self, page: ItemPage) -> Json:
        """Return a page of the items in the form of the API. Raises ClientRequestError for an unknown `after`."""
        deleted = await self._deleted()
        sections, skipped = self._sections, page.after
        descends = page.order == "desc"
        start = len(sections) - 1 if descends else 0
        if skipped is not None:
            place = await self._find(skipped, deleted)
            if place is None:
                raise after_not_found()
            start = place[0]
        sections = sections[start::-1] if descends else sections[start:]
        found: list[Json] = []
        for some in _parts(sections, page.limit + 1):
            part = await self._read(some)
            found += await self._call_for(part, _shown, part, deleted, descends)
            if skipped is not None:  # it is in the first part
                ids = [item["id"] for item in found]
                found, skipped = found[ids.index(skipped) + 1 :], None
            if len(found) > page.limit:
                break
        return page_from(found, page.limit)

    async def item(self, item_id: str) -> Json | None:
        """Return an item in the form of the API, or None."""
        place = await self._find(item_id, await self._deleted())
        return place[1] if place is not None else None

    async def _find(self, item_id: str, deleted: frozenset[str]) -> tuple[int, Json] | None:
        """Return the place of an item's section, and the item."""
        response = response_of(item_id)
        base = response.partition("_")[2] if response is not None else None
        places = [
            place
            for place, each in enumerate(self._sections)
            if base is None or each.outline.id.partition("_")[2] == base
        ]
        seen = 0
        for sections in _parts([self._sections[place] for place in places]):
            part = await self._read(sections)
            likely = {place: each for place, each in zip(places[seen:], part, strict=False) if _may_have(each, item_id)}
            seen += len(part)
            items = await self._call_for([*likely.values()], _shown_by_section, [*likely.values()], deleted)
            for place, shown in zip(likely, items, strict=True):
                for item in shown:
                    if item.get("id") == item_id:
                        return place, item
        return None

    async def _call_for(self, part: Sequence[_Read], work: Callable[..., Any], *args: Any) -> Any:
        return await self._compute(sum([section.outline.size for section, _ in part]), partial(work, *args))

    async def _deleted(self) -> frozenset[str]:
        """Return the ids of the deleted items."""
        replies: list[Json] = []
        for batch in batches(self._deletions):
            replies += [loads(node.reply) for node in await self._load(batch)]
        return frozenset(reply["item_id"] for reply in replies if reply["object"] == Change.DELETED)

    async def _read(self, sections: Sequence[Section]) -> list[_Read]:
        nodes = await self._load([each.outline for each in sections])
        if len(nodes) != len(sections):
            raise StoreError("a response was deleted while it was read")
        return list(zip(sections, nodes, strict=True))


def _parts(sections: Sequence[Section], most: int = READ_NODES) -> Iterator[Sequence[Section]]:
    """Yield these sections in parts to be read at a time, of at most so many."""
    start = 0
    for batch in batches([each.outline for each in sections], most_nodes=most):
        yield sections[start : start + len(batch)]
        start += len(batch)


async def read_head(load: Load, tree: Sequence[Outline]) -> ConversationHead:
    """Return a conversation without its items. `tree` are its members. Raises StoreError."""
    for outline in reversed(tree):
        if outline.id.startswith(MAY_UPDATE):
            for node in await load((outline,)):
                reply: Json = loads(node.reply)
                if reply["object"] in (Change.UPDATED, Change.CREATED):
                    return ConversationHead(tree[0].id, tree[0].created, reply["metadata"], len(tree))
    raise StoreError("a conversation was deleted while it was read")


def _may_have(read: _Read, item_id: str) -> bool:
    """True if a node must be parsed to find an item: one that it received has its id, which is text there."""
    _, node = read
    return node.id.partition("_")[2] in item_id or dumps(item_id) in node.reply


def _sent(part: Sequence[_Read], deleted: frozenset[str], counted: bool) -> tuple[list[Any], int]:
    """Return the items as upstreams get them, and the bytes of their JSON if they are to be counted, else 0."""
    items: list[Any] = []
    for section, node in part:
        given = node.input_items()
        if deleted:
            pairs = zip(item_ids(given, node.id), given, strict=True)
            given = [item for item_id, item in pairs if item_id not in deleted]
        items += given
        if section.output:
            received = node.output_items()
            items += [item for item in received if item.get("id") not in deleted] if deleted else received
    return items, len(dumps(items)) if counted else 0


def _shown(part: Sequence[_Read], deleted: frozenset[str], descends: bool) -> list[Json]:
    """Return the items in the form of the API; the newest of each section first if the list descends."""
    step = -1 if descends else 1
    return [item for shown in _shown_by_section(part, deleted) for item in shown[::step]]


def _shown_by_section(part: Sequence[_Read], deleted: frozenset[str]) -> list[list[Json]]:
    found: list[list[Json]] = []
    for section, node in part:
        items = shown_input(node)
        if section.output:
            items += node.output_items()
        found.append([item for item in items if item.get("id") not in deleted])
    return found

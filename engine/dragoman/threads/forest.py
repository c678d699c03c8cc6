"""All conversations of a store in memory: adds, finds and removes responses. Does no I/O and reads no clock."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from dragoman.threads.limits import DEFAULT_THREAD_LIMITS, ThreadLimits
from dragoman.threads.node import Node, Outline
from dragoman.threads.store.interface import NotStored


@dataclass(slots=True)
class _Tree:
    """One conversation. `expires` is a Unix time in seconds."""

    expires: float = 0.0
    size: int = 0
    ids: dict[str, None] = field(default_factory=dict)
    """In the order in which they were added."""


@dataclass(slots=True)
class _Place:
    """A node with its place in the tree."""

    node: Node
    root: str
    depth: int

    def outline(self) -> Outline:
        node = self.node
        return Outline(node.id, self.root, node.parent, node.created, node.size)


class Forest:
    """The conversations of all owners. Times are Unix seconds, given by the caller."""

    def __init__(self, limits: ThreadLimits = DEFAULT_THREAD_LIMITS) -> None:
        self.limits = limits
        self.size = 0
        self._tree_size = min(limits.size, limits.owner_size)
        self._places: dict[tuple[str, str], _Place] = {}
        self._trees: OrderedDict[tuple[str, str], _Tree] = OrderedDict()
        """By owner and id of the root. The first was continued the longest time ago."""
        self._owned: dict[str, OrderedDict[str, _Tree]] = {}
        """These trees by owner."""
        self._owner_sizes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def put(self, node: Node, now: float) -> None:
        """Add a node, and remove conversations that have expired or that it needs the room of. Raises NotStored."""
        self.expire(now)
        owner, limits = node.owner, self.limits
        if (owner, node.id) in self._places:
            raise NotStored(f"there is a response {node.id} already")
        root, depth = node.id, 1
        if node.parent is not None:
            before = self._places.get((owner, node.parent))
            if before is None:
                raise NotStored(f"the response {node.parent} before it is no longer stored")
            root, depth = before.root, before.depth + 1
        if depth > limits.depth:
            raise NotStored(f"its conversation has more than {limits.depth} responses")
        tree, size = self._trees.get((owner, root)), node.size
        if tree is None:
            larger, nodes = size, 0
        else:
            larger, nodes = tree.size + size, len(tree.ids)
        if nodes >= limits.tree:
            raise NotStored(f"its conversation has {limits.tree} responses with all its branches")
        if larger > self._tree_size or nodes >= limits.nodes:
            raise NotStored("its conversation is larger than the store may be")
        tree = self._touch(owner, root, tree)
        tree.expires = now + limits.ttl
        self._add(node, tree, size, root, depth)
        while self._owner_sizes[owner] > limits.owner_size:
            self._remove_tree(owner, next(iter(self._owned[owner])))
        while self.size > limits.size or len(self._places) > limits.nodes:
            self._remove_tree(*self._removable(owner, root))

    def _removable(self, owner: str, added: str) -> tuple[str, str]:
        """Return the tree to remove for an addition to the tree `added`.

        It is the owner's own oldest one if the owner has more than an equal share of all bytes, so that a client that
        adds much removes nothing of others; else the oldest of all.
        """
        if self._owner_sizes[owner] * len(self._owner_sizes) > self.size:
            oldest = next(iter(self._owned[owner]))
            if oldest != added:
                return owner, oldest
        return next(iter(self._trees))

    def get(self, owner: str, node_id: str, now: float) -> Node | None:
        """Return a node, or None if the owner has none of this id."""
        place = self._place(owner, node_id, now)
        return place.node if place is not None else None

    def path(self, owner: str, node_id: str, now: float) -> list[Node] | None:
        """Return the nodes from the root to this one, or None if one of them is not there."""
        places = self._path(owner, node_id, now)
        return [place.node for place in places] if places is not None else None

    def path_outline(self, owner: str, node_id: str, now: float) -> list[Outline] | None:
        """Return what `path` returns, without the contents."""
        places = self._path(owner, node_id, now)
        return [place.outline() for place in places] if places is not None else None

    def _path(self, owner: str, node_id: str, now: float) -> list[_Place] | None:
        place = self._place(owner, node_id, now)
        path: list[_Place] = []
        while place is not None:
            path.append(place)
            if place.node.parent is None:
                return path[::-1]
            depth, place = place.depth, self._places.get((owner, place.node.parent))
            if place is not None and place.depth != depth - 1:  # its id was deleted and used again
                place = None
        return None

    def tree(self, owner: str, node_id: str, now: float) -> list[Node]:
        """Return the nodes of the conversation that a node belongs to, oldest first; none if it is not there."""
        return [place.node for place in self._tree(owner, node_id, now)]

    def tree_outline(self, owner: str, node_id: str, depth: int, now: float) -> list[Outline]:
        """Return what `tree` returns, without the contents, and only the first `depth` nodes of each path."""
        return [place.outline() for place in self._tree(owner, node_id, now) if place.depth <= depth]

    def _tree(self, owner: str, node_id: str, now: float) -> list[_Place]:
        place = self._place(owner, node_id, now)
        if place is None:
            return []
        return [self._places[owner, each] for each in self._trees[owner, place.root].ids]

    def delete(self, owner: str, node_id: str, now: float) -> bool:
        """Remove a node. Return False if the owner has none of this id."""
        if self._place(owner, node_id, now) is None:
            return False
        self._remove(owner, node_id)
        return True

    def expire(self, now: float) -> int:
        """Remove the conversations that have expired. Return the number of their nodes."""
        before = len(self._places)
        while self._trees and (oldest := next(iter(self._trees.items())))[1].expires <= now:
            self._remove_tree(*oldest[0])
        return before - len(self._places)

    def _place(self, owner: str, node_id: str, now: float) -> _Place | None:
        place = self._places.get((owner, node_id))
        return place if place is not None and self._trees[owner, place.root].expires > now else None

    def _touch(self, owner: str, root: str, tree: _Tree | None) -> _Tree:
        """Make a tree the last to be removed. Return it; a new one for None."""
        owned = self._owned.get(owner)
        if owned is None:
            owned = self._owned[owner] = OrderedDict()
        if tree is None:
            tree = self._trees[owner, root] = owned[root] = _Tree()
        else:
            self._trees.move_to_end((owner, root))
            owned.move_to_end(root)
        return tree

    def _add(self, node: Node, tree: _Tree, size: int, root: str, depth: int) -> None:
        owner = node.owner
        self._places[owner, node.id] = _Place(node, root, depth)
        tree.ids[node.id] = None
        tree.size += size
        self.size += size
        self._owner_sizes[owner] = self._owner_sizes.get(owner, 0) + size

    def _remove(self, owner: str, node_id: str) -> None:
        place = self._places.pop((owner, node_id))
        tree, size = self._trees[owner, place.root], place.node.size
        del tree.ids[node_id]
        tree.size -= size
        self.size -= size
        self._owner_sizes[owner] -= size
        if not tree.ids:
            self._forget_tree(owner, place.root)

    def _remove_tree(self, owner: str, root: str) -> None:
        for node_id in tuple(self._trees[owner, root].ids):
            self._remove(owner, node_id)

    def _forget_tree(self, owner: str, root: str) -> None:
        del self._trees[owner, root]
        owned = self._owned[owner]
        del owned[root]
        if not owned:
            del self._owned[owner], self._owner_sizes[owner]

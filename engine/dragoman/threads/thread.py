"""A conversation in a store, for programs that call models themselves."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects import STORED_DIALECT, Dialect
from dragoman.dialects.directions import DIRECTIONS
from dragoman.knobs import DEFAULT_KNOBS, Knobs
from dragoman.profiles.profile import Profile
from dragoman.threads.compaction import Compaction, evict, input_tokens, is_worth, plan
from dragoman.threads.conversation import is_conversation, path_history
from dragoman.threads.node import Node, history
from dragoman.threads.store.interface import Store, StoreError
from dragoman.threads.stored_request import with_history
from dragoman.translate_request import translate
from dragoman.translation import Translation
from dragoman.wire.json_codec import dumps, loads


def new_response_id() -> str:
    """Return a new id of a response, which cannot be guessed."""
    return f"resp_{os.urandom(16).hex()}"


class Thread:
    """A place in a conversation: the response at `head`, and the path to it.

    Responses do not change once they are added, so any number of threads may be at any response of a conversation.

    Args:
        store: An open store.
        owner: The owner of the conversation.
        head: The id of the response to continue from; None to begin a conversation.
        new_id: Returns the id of a new response.
    """

    def __init__(
        self,
        store: Store,
        owner: str = "",
        head: str | None = None,
        *,
        new_id: Callable[[], str] = new_response_id,
    ) -> None:
        self._store = store
        self._new_id = new_id
        self.owner = owner
        self.head = head

    async def append(self, input_items: Sequence[Json], output_items: Sequence[Json] = ()) -> str:
        """Add a response after the head, and move the head to it. Return its id once it is stored.

        The items of the input and of the output are those of the Responses API. Raises StoreError.
        """
        node_id, created = self._new_id(), int(self._store.clock())
        reply = dumps({"id": node_id, "object": "response", "created_at": created, "output": list(output_items)})
        await self._store.put(Node(self.owner, node_id, self.head, created, dumps(list(input_items)), reply))
        self.head = node_id
        return node_id

    async def path(self) -> list[Node]:
        """Return the responses from the first one to the head. Raises StoreError if one is no longer stored."""
        if self.head is None:
            return []
        path = await self._store.path(self.owner, self.head)
        if path is None:
            raise StoreError(f"the response {self.head} is not stored, or one before it was deleted")
        return path

    async def items(self) -> list[Any]:
        """Return the items of the path, input and output, oldest first.

        Those of a response in a conversation are all items that the conversation had at that time.
        """
        path = await self.path()
        if path and is_conversation(path[0].id):
            return path_history(path, await self._store.tree(self.owner, path[0].id))
        return history(path)

    async def fork(self, at: str | None = None) -> Thread:
        """Return another thread at the head, or at an earlier response of the path, by its id.

        Raises ValueError for an id that is not on the path.
        """
        if at is not None and at not in {node.id for node in await self.path()}:
            raise ValueError(f"there is no response {at} on the path to {self.head}")
        return Thread(self._store, self.owner, at or self.head, new_id=self._new_id)

    async def rollback(self, responses: int = 1) -> None:
        """Move the head back by a number of responses. They stay in the store.

        Raises ValueError if the path has fewer.
        """
        path = await self.path()
        if not 0 <= responses <= len(path):
            raise ValueError(f"the path has {len(path)} responses, cannot go back by {responses}")
        remaining = path[: len(path) - responses]
        self.head = remaining[-1].id if remaining else None

    async def compact(
        self, summarise: Callable[[Compaction], Awaitable[str]], model: str = "", *, threshold: int = 0
    ) -> Compaction | None:
        """Add a compacted history after the head, if that is worth it, and move the head to it.

        From then on `payload` sends the history in place of the items that it covers. Responses before it, and other
        branches, are not changed; `rollback` takes it back.

        Args:
            summarise: Returns the summary for the `record` of a compaction. `Compaction.request` is a request for it.
            model: The model that writes it, which is recorded.
            threshold: Estimated tokens of the path below which nothing is done.

        Return what became of the items; None if nothing was done. Raises StoreError, and what `summarise` raises.
        """
        items = await self.items()
        total = input_tokens({"input": items})
        if not items or total < threshold:
            return None
        compaction = evict(items, total, threshold) if threshold else None
        if compaction is None:
            compaction = plan(items)
            if not compaction.summarised or not is_worth(compaction, items, threshold):
                return None
        summary = await summarise(compaction) if compaction.summarised else ""
        node_id, created = self._new_id(), int(self._store.clock())
        item = {"type": "compaction", "encrypted_content": compaction.wrapped(summary, model)}
        reply = dumps({"id": node_id, "object": "response.compaction", "created_at": created, "output": [item]})
        await self._store.put(Node(self.owner, node_id, self.head, created, b"[]", reply))
        self.head = node_id
        return compaction

    async def translate(
        self,
        dialect: Dialect | str,
        model: str,
        *,
        input: Sequence[Json] = (),
        profile: Profile | None = None,
        knobs: Knobs = DEFAULT_KNOBS,
        **settings: Any,
    ) -> Translation:
        """Return the request that continues the conversation at an upstream, with the translator of its reply.

        The reply is translated into a Response object, whose `output` can be given to `append`.

        Args:
            dialect: The upstream's dialect.
            model: The upstream's model.
            input: New items after those of the path.
            profile: What the upstream's server supports.
            knobs: The choices of the translation.
            settings: Other fields of a Responses request, such as `instructions`, `tools` and `stream`.

        Raises ClientRequestError for what the upstream's dialect cannot express.
        """
        body = with_history({"model": model, "input": list(input), "store": False, **settings}, await self.items())
        direction = DIRECTIONS[STORED_DIALECT, Dialect(dialect)]
        return translate(direction, dumps(body), profile=profile, knobs=knobs)

    async def payload(self, dialect: Dialect | str, model: str, **options: Any) -> Json:
        """Return the request body that continues the conversation at an upstream. The options are `translate`'s."""
        payload: Json = loads((await self.translate(dialect, model, **options)).body)
        return payload

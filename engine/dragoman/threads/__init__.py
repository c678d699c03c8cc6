"""Conversations that are kept: trees of responses, in memory, in an SQLite file or in Redis.

A response is stored with its own input and a reference to the response before it, so a conversation is a tree: two
responses after the same one are two branches. The whole input of a response is that of its path from the root.

    store = SqliteStore("threads.db")               # or MemoryStore()
    await store.open()
    thread = Thread(store, owner="alice")
    payload = await thread.payload("chat", "gpt-5.2", input=[{"role": "user", "content": "Hi"}])
    ...                                             # send it; read the reply
    await thread.append([{"role": "user", "content": "Hi"}], output)
    branch = await thread.fork()                    # both continue from here
    await thread.rollback()                         # the branch keeps the last response

Items are those of the Responses API. `payload` writes a path for an upstream of any dialect. Each owner reads only its
own responses.

The names in `__all__` are public. `StoredRequest` is for servers of the Responses API: it reads the fields of a request
that refer to stored responses. SQLite and Redis are imported when their stores are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dragoman.threads.item_list import ItemPage, list_items
    from dragoman.threads.limits import ThreadLimits
    from dragoman.threads.node import Node, history
    from dragoman.threads.store.interface import NotStored, Store, StoreError, Unreadable
    from dragoman.threads.store.memory import MemoryStore
    from dragoman.threads.store.node_data import NodeCipher
    from dragoman.threads.store.redis import RedisStore
    from dragoman.threads.store.sqlite import SqliteStore
    from dragoman.threads.store.sqlite_thread import SqliteThread
    from dragoman.threads.stored_request import (
        StoredRequest,
        deleted_response,
        is_response_id,
        new_node,
        previous_not_found,
        relocate,
        response_not_found,
        with_history,
    )
    from dragoman.threads.thread import Thread

__all__ = (
    "ItemPage",
    "MemoryStore",
    "Node",
    "NodeCipher",
    "NotStored",
    "RedisStore",
    "SqliteStore",
    "SqliteThread",
    "Store",
    "StoreError",
    "StoredRequest",
    "Thread",
    "ThreadLimits",
    "Unreadable",
    "deleted_response",
    "history",
    "is_response_id",
    "list_items",
    "new_node",
    "previous_not_found",
    "relocate",
    "response_not_found",
    "with_history",
)

_MODULES: Final = {
    "ItemPage": "item_list",
    "MemoryStore": "store.memory",
    "Node": "node",
    "NodeCipher": "store.node_data",
    "NotStored": "store.interface",
    "RedisStore": "store.redis",
    "SqliteStore": "store.sqlite",
    "SqliteThread": "store.sqlite_thread",
    "Store": "store.interface",
    "StoreError": "store.interface",
    "StoredRequest": "stored_request",
    "Thread": "thread",
    "ThreadLimits": "limits",
    "Unreadable": "store.interface",
    "deleted_response": "stored_request",
    "history": "node",
    "is_response_id": "stored_request",
    "list_items": "item_list",
    "new_node": "stored_request",
    "previous_not_found": "stored_request",
    "relocate": "stored_request",
    "response_not_found": "stored_request",
    "with_history": "stored_request",
}
"""The modules of the names. Each is imported when one of its names is first used."""


def __getattr__(name: str) -> Any:
    """Import a name of `_MODULES` (PEP 562)."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value

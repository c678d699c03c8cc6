"""Conversations that are kept: trees of responses, in memory, in an SQLite file, in Redis or in PostgreSQL.

A response is stored with its own input and a reference to the response before it, so a conversation is a tree: two
responses after the same one are two branches. The whole input of a response is that of its path from the root.

    async with SqliteStore("threads.db") as store:      # or MemoryStore()
        thread = Thread(store, owner="alice")
        payload = await thread.payload("chat", "gpt-5.2", input=[{"role": "user", "content": "Hi"}])
        ...                                             # send it; read the reply
        await thread.append([{"role": "user", "content": "Hi"}], output)
        branch = await thread.fork()                    # both continue from here
        await thread.rollback()                         # the branch keeps the last response
        await branch.compact(summarise, threshold=150_000)  # once it is that long

Items are those of the Responses API. `payload` writes a path for an upstream of any dialect. Each owner reads only its
own responses.

The names in `__all__` are public. `StoredRequest` is for servers of the Responses API: it reads the fields of a request
that refer to stored responses. Stores are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy_names import lazy_names

if TYPE_CHECKING:
    from dragoman.threads.background import (
        cancelled_response,
        failed_response,
        lagging_event,
        queued_response,
        terminal_event,
    )
    from dragoman.threads.compaction import (
        Compaction,
        checked_items,
        compacted_response,
        evict,
        input_tokens,
        is_worth,
        plan,
    )
    from dragoman.threads.conversation import (
        Change,
        Conversation,
        ConversationHead,
        change_id,
        conversation_id,
        conversation_not_found,
        deleted_conversation,
        is_conversation,
        item_not_found,
        members,
        path_history,
        path_items,
    )
    from dragoman.threads.conversation_request import (
        added_items,
        conversation_node,
        conversation_nodes,
        deleted_item,
        new_metadata,
    )
    from dragoman.threads.history_cipher import HistoryCipher
    from dragoman.threads.item_list import ItemPage, input_items, page_from, page_of, shown_input
    from dragoman.threads.item_reference import (
        find_item,
        find_items,
        item_not_stored,
        references,
        response_of,
        with_items,
    )
    from dragoman.threads.limits import ThreadLimits
    from dragoman.threads.lineage import Lineage, as_mermaid, lineage_of
    from dragoman.threads.node import Node, Outline, batches, history
    from dragoman.threads.store.interface import NotStored, Store, StoreError, Unreadable
    from dragoman.threads.store.memory import MemoryStore
    from dragoman.threads.store.node_data import NodeCipher
    from dragoman.threads.store.postgres import PostgresStore
    from dragoman.threads.store.postgres_connection import PostgresConnection, SchemaPart
    from dragoman.threads.store.redis import RedisStore
    from dragoman.threads.store.redis_connection import RedisConnection
    from dragoman.threads.store.sqlite import SqliteStore
    from dragoman.threads.store.sqlite_thread import SqliteThread
    from dragoman.threads.store.stored_items import Section, StoredItems, read_head, sections_of
    from dragoman.threads.stored_request import (
        StoredRequest,
        check_outputs,
        deleted_response,
        is_response_id,
        new_node,
        own_items,
        previous_not_found,
        relocate,
        response_id,
        response_not_found,
        with_history,
    )
    from dragoman.threads.thread import Thread
else:
    __getattr__ = lazy_names(
        globals(),
        {
            "background": "cancelled_response failed_response lagging_event queued_response terminal_event",
            "compaction": "Compaction checked_items compacted_response evict input_tokens is_worth plan",
            "conversation": (
                "Change Conversation ConversationHead change_id conversation_id conversation_not_found "
                "deleted_conversation is_conversation item_not_found members path_history path_items"
            ),
            "conversation_request": "added_items conversation_node conversation_nodes deleted_item new_metadata",
            "history_cipher": "HistoryCipher",
            "item_list": "ItemPage input_items page_from page_of shown_input",
            "item_reference": "find_item find_items item_not_stored references response_of with_items",
            "limits": "ThreadLimits",
            "lineage": "Lineage as_mermaid lineage_of",
            "node": "Node Outline batches history",
            "store.interface": "NotStored Store StoreError Unreadable",
            "store.memory": "MemoryStore",
            "store.node_data": "NodeCipher",
            "store.postgres": "PostgresStore",
            "store.postgres_connection": "PostgresConnection SchemaPart",
            "store.redis": "RedisStore",
            "store.redis_connection": "RedisConnection",
            "store.sqlite": "SqliteStore",
            "store.sqlite_thread": "SqliteThread",
            "store.stored_items": "Section StoredItems read_head sections_of",
            "stored_request": (
                "StoredRequest check_outputs deleted_response is_response_id new_node own_items "
                "previous_not_found relocate response_id response_not_found with_history"
            ),
            "thread": "Thread",
        },
    )

__all__ = (
    "Change",
    "Compaction",
    "Conversation",
    "ConversationHead",
    "HistoryCipher",
    "ItemPage",
    "Lineage",
    "MemoryStore",
    "Node",
    "NodeCipher",
    "NotStored",
    "Outline",
    "PostgresConnection",
    "PostgresStore",
    "RedisConnection",
    "RedisStore",
    "SchemaPart",
    "Section",
    "SqliteStore",
    "SqliteThread",
    "Store",
    "StoreError",
    "StoredItems",
    "StoredRequest",
    "Thread",
    "ThreadLimits",
    "Unreadable",
    "added_items",
    "as_mermaid",
    "batches",
    "cancelled_response",
    "change_id",
    "check_outputs",
    "checked_items",
    "compacted_response",
    "conversation_id",
    "conversation_node",
    "conversation_nodes",
    "conversation_not_found",
    "deleted_conversation",
    "deleted_item",
    "deleted_response",
    "evict",
    "failed_response",
    "find_item",
    "find_items",
    "history",
    "input_items",
    "input_tokens",
    "is_conversation",
    "is_response_id",
    "is_worth",
    "item_not_found",
    "item_not_stored",
    "lagging_event",
    "lineage_of",
    "members",
    "new_metadata",
    "new_node",
    "own_items",
    "page_from",
    "page_of",
    "path_history",
    "path_items",
    "plan",
    "previous_not_found",
    "queued_response",
    "read_head",
    "references",
    "relocate",
    "response_id",
    "response_not_found",
    "response_of",
    "sections_of",
    "shown_input",
    "terminal_event",
    "with_history",
    "with_items",
)

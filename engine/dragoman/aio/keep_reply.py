"""Stores a finished reply before its end is sent, so that a client never refers to a response that is not stored."""

from __future__ import annotations

from dragoman.dialects.responses.reply.unstored import unstored
from dragoman.reply_context import StoredReply


async def keep_reply(stored: StoredReply, data: bytes) -> bytes:
    """Store a reply, if it has ended, and return the bytes to send: `data`, the end of the reply.

    If it could not be stored, the response in them has `store: false`.
    """
    final, stored.final = stored.final, None
    if final is None or stored.keep is None:
        return data
    losses = stored.losses
    if await stored.keep(final, losses.counts if losses else {}):
        return data
    return unstored(data)

"""Stores a finished reply before its end is sent, so that a client never refers to a response that is not stored."""

from __future__ import annotations

from dragoman.dialects.responses.reply.unstored import unstored
from dragoman.reply_context import StoredReply
from dragoman.wire.sse import FrameBatch, encode_frames


async def keep_reply(stored: StoredReply, data: bytes) -> bytes:
    """Store a reply, if it has ended, and return the bytes to send: `data`, the end of the reply.

    If it could not be stored, the response in them has `store: false`.
    """
    return data if await _is_kept(stored) else unstored(data)


async def keep_frames(stored: StoredReply, frames: FrameBatch) -> FrameBatch:
    """Store a reply, if it has ended, and return the last frames of its stream as `keep_reply` does."""
    return frames if await _is_kept(stored) else unstored(encode_frames(frames))


async def _is_kept(stored: StoredReply) -> bool:
    """Store a reply. Return False if it could not be stored; True if there is nothing to store."""
    final, stored.final = stored.final, None
    if final is None or stored.keep is None:
        return True
    losses = stored.losses
    return await stored.keep(final, losses.counts if losses else {})

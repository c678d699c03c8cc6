"""Ids of tool calls in Chat replies (mapping §11)."""

from __future__ import annotations

from dragoman.tools.names import reply_id, sanitize_call_id

LONGEST_CALL_ID = 64
"""Characters of an id that is sent to a client."""
_LONGEST_MINTED_ID = 40


def mint_call_id(upstream_id: str, block: int) -> str:
    """Returns an id for a call that has none, or the id of another call, from the reply's id and the block's index."""
    return sanitize_call_id(f"{reply_id(upstream_id, 'call_')}_{block}", _LONGEST_MINTED_ID)

"""The `keepalive` event, which OpenAI's service sends while a model is silent.

The API's types do not have it, so only clients that need an event get it (knob `heartbeats`). Codex's timer counts
neither comments nor pings of a WebSocket.
"""

from __future__ import annotations


def keepalive_payload(number: int) -> bytes:
    """Return the event as JSON. `number` is its sequence number."""
    return b'{"type":"keepalive","sequence_number":%d}' % number


def keepalive_frame(number: int) -> bytes:
    """Return the event as an encoded frame."""
    return b"event: keepalive\ndata: %b\n\n" % keepalive_payload(number)

"""Frames of the Responses WebSocket (responses §10): requests, answers without an upstream, and a turn's items."""

from __future__ import annotations

from dragoman.dialects.responses.websocket.client_frame import (
    RESPONSE_CREATE,
    RESPONSE_STEER,
    ClientFrame,
    join_items,
)
from dragoman.dialects.responses.websocket.output_items import OutputItems
from dragoman.dialects.responses.websocket.server_frames import (
    error_frame,
    heartbeat_frame,
    steer_failed_frame,
    stream_id_tail,
    warm_up_frames,
)

__all__ = (
    "RESPONSE_CREATE",
    "RESPONSE_STEER",
    "ClientFrame",
    "OutputItems",
    "error_frame",
    "heartbeat_frame",
    "join_items",
    "steer_failed_frame",
    "stream_id_tail",
    "warm_up_frames",
)

"""The parts of the API that no other has, for a server: its WebSocket, and the ends of responses in the background."""

from dragoman.dialects.responses.reply.read_end import ResponseEnd, find_end, read_end
from dragoman.dialects.responses.websocket.client_frame import RESPONSE_CREATE, RESPONSE_STEER, ClientFrame, join_items
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
    "ResponseEnd",
    "error_frame",
    "find_end",
    "heartbeat_frame",
    "join_items",
    "read_end",
    "steer_failed_frame",
    "stream_id_tail",
    "warm_up_frames",
)

"""Bytes: server-sent events, JSON, and templates of repeated frames.

The names in `__all__` are public: JSON as Dragoman reads and writes it, the parser of server-sent events, and the cut
behind the last complete one.

It imports `canonical` and the top-level modules below `translate`; it knows no dialect.
Start with `sse.py` and `sse_parser.py`.
"""

from dragoman.canonical.request import Json
from dragoman.wire.frame_scanner import complete_frames
from dragoman.wire.json_codec import dumps as json_dumps
from dragoman.wire.json_codec import loads as json_loads
from dragoman.wire.sse import Frame as SSEFrame
from dragoman.wire.sse_parser import Parser as SSEParser

__all__ = ("Json", "SSEFrame", "SSEParser", "complete_frames", "json_dumps", "json_loads")

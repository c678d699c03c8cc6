from __future__ import annotations

from ..stream import StreamReader


class ResponsesReader(StreamReader):
    pass

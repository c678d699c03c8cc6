from __future__ import annotations

from ..stream import StreamWriter


class ResponsesWriter(StreamWriter):
    pass

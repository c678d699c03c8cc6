"""The phases of a stream that is written, and the canonical events that move it from one to the next (mapping §9.7).

They are the same in all dialects. `StreamWriter` moves by this table.
"""

from __future__ import annotations

from typing import Final, Literal

WriterPhase = Literal["WAITING", "OPEN", "FINISHED", "DONE"]
"""The position of a writer in its stream.

- `WAITING`: Nothing of the reply was written.
- `OPEN`: The reply has started. Blocks start and end.
- `FINISHED`: The reason why the reply ended is known. Token counts and the end follow.
- `DONE`: The stream is complete or has failed. Nothing follows.
"""

WRITER: Final[dict[WriterPhase, dict[str, WriterPhase]]] = {
    "WAITING": {"Start": "OPEN", "Error": "DONE"},
    "OPEN": {"BlockStart": "OPEN", "BlockEnd": "OPEN", "Finish": "FINISHED", "Error": "DONE"},
    "FINISHED": {"End": "DONE", "Error": "DONE"},
    "DONE": {},
}
"""Phase of the writer → canonical event → next phase.

An event of the table that is absent in a phase is an UpstreamProtocolError, which is written as an `Error`. Other
events (`Delta`, `Opaque`, `Annotation`, `Logprobs`, `Ping`) do not change the phase. In `DONE`, events are not written.
"""

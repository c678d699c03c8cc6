"""The phases of an upstream connection, and the events that lead from one phase to another.

    NEW → HEAD → BODY → ENDED → IDLE → HEAD → …

Only `Connection._advance` changes a phase, and only by `TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

ConnectionPhase = Literal["NEW", "IDLE", "HEAD", "BODY", "ENDED", "DRAINING", "CLOSED"]
"""The phase of one upstream connection.

- `NEW`: Not connected yet.
- `IDLE`: In the pool, ready for a request.
- `HEAD`: Connected, or a request was sent; the response's head is not complete. A server may respond before it has the
  request.
- `BODY`: The head is complete, the body is not.
- `ENDED`: The response is complete and its reader has not released the connection yet.
- `DRAINING`: The reader has released the connection early; the rest of the body is read and dropped.
- `CLOSED`: Closed by either side.
"""

ConnectionEvent = Literal[
    "connected", "request_sent", "head_complete", "body_complete", "released_early", "pooled", "close"
]
"""An event that changes the phase of an upstream connection.

- `connected`: The connection is established.
- `request_sent`: A request was sent on a connection from the pool.
- `head_complete`: The head of the final response was parsed.
- `body_complete`: The end of the body was parsed.
- `released_early`: The reader does not need the rest of a body that is expected to end soon.
- `pooled`: The connection goes back to the pool.
- `close`: This side closes the connection, or the server has.
"""

_CLOSE: Mapping[ConnectionEvent, ConnectionPhase] = {"close": "CLOSED"}

TRANSITIONS: Final[Mapping[ConnectionPhase, Mapping[ConnectionEvent, ConnectionPhase]]] = {
    "NEW": {"connected": "HEAD"},
    "IDLE": {"request_sent": "HEAD", **_CLOSE},
    # `pooled`: connected for a request that was cancelled meanwhile.
    "HEAD": {"head_complete": "BODY", "pooled": "IDLE", **_CLOSE},
    "BODY": {"body_complete": "ENDED", "released_early": "DRAINING", **_CLOSE},
    "ENDED": {"pooled": "IDLE", **_CLOSE},
    "DRAINING": {"pooled": "IDLE", **_CLOSE},
    "CLOSED": _CLOSE,
}
"""The phase that follows each event, per phase. Any other event is a defect."""

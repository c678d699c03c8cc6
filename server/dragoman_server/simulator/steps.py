"""A simulated reply: steps that are independent of any dialect, and the fate of its connection.

They are types of this package, not the engine's events, so that tests of the engine are independent of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dragoman_server.simulator.parse_request import Offer


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A fragment of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A fragment of the visible answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A fragment of a refusal's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStart:
    """A call begins. `call` numbers the calls of a reply from 0."""

    call: int
    tool: Offer


@dataclass(frozen=True, slots=True)
class ToolArgs:
    """A fragment of a call's arguments (or of a custom tool's input)."""

    call: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolEnd:
    """The end of a call. A call without it is incomplete."""

    call: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The reply's end. `reason` is one of stop, stop_sequence, tool_calls, length, refusal, content_filter."""

    reason: str
    stop_sequence: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An in-band error. With `as_event`, Responses sends `error` instead of `response.failed`."""

    message: str = "The server is overloaded"
    as_event: bool = False


Step = Reasoning | Text | Refusal | ToolStart | ToolArgs | ToolEnd | Finish | Failure


class Ending(Enum):
    """Fate of the connection after the last step."""

    WHOLE = "ends normally"
    CUT = "is closed before the last chunk"
    RESET = "is reset"
    STALL = "stays open without data"


@dataclass(frozen=True, slots=True)
class Iteration:
    """An entry of `usage.iterations` besides the reply itself: its type, and its model if that is another one."""

    kind: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A reply: its steps and the fate of its connection."""

    steps: tuple[Step, ...] = ()
    ending: Ending = Ending.WHOLE
    slow: bool = False
    """Delay the first byte."""
    silent: bool = False
    """Make the same pause in the middle of a stream."""
    split: int = 0
    """Write the stream in pieces of this many bytes (0: one write per frame)."""
    split_characters: bool = False
    """Send every multi-byte character in two writes that arrive in two reads."""
    cache_write: int = 0
    """Prompt tokens that were written to a cache."""
    reported: bool = True
    """False for a reply without token counts."""
    apart: bool = False
    """Count reasoning apart from the output (Chat)."""
    searches: int = 0
    """Paid web searches."""
    tier: str | None = None
    """The service tier that served, in OpenAI's words; None for that of the request."""
    iterations: tuple[Iteration, ...] = ()
    """The entries of `usage.iterations` besides that of the reply (Messages)."""
    status: int = 200
    variant: str = ""
    """Variant of an error status: `quota`, `context` or empty."""

"""The vocabulary: canonical stream events. Read this first.

Every reader turns its dialect's frames into these; every writer turns these into its dialect's frames (mapping §9.5).

    stream := Start (BlockStart | Delta | Deltas | Opaque | Annotation | Logprobs | BlockEnd | Ping)* Finish End
    Error may replace any suffix, and is last.

Each block event carries the index of its block. Indexes count up from 0 in start order; blocks may be open side by
side. The events are immutable by convention; they are not frozen because a frozen dataclass costs three times as much
to build (226 against 81 ns).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from dragoman.errors import Failure


class BlockKind(StrEnum):
    """What a block holds."""

    TEXT = "text"
    REFUSAL = "refusal"
    REASONING = "reasoning"
    TOOL = "tool"
    OPAQUE = "opaque"


class StopReason(StrEnum):
    """Why a reply ended (mapping §9.2)."""

    END = "end"
    STOP_SEQUENCE = "stop_sequence"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTEXT = "context"
    REFUSAL = "refusal"
    FILTERED = "filtered"
    PAUSED = "paused"
    POLICY_CUT = "policy_cut"


CUTS = frozenset({StopReason.LENGTH, StopReason.FILTERED, StopReason.CONTEXT, StopReason.POLICY_CUT})
"""Reasons that leave what was being said unfinished."""


@dataclass(slots=True)
class Usage:
    """Token counts. None means the upstream did not say, which is not 0 (mapping §9.4).

    `input_total` includes cache reads and writes; `output_total` includes reasoning.
    """

    input_total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output_total: int | None = None
    reasoning: int | None = None

    def merged_onto(self, earlier: Usage | None) -> Usage:
        """These counts laid over earlier ones: a field that is None here keeps its earlier value."""
        if earlier is None:
            return self
        return Usage(
            earlier.input_total if self.input_total is None else self.input_total,
            earlier.cache_read if self.cache_read is None else self.cache_read,
            earlier.cache_write if self.cache_write is None else self.cache_write,
            earlier.output_total if self.output_total is None else self.output_total,
            earlier.reasoning if self.reasoning is None else self.reasoning,
        )


@dataclass(slots=True)
class Stop:
    """A stop reason with the upstream's own word beside it, and the matched stop sequence where it is known."""

    reason: StopReason
    native: str | None = None
    sequence: str | None = None


@dataclass(slots=True)
class RefusalInfo:
    """What the upstream said of a refusal beyond visible text: Messages' `stop_details`."""

    explanation: str | None = None
    category: str | None = None


@dataclass(slots=True)
class Citation:
    """A source of a text block. `url`, `title`, `start`, `end` are common ground; `native` is the original."""

    origin: str
    native: dict[str, Any]
    url: str | None = None
    title: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(slots=True)
class Start:
    """First, once. `id` and `model` are the upstream's; `usage` is what it already knows of the input."""

    id: str
    model: str
    usage: Usage | None = None
    created: int | None = None


@dataclass(slots=True)
class BlockStart:
    """A block opens. `call_id` and `name` are set for tools; `custom` marks a free-text tool (no JSON arguments).

    `namespace` is the Responses namespace of a tool, if any; `search` marks a client-run tool search. For an opaque
    block `name` is its type at its origin and `code` the loss (`losses.Code`) of a writer that must leave it out;
    with the code `reasoning_encrypted` it is reasoning that is all proof. `apart` marks a text that begins a
    message behind another block: it is a new paragraph, while one that merely goes on (citations split them) is not.
    """

    index: int
    kind: BlockKind
    call_id: str = ""
    name: str = ""
    custom: bool = False
    namespace: str | None = None
    code: str = ""
    search: bool = False
    apart: bool = False


@dataclass(slots=True)
class Delta:
    """More text of an open block: text, refusal wording, reasoning, or a fragment of a tool's arguments."""

    index: int
    text: str


class TextRun(NamedTuple):
    """Several `Delta`s of one block in a row, whose texts are spelled already; each stays an event of its own.

    `said` is all of their texts, `spelled` holds each as JSON, as orjson writes it; none is empty. A stage that does
    more with a text than pass it on takes them one by one: `each`. Nearly all of a stream comes so (see `groove`). It
    is a tuple because that is made without a Python call.
    """

    index: int  # type: ignore[assignment]  # a tuple's own `index` is not missed
    text: str
    pieces: list[str]
    encoded: list[bytes]

    def deltas(self) -> list[Delta]:
        """The same as single events."""
        return [Delta(self.index, text) for text in self.pieces]


@dataclass(slots=True)
class Opaque:
    """Payload of a block that only its origin understands, before the block's end.

    `origin` is the dialect it came from, `form` its name there: `signature`, `encrypted_content`, `reasoning_content`,
    `reasoning_details` on a reasoning block; `block` (the whole block as it started) or `delta` (what was added to it)
    on an opaque one.
    `native` is the whole original reasoning block, spelled as its origin wants it back in a later request; it is given
    only to writers that can keep it (`ReplyContext.seal`), with the last such event of its block.
    """

    index: int
    origin: str
    form: str
    payload: Any
    native: dict[str, Any] | None = None


@dataclass(slots=True)
class Annotation:
    """A citation of an open text block."""

    index: int
    citation: Citation


@dataclass(slots=True)
class Logprobs:
    """Log probabilities of the text just said, in the OpenAI dialects' common form; only if they were asked for."""

    index: int
    tokens: list[dict[str, Any]]


@dataclass(slots=True)
class BlockEnd:
    """A block closes, once. `complete` is False when the upstream said that it was cut off."""

    index: int
    complete: bool = True


@dataclass(slots=True)
class Finish:
    """All blocks are closed and the reason is known; `usage` is final."""

    stop: Stop
    usage: Usage | None = None
    refusal: RefusalInfo | None = None


@dataclass(slots=True)
class End:
    """After `Finish`, last. `usage` holds counts that came only after `Finish`, laid over its own."""

    usage: Usage | None = None


@dataclass(slots=True)
class Error:
    """The stream failed; last. Nothing that was open may be closed as if it were whole."""

    failure: Failure


@dataclass(slots=True)
class Ping:
    """A sign of life of the upstream, or a heartbeat of the gateway; anywhere."""


Event = Start | BlockStart | Delta | TextRun | Opaque | Annotation | Logprobs | BlockEnd | Finish | End | Error | Ping


def expand_runs(events: list[Event]) -> list[Event]:
    """The events with each `Deltas` as the single events that it stands for."""
    out: list[Event] = []
    for event in events:
        if type(event) is TextRun:
            out += event.deltas()
        else:
            out.append(event)
    return out

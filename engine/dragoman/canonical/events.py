"""The canonical events of a streamed reply, to which every other module refers.

Every reader turns its dialect's frames into these, every writer turns these into its dialect's frames (mapping §9.5).

    stream := Start (BlockStart | Delta | TextRun | Opaque | Annotation | Logprobs | BlockEnd | Ping)* Finish End
    Error may replace any suffix, and is last.

Each block event carries the index of its block. Indexes count up from 0 in start order; blocks may be open side by
side. The `repr` of an event has no text of the reply. The events are immutable by convention; they are not frozen
because a frozen dataclass costs three times as much to build (226 against 81 ns).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from dragoman.errors import Failure

BlockKind = Literal["text", "refusal", "reasoning", "tool", "opaque"]
"""The kind of a block's content."""

IMAGE = "image"
"""Name of an opaque block that is a picture which the model made. Its payload is a part of Chat's type `image_url`."""


class StopReason(StrEnum):
    """The reason for the end of a reply (mapping §9.2)."""

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
"""The reasons that leave the last block unfinished."""


@dataclass(slots=True)
class Usage:
    """Token counts. None means that the upstream sent no count, which differs from 0 (mapping §9.4).

    `input_total` includes cache reads and writes; `output_total` includes reasoning. `cache_write_1h` is the part of
    `cache_write` that is kept for an hour, which only Messages upstreams and LiteLLM count. `other_models` are the
    parts of these counts that other models than the requested one used, with their names: an advisor, or a fallback.
    A part without a name is a request of its own to the requested model: a compaction.
    """

    input_total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output_total: int | None = None
    reasoning: int | None = None
    cache_write_1h: int | None = None
    other_models: tuple[tuple[str, Usage], ...] = field(default=(), repr=False, kw_only=True)

    def merged_onto(self, earlier: Usage | None) -> Usage:
        """Return these counts, and the earlier ones for fields without a count here."""
        if earlier is None:
            return self
        return Usage(
            earlier.input_total if self.input_total is None else self.input_total,
            earlier.cache_read if self.cache_read is None else self.cache_read,
            earlier.cache_write if self.cache_write is None else self.cache_write,
            earlier.output_total if self.output_total is None else self.output_total,
            earlier.reasoning if self.reasoning is None else self.reasoning,
            earlier.cache_write_1h if self.cache_write_1h is None else self.cache_write_1h,
            other_models=self.other_models or earlier.other_models,
        )


@dataclass(slots=True)
class Stop:
    """A stop reason, the upstream's own word for it, and the matched stop sequence if it is known."""

    reason: StopReason
    native: str | None = field(default=None, repr=False)
    sequence: str | None = field(default=None, repr=False)


@dataclass(slots=True)
class RefusalInfo:
    """The upstream's details of a refusal besides its text: Messages' `stop_details`."""

    explanation: str | None = field(default=None, repr=False)
    category: str | None = field(default=None, repr=False)


@dataclass(slots=True)
class Citation:
    """A source of a text block. `url`, `title`, `start`, `end` are common to all dialects, `native` is the original."""

    origin: str
    native: dict[str, Any] = field(repr=False)
    url: str | None = field(default=None, repr=False)
    title: str | None = field(default=None, repr=False)
    start: int | None = None
    end: int | None = None


@dataclass(slots=True)
class Start:
    """The first event, once. `id` and `model` are the upstream's; `usage` holds the counts that it has already sent.

    `tier` and `moderation` are what the upstream has stated by then. A writer reads both here, and not in the context,
    which may have what a later frame of the same read states.
    """

    id: str = field(repr=False)
    model: str = field(repr=False)
    usage: Usage | None = None
    created: int | None = None
    tier: str | None = None
    moderation: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(slots=True)
class BlockStart:
    """A block opens. `call_id` and `name` are set for tools; `custom` marks a free-text tool (no JSON arguments).

    `namespace` is the Responses namespace of a tool, if any; `search` marks a client-run tool search. For an opaque
    block `name` is its type at its origin and `code` the loss (`losses.LossCode`) if a writer has to drop it;
    with the code `reasoning_encrypted` it is reasoning without text. `apart` marks a text that begins a new
    paragraph after another block, unlike one that was only split by a citation.
    """

    index: int
    kind: BlockKind
    call_id: str = field(default="", repr=False)
    name: str = field(default="", repr=False)
    custom: bool = False
    namespace: str | None = field(default=None, repr=False)
    code: str = ""
    search: bool = False
    apart: bool = False


@dataclass(slots=True)
class Delta:
    """More text of an open block: text, refusal wording, reasoning, or a fragment of a tool's arguments."""

    index: int
    text: str = field(repr=False)

    def deltas(self) -> list[Delta]:
        """Return itself in a list, as a run returns the deltas that it stands for."""
        return [self]


@dataclass(slots=True, init=False)
class TextRun:
    """Consecutive `Delta`s of one block, with their texts as JSON; each piece stands for an event.

    `text` is all of their text, `pieces` each text, and `encoded` each text as a JSON string, as orjson writes it. No
    piece is empty. Nearly all of a stream is read like this (`wire.delta_template`). Only a writer needs to know this
    class: it may write a run at once. Elsewhere `TEXTS` covers it, and `expand_runs` makes deltas of it.
    """

    # The fields are assigned after the construction: a Python call for that takes half as long again.

    index: int
    text: str = field(repr=False)
    pieces: list[str] = field(repr=False)
    encoded: list[bytes] = field(repr=False)

    def deltas(self) -> list[Delta]:
        """Return the deltas that this run stands for."""
        return [Delta(self.index, text) for text in self.pieces]


def text_run(index: int, text: str, pieces: list[str], encoded: list[bytes]) -> TextRun:
    """Return a `TextRun`."""
    run = TextRun()
    run.index = index
    run.text = text
    run.pieces = pieces
    run.encoded = encoded
    return run


@dataclass(slots=True)
class Opaque:
    """Payload of a block that only its origin understands, before the block's end.

    `origin` is the dialect it came from, `form` its name there: `signature`, `encrypted_content`, `reasoning_content`,
    `reasoning_details`, `extra_content` on a reasoning block; `block` (the whole block as it started) or `delta` (what
    was added to it) on an opaque one.
    `native` is the whole original reasoning block, in the form that its origin expects in a later request. It is set
    only for writers that can keep it (`ReplyContext.envelope`), with the last such event of its block.
    """

    index: int
    origin: str
    form: str
    payload: Any = field(repr=False)
    native: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(slots=True)
class Annotation:
    """A citation of an open text block."""

    index: int
    citation: Citation


@dataclass(slots=True)
class Logprobs:
    """Log probabilities of the latest text, in the common form of the OpenAI dialects; only if they were requested."""

    index: int
    tokens: list[dict[str, Any]] = field(repr=False)


@dataclass(slots=True)
class BlockEnd:
    """A block ends, once. `complete` is False if the upstream reported that it was cut off."""

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
    """The last event, after `Finish`. `usage` holds counts that came after `Finish`; they replace those of `Finish`."""

    usage: Usage | None = None


@dataclass(slots=True)
class Error:
    """The stream failed. The last event: no open block may be ended as if it were complete."""

    failure: Failure


@dataclass(slots=True)
class Ping:
    """A keep-alive of the upstream, or a heartbeat of the proxy; anywhere."""


Event = Start | BlockStart | Delta | TextRun | Opaque | Annotation | Logprobs | BlockEnd | Finish | End | Error | Ping


TEXTS = (TextRun, Delta)
"""The events that hold text of a block, in `text`."""
BlockContent = Delta | TextRun | Opaque | Annotation | Logprobs | BlockEnd
"""The events of an open block."""


def moved(event: BlockContent, index: int) -> BlockContent:
    """Return the event as one of the block `index`."""
    if isinstance(event, TextRun):
        return text_run(index, event.text, event.pieces, event.encoded)
    return replace(event, index=index)


def expand_runs(events: list[Event]) -> list[Event]:
    """Return the events with each `TextRun` replaced by its deltas."""
    out: list[Event] = []
    for event in events:
        if type(event) is TextRun:
            out += event.deltas()
        else:
            out.append(event)
    return out

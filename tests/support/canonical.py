"""The oracle of canonical event streams (grammar: the head of `dragoman.canonical.events`), and their accumulation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Logprobs,
    Opaque,
    Ping,
    Start,
    Usage,
)
from dragoman.stages.grammar.values import require
from oracles.grammar import Accumulated, Call

_ANNOTATED = {"text"}
_OPAQUE = {"reasoning", "opaque"}


def assistant_turn(events: Iterable[Event]) -> list[Event]:
    """Return the same stream as Messages has it: text and reasoning begin with their first content, or not at all."""
    out: list[Event] = []
    silent: dict[int, BlockStart] = {}
    indexes: dict[int, int] = {}
    for event in events:
        match event:
            case BlockStart(kind="text" | "refusal" | "reasoning"):
                silent[event.index] = event
                continue
            case BlockStart():
                indexes[event.index] = len(indexes)
            case Delta() | Opaque() if event.index in silent and (isinstance(event, Opaque) or event.text):
                indexes[event.index] = len(indexes)
                out.append(replace(silent.pop(event.index), index=indexes[event.index]))
            case _:
                pass
        if not isinstance(event, BlockStart | Delta | Opaque | Annotation | Logprobs | BlockEnd):
            out.append(event)
        elif event.index in indexes:
            out.append(replace(event, index=indexes[event.index]))
    return out


def in_sequence(events: Iterable[Event]) -> list[Event]:
    """Return the same stream with its blocks one after the other, by their starts; signs of life come last."""
    blocks: dict[int, list[Event]] = {}
    around: list[Event] = []
    for event in events:
        if isinstance(event, BlockStart):
            blocks[event.index] = [event]
        elif isinstance(event, Delta | Opaque | Annotation | Logprobs | BlockEnd):
            blocks[event.index].append(event)
        else:
            around.append(event)
    tail = next((at for at, event in enumerate(around) if isinstance(event, Finish | Error)), len(around))
    return [*around[:tail], *(event for block in blocks.values() for event in block), *around[tail:]]


def joined(events: Iterable[Event]) -> list[Event]:
    """Return the same stream without signs of life, the texts of each block in a row as one, and without empty ones."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, Delta) and isinstance(last, Delta) and last.index == event.index:
            out[-1] = Delta(event.index, last.text + event.text)
        elif not isinstance(event, Ping) and not (isinstance(event, Delta) and not event.text):
            out.append(event)
    return out


def check(events: Iterable[Event], *, complete: bool = True) -> Accumulated:
    """Judge a canonical stream and accumulate it. Raises GrammarError.

    `usage` in the result holds the canonical names; `finish` the canonical reason or None. Without `complete` the
    stream may stop anywhere.
    """
    result = Accumulated()
    starts: list[BlockStart] = []
    contents: list[str] = []
    open_blocks: set[int] = set()
    usage: Usage | None = None
    phase = "new"
    for event in events:
        require(phase != "over", f"{event!r} after the last event")
        match event:
            case Ping():
                result.pings += 1
            case Error():
                result.error = {"kind": str(event.failure.kind), "message": event.failure.message}
                phase = "over"
            case Start():
                require(phase == "new", "Start twice, or not first")
                phase = "body"
                result.id, result.model, usage = event.id, event.model, event.usage
            case End():
                require(phase == "finished", "End without Finish")
                usage = event.usage.merged_onto(usage) if event.usage is not None else usage
                phase = "over"
            case _:
                require(phase == "body", f"{type(event).__name__} in phase {phase}")
                match event:
                    case BlockStart():
                        require(event.index == len(starts), f"block {event.index} started, {len(starts)} was due")
                        require(
                            event.kind != "tool" or (event.call_id and event.name),
                            f"a nameless call: {event!r}",
                        )
                        starts.append(event)
                        contents.append("")
                        open_blocks.add(event.index)
                    case Finish():
                        require(not open_blocks, f"Finish while blocks {open_blocks} are open")
                        result.finish, result.sequence = str(event.stop.reason), event.stop.sequence
                        usage = event.usage.merged_onto(usage) if event.usage is not None else usage
                        phase = "finished"
                    case Delta() | Opaque() | Annotation() | Logprobs() | BlockEnd():
                        require(event.index in open_blocks, f"{event!r}, but the block is not open")
                        kind = starts[event.index].kind
                        match event:
                            case Delta():
                                require(kind != "opaque", "a Delta on an opaque block")
                                contents[event.index] += event.text
                            case Opaque():
                                require(kind in _OPAQUE, f"Opaque on a {kind} block")
                                if event.form in ("signature", "encrypted_content"):
                                    result.signatures.append(event.payload)
                            case Logprobs():
                                require(kind == "text", f"Logprobs on a {kind} block")
                            case Annotation():
                                require(kind in _ANNOTATED, f"Annotation on a {kind} block")
                                result.annotations.append(event.citation.native)
                            case BlockEnd():
                                open_blocks.discard(event.index)
    require(not complete or phase == "over", "neither End nor Error at the end")
    for start, content in zip(starts, contents, strict=True):
        result.blocks.append((str(start.kind), content))
        match start.kind:
            case "text":
                result.text += content
            case "reasoning":
                result.reasoning += content
            case "refusal":
                result.refusal += content
            case "tool":
                made = "search" if start.search else "custom" if start.custom else "function"
                result.calls.append(Call(start.call_id, start.name, content, start.namespace, made))
            case "opaque":
                pass
    if usage is not None:
        result.usage = asdict(usage)
    return result

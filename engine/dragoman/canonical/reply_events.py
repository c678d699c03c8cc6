"""A complete reply as the events of a stream, and the reverse.

For upstreams that answer a request for a stream with JSON, or one for a complete reply with a stream. Some servers do
so if tools are declared, others always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dragoman.canonical.events import (
    CUTS,
    TEXTS,
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
    Start,
    Usage,
)
from dragoman.canonical.parts import Json, Native, Part, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.dialects import FACTS
from dragoman.errors import Path, UpstreamStatusError

Join = Callable[[Json, list[Json]], Json]


def events_of(reply: Reply, tier: str | None = None, moderation: Json | None = None) -> list[Event]:
    """Return the events that accumulate to `reply`. Raises TypeError for parts that no reply has (media, results)."""
    out: list[Event] = [Start(reply.id, reply.model, None, reply.created, tier, moderation)]
    for index, part in enumerate(reply.parts):
        if isinstance(part, Text):
            out.append(BlockStart(index, "text", apart=part.apart))
            out.append(Delta(index, part.text))
            if part.logprobs:
                out.append(Logprobs(index, part.logprobs))
            out.extend(Annotation(index, citation) for citation in part.citations)
        elif isinstance(part, Refusal):
            out.append(BlockStart(index, "refusal"))
            out.append(Delta(index, part.text))
        elif isinstance(part, ToolCall):
            out.append(
                BlockStart(
                    index,
                    "tool",
                    part.id,
                    part.name,
                    custom=part.custom,
                    namespace=part.namespace,
                    search=part.search,
                )
            )
            out.append(Delta(index, part.arguments))
        elif isinstance(part, Reasoning):
            _reasoning(index, part, out)
        elif isinstance(part, Native):
            out.append(BlockStart(index, "opaque", name=part.type, code=part.code))
            out.append(Opaque(index, part.origin, "block", part.payload))
        else:
            raise TypeError(f"a reply cannot hold a {type(part).__name__}")
        out.append(BlockEnd(index, complete=not may_be_cut(reply, index)))
    out.append(Finish(reply.stop, reply.usage, reply.refusal))
    out.append(End())
    return out


def reply_of(events: Iterable[Event], origin: str, join: Join | None = None) -> Reply:
    """Return the reply that the events of a stream accumulate to. They end in `End`, or in `Error`, which is raised.

    `origin` is the upstream's dialect. `join(block, deltas)` returns an opaque block with what was added to it.
    """
    made = _ReplyBuilder(origin)
    for event in events:
        if isinstance(event, Error):
            raise UpstreamStatusError(event.failure)
        made.add(event)
    return made.reply(join)


class _ReplyBuilder:
    """The parts of a reply by the index of their block. Texts and proofs are joined once, at the end."""

    def __init__(self, origin: str) -> None:
        self._origin, self._facts = origin, FACTS[origin]
        self._start = Start("", "")
        self._finish: Finish | None = None
        self._usage: Usage | None = None
        self._parts: dict[int, Part] = {}
        self._texts: dict[int, list[str]] = {}
        self._deltas: dict[int, list[Any]] = {}
        """The deltas of opaque blocks, and the fragments of proofs."""
        self._cut: set[int] = set()

    def add(self, event: Event) -> None:
        """Adds an event."""
        if isinstance(event, TEXTS):
            self._texts[event.index].append(event.text)
        elif isinstance(event, BlockStart):
            self._parts[event.index] = self._new_part(event)
            self._texts[event.index], self._deltas[event.index] = [], []
        elif isinstance(event, BlockEnd):
            if not event.complete:
                self._cut.add(event.index)
        elif isinstance(event, Opaque):
            self._add_opaque(event, self._parts[event.index])
        elif isinstance(event, Annotation | Logprobs):
            part = self._parts[event.index]
            assert isinstance(part, Text)
            if isinstance(event, Annotation):
                part.citations.append(event.citation)
            else:
                part.logprobs = part.logprobs if part.logprobs is not None else []
                part.logprobs += event.tokens
        elif isinstance(event, Start):
            self._start = event
        elif isinstance(event, Finish):
            self._finish, self._usage = event, event.usage
        elif isinstance(event, End) and event.usage is not None:
            self._usage = event.usage.merged_onto(self._usage)

    def _new_part(self, event: BlockStart) -> Part:
        at: Path = self._facts.content  # for losses
        if self._facts.content_in_list:
            at = (*at, event.index)
        if event.kind == "text":
            return Text("", at, apart=event.apart)
        if event.kind == "refusal":
            return Refusal("", at)
        if event.kind == "reasoning":
            return Reasoning("", at, self._origin)
        if event.kind == "tool":
            return ToolCall(
                *(event.call_id, event.name, "", at),
                custom=event.custom,
                namespace=event.namespace,
                search=event.search,
            )
        if event.name == "redacted_thinking":
            return Reasoning("", at, self._origin, redacted=True)
        return Native(self._origin, event.name, {}, event.code, at)

    def _add_opaque(self, event: Opaque, part: Part) -> None:
        if isinstance(part, Native) and event.form == "block":
            part.payload = event.payload
        elif isinstance(part, Reasoning) and part.redacted:
            part.proof, part.native = event.payload.get("data"), event.payload
        elif isinstance(part, Native) or event.payload:
            self._deltas[event.index].append(event.payload)
        if isinstance(part, Reasoning) and event.native is not None:
            part.native = event.native

    def reply(self, join: Join | None) -> Reply:
        """Return the complete reply."""
        finish = self._finish
        assert finish is not None, "a stream without an error has a finish"
        places = sorted(self._parts)
        for index in places:
            part, deltas = self._parts[index], self._deltas[index]
            if isinstance(part, Native):
                part.payload = join(part.payload, deltas) if join is not None and deltas else part.payload
            elif isinstance(part, ToolCall):
                part.arguments = "".join(self._texts[index])
                if not part.custom and index not in self._cut and not part.arguments.strip():
                    part.arguments = "{}"
            elif isinstance(part, Text | Refusal | Reasoning):
                part.text = "".join(self._texts[index])
                if isinstance(part, Reasoning) and deltas:
                    part.proof = "".join(deltas)
        cut = frozenset(place for place, index in enumerate(places) if index in self._cut)
        parts, start = [self._parts[index] for index in places], self._start
        return Reply(start.id, start.model, parts, finish.stop, self._usage, start.created, finish.refusal, cut)


def may_be_cut(reply: Reply, index: int) -> bool:
    """True if a part was cut off, or if it is a free-text call at the end of a reply that was.

    The text of such a call does not show it, and agents would run it. In other calls it shows, as arguments are JSON.
    """
    if index in reply.cut:
        return True
    part = reply.parts[index]
    return isinstance(part, ToolCall) and part.custom and index == len(reply.parts) - 1 and reply.stop.reason in CUTS


def _reasoning(index: int, part: Reasoning, out: list[Event]) -> None:
    if part.redacted:
        out.append(BlockStart(index, "opaque", name="redacted_thinking", code="reasoning_encrypted"))
        out.append(Opaque(index, part.origin, "block", part.native or {"data": part.proof}))
        return
    out.append(BlockStart(index, "reasoning"))
    out.append(Delta(index, part.text))
    if part.proof is not None or part.native is not None:
        out.append(Opaque(index, part.origin, FACTS[part.origin].proof, part.proof, part.native))

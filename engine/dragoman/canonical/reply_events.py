"""A complete reply as the events of a stream, for upstreams that answer a request for a stream with plain JSON.

Some servers do so if tools are declared, others always.
"""

from __future__ import annotations

from dragoman.canonical.events import (
    CUTS,
    Annotation,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    End,
    Event,
    Finish,
    Logprobs,
    Opaque,
    Start,
)
from dragoman.canonical.reply import Reply
from dragoman.canonical.request import Native, Reasoning, Refusal, Text, ToolCall

_FORMS = {"messages": "signature", "chat": "reasoning_content"}


def events_of(reply: Reply) -> list[Event]:
    """Returns the events that accumulate to `reply`. Raises TypeError for parts that no reply has (media, results)."""
    out: list[Event] = [Start(reply.id, reply.model, None, reply.created)]
    for index, part in enumerate(reply.parts):
        if isinstance(part, Text):
            out.append(BlockStart(index, BlockKind.TEXT, apart=part.apart))
            out.append(Delta(index, part.text))
            if part.logprobs:
                out.append(Logprobs(index, part.logprobs))
            out.extend(Annotation(index, citation) for citation in part.citations)
        elif isinstance(part, Refusal):
            out.append(BlockStart(index, BlockKind.REFUSAL))
            out.append(Delta(index, part.text))
        elif isinstance(part, ToolCall):
            out.append(
                BlockStart(
                    index,
                    BlockKind.TOOL,
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
            out.append(BlockStart(index, BlockKind.OPAQUE, name=part.type, code=part.code))
            out.append(Opaque(index, part.origin, "block", part.payload))
        else:
            raise TypeError(f"a reply cannot hold a {type(part).__name__}")
        out.append(BlockEnd(index, complete=not may_be_cut(reply, index)))
    out.append(Finish(reply.stop, reply.usage, reply.refusal))
    out.append(End())
    return out


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
        out.append(BlockStart(index, BlockKind.OPAQUE, name="redacted_thinking", code="reasoning_encrypted"))
        out.append(Opaque(index, part.origin, "block", part.native or {"data": part.proof}))
        return
    out.append(BlockStart(index, BlockKind.REASONING))
    out.append(Delta(index, part.text))
    if part.proof is not None or part.native is not None:
        form = _FORMS.get(part.origin, "encrypted_content")
        out.append(Opaque(index, part.origin, form, part.proof, part.native))

"""Generators of canonical event streams, and of arbitrary splits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from hypothesis import settings
from hypothesis import strategies as st

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Opaque,
    Ping,
    RefusalInfo,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.errors import Failure, FailureKind

SNIPPETS = (
    "",
    " ",
    "a",
    "Hello",
    "\n",
    "\r\n",
    "\n\n",
    "data: x\n\n",
    ": c\n",
    "event: error",
    "[DONE]",
    '"',
    "\\",
    '\\"',
    "\\u0000",
    "\u0000",
    "\u0085",
    "\u2028",
    "\u2029",
    "\ufeff",
    "é",
    "日本",
    "😀",
    "👩‍👩‍👧",
    "\U0010ffff",
    "</tool>",
    '{"a":',
    "STOP",
)

texts = st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=12), st.lists(st.sampled_from(SNIPPETS)).map("".join))
"""Any text that UTF-8 can carry, often a nasty one, often empty."""

names = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
call_ids = st.from_regex(r"[a-zA-Z0-9_-]{1,40}", fullmatch=True)
reply_ids = st.sampled_from(("chatcmpl-1", "msg_01AbC", "resp_68f", "gen-1-x", "x"))
models = st.sampled_from(("gpt-6.2", "claude-opus-5-5", "meta/llama-5", "m"))
counts = st.integers(0, 2_000_000)

_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


def examples(times: int) -> settings:
    """So many times the examples that the loaded profile has."""
    return settings(max_examples=times * settings().max_examples)


@st.composite
def arguments(draw: st.DrawFn) -> str:
    """The arguments of a call: a JSON object as some server would write it."""
    value = draw(st.dictionaries(texts, _json, max_size=3))
    compact = draw(st.booleans())
    return json.dumps(value, ensure_ascii=draw(st.booleans()), separators=(",", ":") if compact else None)


def split_at(data: bytes, points: Sequence[int]) -> list[bytes]:
    """`data` cut at the given places (any order, repeats give empty pieces)."""
    edges = [0, *sorted(points), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def splits(data: bytes) -> st.SearchStrategy[list[bytes]]:
    """Pieces that join to `data`: cut at arbitrary places, in UTF-8 and CRLF too; empty pieces; byte by byte."""
    some = st.lists(st.integers(0, len(data)), max_size=12).map(lambda points: split_at(data, points))
    sizes = st.integers(1, 7).map(lambda size: [data[at : at + size] for at in range(0, len(data), size)])
    return st.one_of(some, sizes, st.just([data]))


def batches(events: Sequence[Event]) -> st.SearchStrategy[list[list[Event]]]:
    """Return the same events in arbitrary batches, empty ones included."""

    def cut(points: list[int]) -> list[list[Event]]:
        edges = [0, *sorted(points), len(events)]
        return [list(events[start:end]) for start, end in itertools.pairwise(edges)]

    return st.lists(st.integers(0, len(events)), max_size=8).map(cut)


@st.composite
def fragments(draw: st.DrawFn, text: str) -> list[str]:
    """`text` in pieces, some of them empty; the empty text may have no piece at all."""
    points = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    edges = [0, *points, len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]
    return [] if pieces == [""] and draw(st.booleans()) else pieces


@st.composite
def usages(draw: st.DrawFn, *, whole: bool = False) -> Usage:
    """Counts that add up: the caches within the input, the reasoning within the output. Any may be None, unless
    `whole` (then only the caches and the reasoning may)."""
    read, write, reasoning = (draw(st.none() | counts) for _ in range(3))
    total = draw(counts) + (read or 0) + (write or 0)
    output = draw(counts) + (reasoning or 0)
    if whole:
        return Usage(total, read, write, output, reasoning)
    return Usage(
        total if draw(st.booleans()) else None, read, write, output if draw(st.booleans()) else None, reasoning
    )


@st.composite
def failures(draw: st.DrawFn) -> Failure:
    """Any failure an upstream or the gateway could report."""
    return Failure(
        draw(st.sampled_from(list(FailureKind))),
        draw(texts.filter(bool)),
        draw(st.sampled_from((200, 400, 401, 402, 403, 404, 413, 429, 500, 502, 503, 504, 529))),
        native_type=draw(st.none() | st.sampled_from(("overloaded_error", "server_error", "odd"))),
        code=draw(st.none() | st.sampled_from(("rate_limit_exceeded", "context_length_exceeded", "odd"))),
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """The kind of streams to make. `interleave` is `none`, `tools` (only calls overlap) or all.

    `same_neighbours` allows two text (or reasoning, refusal) blocks in a row; `empty_blocks` those without a character;
    with `silent` every second one of text, reasoning and refusal is such.
    `cut` allows a last block that is a call whose arguments are not whole, with a reason that states it.
    """

    kinds: tuple[BlockKind, ...] = get_args(BlockKind)
    reasons: tuple[StopReason, ...] = tuple(StopReason)
    origin: str = "messages"
    interleave: str = "all"
    same_neighbours: bool = True
    empty_blocks: bool = True
    silent: bool = False
    signatures: bool = True
    annotations: bool = True
    custom_tools: bool = False
    namespaces: bool = False
    searches: bool = False
    cut: bool = True
    pings: bool = True
    errors: bool = False
    whole_usage: bool = False
    max_blocks: int = 5


ANY = Shape()
CHAT = Shape(
    kinds=("text", "refusal", "reasoning", "tool"),
    reasons=(StopReason.END, StopReason.TOOL_CALLS, StopReason.LENGTH, StopReason.REFUSAL, StopReason.FILTERED),
    origin="chat",
    interleave="tools",
    same_neighbours=False,
    empty_blocks=False,
    signatures=False,
    whole_usage=True,
)
"""The contents that a Chat stream can carry, so that reading it back gives the same accumulated reply."""
MESSAGES = Shape(
    kinds=("text", "reasoning", "tool", "opaque"),
    reasons=(
        StopReason.END,
        StopReason.STOP_SEQUENCE,
        StopReason.TOOL_CALLS,
        StopReason.LENGTH,
        StopReason.CONTEXT,
        StopReason.FILTERED,
        StopReason.PAUSED,
    ),
    whole_usage=True,
)
"""The contents of a Messages stream. A `refusal` is a classifier's: it reads as filtered (mapping §9.2)."""
MESSAGES_SEQUENTIAL = Shape(kinds=MESSAGES.kinds, reasons=MESSAGES.reasons, interleave="none", whole_usage=True)
RESPONSES = Shape(
    reasons=(
        StopReason.END,
        StopReason.TOOL_CALLS,
        StopReason.LENGTH,
        StopReason.REFUSAL,
        StopReason.FILTERED,
    ),
    origin="responses",
    whole_usage=True,
)
"""The contents that a Responses stream can carry to a client of any dialect. An opaque block is a hosted item."""
RESPONSES_ONLY = replace(RESPONSES, custom_tools=True, namespaces=True, searches=True)
"""With the tools that only clients of Responses declare, and that come back only to them."""

CUT_SHORT = (StopReason.LENGTH, StopReason.CONTEXT, StopReason.FILTERED)
_WITH_CALLS = {*CUT_SHORT, StopReason.TOOL_CALLS, StopReason.PAUSED, StopReason.POLICY_CUT}


def _citation(origin: str, url: str, title: str) -> Citation:
    native: dict[str, Any]
    if origin == "messages":
        native = {
            "type": "web_search_result_location",
            "url": url,
            "title": title,
            "cited_text": "c",
            "encrypted_index": "e",
        }
        return Citation(origin, native, url, title)
    citation = {"start_index": 0, "end_index": 1, "title": title, "url": url}
    if origin == "responses":
        return Citation(origin, {"type": "url_citation", **citation}, url, title, 0, 1)
    native = {"type": "url_citation", "url_citation": citation}
    return Citation(origin, native, url, title, 0, 1)


OPAQUE_TYPES = {
    "messages": ("web_search_tool_result", "container_upload", "novelty"),
    "responses": ("web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "novelty"),
}
"""Natives that only their origin knows; `novelty` is unknown to all."""
PROOFS = {"signature": ("", "EqQBCg==", "s" * 300), "encrypted_content": ("gAAA", "e" * 300)}
"""Opaque halves of reasoning, by their name at their origin."""


@st.composite
def _block(draw: st.DrawFn, shape: Shape, kind: BlockKind, index: int, call_id: str, cut: bool) -> list[Event]:
    out: list[Event]
    if kind == "opaque":
        native = draw(st.sampled_from(OPAQUE_TYPES[shape.origin]))
        out = [BlockStart(index, kind, name=native, code="vendor_block")]
        out.append(Opaque(index, shape.origin, "block", {"type": native, "content": draw(texts)}))
        return [*out, BlockEnd(index)]
    if kind == "tool":
        search = shape.searches and draw(st.sampled_from((False, False, True)))
        custom = shape.custom_tools and not search and draw(st.booleans())
        space = draw(st.none() | names) if shape.namespaces and not search else None
        name = "tool_search" if search else draw(names)
        out = [BlockStart(index, kind, call_id, name, custom, namespace=space, search=search)]
        text = draw(texts) if custom else draw(arguments())
        cut = cut and not search  # whose arguments come in one piece
        if cut:
            text = text[: draw(st.integers(0, len(text)))]
    else:
        out = [BlockStart(index, kind)]
        text = draw(texts)
        if shape.silent and draw(st.booleans()):
            text = ""
        elif kind == "refusal" or not shape.empty_blocks:
            text = text or "x"
    out += [Delta(index, piece) for piece in draw(fragments(text))]
    if kind == "text" and text and shape.annotations:
        for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
            out.append(Annotation(index, _citation(shape.origin, "https://a.example/é", draw(texts))))
    if kind == "reasoning" and shape.signatures and draw(st.booleans()):
        form = "encrypted_content" if shape.origin == "responses" else "signature"
        out.append(Opaque(index, shape.origin, form, draw(st.sampled_from(PROOFS[form]))))
    return [*out, BlockEnd(index, complete=not cut)]


def _merge(draw: st.DrawFn, shape: Shape, blocks: list[tuple[BlockKind, list[Event]]]) -> list[Event]:
    """Interleave the blocks' events, keeping the order of the starts and the order within each block."""
    if shape.interleave == "none":
        return [event for _, block in blocks for event in block]
    out: list[Event] = []
    waiting = list(reversed(blocks))
    running: list[tuple[BlockKind, list[Event]]] = []
    while waiting or running:
        may_start = bool(waiting) and (
            not running
            or shape.interleave == "all"
            or (waiting[-1][0] == "tool" and all(kind == "tool" for kind, _ in running))
        )
        at = draw(st.integers(0, len(running) - (0 if may_start else 1)))
        if at == len(running):
            kind, block = waiting.pop()
            running.append((kind, list(reversed(block))))
        out.append(running[at][1].pop())
        if not running[at][1]:
            del running[at]
    return out


@st.composite
def event_streams(draw: st.DrawFn, shape: Shape = ANY) -> list[Event]:
    """A whole canonical stream of the shape: `Start` … `Finish End`, or cut short by an `Error`."""
    kinds = draw(st.lists(st.sampled_from(shape.kinds), max_size=shape.max_blocks))
    if not shape.same_neighbours:
        kinds = [kind for at, kind in enumerate(kinds) if at == 0 or kind == "tool" or kind is not kinds[at - 1]]
    reasons = set(shape.reasons)
    if "tool" in kinds:
        reasons &= _WITH_CALLS
    else:
        reasons.discard(StopReason.TOOL_CALLS)
        if "refusal" in kinds:
            reasons &= {StopReason.REFUSAL, *CUT_SHORT}
    if shape.origin != "messages" and "refusal" not in kinds:
        reasons.discard(StopReason.REFUSAL)  # for OpenAI only the wording reports a refusal from an end
    reason = draw(st.sampled_from([reason for reason in shape.reasons if reason in reasons]))
    last_call = max((at for at, kind in enumerate(kinds) if kind == "tool"), default=-1)
    cut = shape.cut and last_call == len(kinds) - 1 and reason in CUT_SHORT and draw(st.booleans())
    ids = draw(st.lists(call_ids, min_size=len(kinds), max_size=len(kinds), unique=True))
    blocks = [(kind, draw(_block(shape, kind, at, ids[at], cut and at == last_call))) for at, kind in enumerate(kinds)]
    body = _merge(draw, shape, blocks)
    if shape.pings:
        for at in draw(st.lists(st.integers(0, len(body)), max_size=2)):
            body.insert(at, Ping())
    usage = draw(st.none() | usages(whole=shape.whole_usage))
    stop = Stop(reason, sequence=draw(texts.filter(bool)) if reason is StopReason.STOP_SEQUENCE else None)
    refusal = None
    by_classifier = reason is StopReason.FILTERED and shape.origin == "messages"
    if (reason is StopReason.REFUSAL or by_classifier) and "refusal" not in kinds:
        explained = RefusalInfo(draw(st.none() | texts.filter(bool)), draw(st.none() | st.just("cyber")))
        refusal = draw(st.sampled_from((None, explained)))
    start_usage = Usage(input_total=usage.input_total) if usage is not None and draw(st.booleans()) else None
    late = usage is not None and draw(st.booleans())
    events: list[Event] = [
        Start(draw(reply_ids), draw(models), start_usage, draw(st.none() | st.integers(0, 2**31))),
        *body,
        Finish(stop, None if late else usage, refusal),
        End(usage if late else None),
    ]
    if shape.errors and draw(st.booleans()):
        events[draw(st.integers(0, len(events) - 1)) :] = [Error(draw(failures()))]
    return events

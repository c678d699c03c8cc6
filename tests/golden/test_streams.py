"""Golden transcripts: each recorded upstream stream in each direction, byte for byte.

    tests/golden/transcripts/<upstream>/<case>.sse               what the upstream sends
    tests/golden/streams/<client>_from_<upstream>/<case>.sse     what the client gets
                                              <case>.events  the canonical events in between
                                              <case>.losses  the losses; no file means no loss

`<case>+<variant>` is the same stream under another knob or profile. `DRAGOMAN_GOLDENS=write` rewrites the files; read
the difference as the client's SDK would.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from dragoman import Knobs, Profile, StreamMachine, Translation, direction
from dragoman.canonical.events import Error
from dragoman.errors import Failure
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from oracles.grammar import chat, messages, responses
from support import canonical
from support.paths import STREAMS, TRANSCRIPTS
from support.stages import some, some_of

WRITE = os.environ.get("DRAGOMAN_GOLDENS") == "write"
DIALECTS = ("chat", "messages", "responses")
UPSTREAMS = (*DIALECTS, "generate")
PAIRS = tuple((client, upstream) for client in DIALECTS for upstream in UPSTREAMS if client != upstream)
"""(client, upstream) of the cross directions."""
EVERY_PLACE = os.environ.get("DRAGOMAN_HYPOTHESIS") == "deep"
LAST_SEEN = Profile(usage_fallback="last_seen")


@dataclass(frozen=True, slots=True)
class Case:
    """One stream in one direction. `settings` are fields of the ReplyContext."""

    client: str
    upstream: str
    source: str
    variant: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.client}_from_{self.upstream}/{self.source}" + (f"+{self.variant}" if self.variant else "")

    @property
    def data(self) -> bytes:
        """The bytes that the upstream sends."""
        return (TRANSCRIPTS / self.upstream / f"{self.source}.sse").read_bytes()

    def golden(self, suffix: str) -> Path:
        return STREAMS / f"{self}.{suffix}"

    def translation(self) -> Translation:
        settings = {"include_usage": True, "input_estimate": 20, **BY_SOURCE.get(self.source, {}), **self.settings}
        way = direction(self.client, self.upstream)
        if way.client.restore_reasoning is not None:
            settings.setdefault("envelope", Envelope(self.upstream, "upstream-model"))
        context = ReplyContext("client-model", 1, "req_x", **settings)
        return Translation(way, b"", True, context, "upstream-model")


BY_SOURCE: dict[str, dict[str, Any]] = {
    "stop_words": {"stops": ("END", "STOP")},
    "stop_words_in_call": {"stops": ("END",)},
    "renamed_tool": {"names": {"mcp_files_read_1234abcd": "mcp.files/read"}},
}
OVERLAPPING = (
    ("messages", "chat", "two_tools"),
    ("messages", "chat", "content_after_tool"),
    ("messages", "responses", "two_tools"),
    ("messages", "responses", "text_beside_tool"),
    ("responses", "chat", "two_tools"),
    ("responses", "chat", "content_after_tool"),
    ("responses", "messages", "two_tools"),
)
VARIANTS = (
    *(Case(*names, "interleave", {"knobs": Knobs(block_order="interleave")}) for names in OVERLAPPING),
    Case("messages", "chat", "two_tools", "sequential", {"knobs": Knobs(block_order="sequential")}),
    Case("messages", "chat", "content_after_tool", "sequential", {"knobs": Knobs(block_order="sequential")}),
    Case("messages", "chat", "text", "upstream_name", {"knobs": Knobs(echo_model="upstream")}),
    Case("messages", "chat", "usage_on_finish_chunk", "last_seen", {"profile": LAST_SEEN}),
    Case("messages", "chat", "usage_on_every_chunk", "last_seen", {"profile": LAST_SEEN}),
    Case("messages", "chat", "usage_before_finish", "last_seen", {"profile": LAST_SEEN}),
    Case("chat", "messages", "refusal", "native", {"knobs": Knobs(refusal_terminal="native")}),
    Case("chat", "messages", "late_refusal", "native", {"knobs": Knobs(refusal_terminal="native")}),
    Case("chat", "messages", "refusal_after_call", "native", {"knobs": Knobs(refusal_terminal="native")}),
    Case("chat", "messages", "two_tools", "sequential", {"knobs": Knobs(block_order="sequential")}),
    Case("chat", "messages", "text", "upstream_name", {"knobs": Knobs(echo_model="upstream")}),
    Case("chat", "messages", "text", "no_usage_asked", {"include_usage": False}),
    Case("chat", "messages", "thinking_text_tool", "reasoning", {"knobs": Knobs(reasoning_field="reasoning")}),
    Case("chat", "messages", "thinking_text_tool", "both", {"knobs": Knobs(reasoning_field="both")}),
    Case("chat", "messages", "thinking_text_tool", "off", {"knobs": Knobs(reasoning_field="off")}),
    Case("responses", "messages", "refusal", "native", {"knobs": Knobs(refusal_terminal="native")}),
    Case("responses", "messages", "late_refusal", "native", {"knobs": Knobs(refusal_terminal="native")}),
    Case("responses", "messages", "refusal_after_call", "native", {"knobs": Knobs(refusal_terminal="native")}),
    Case("responses", "messages", "thinking_text_tool", "summary", {"knobs": Knobs(reasoning_surface="summary")}),
    Case("responses", "messages", "text", "upstream_name", {"knobs": Knobs(echo_model="upstream")}),
    Case("responses", "chat", "two_tools", "sequential", {"knobs": Knobs(block_order="sequential")}),
    Case("responses", "chat", "thinking_text_tool", "summary", {"knobs": Knobs(reasoning_surface="summary")}),
    Case("responses", "chat", "logprobs", "asked", {"logprobs": True}),
    Case("chat", "responses", "two_tools", "sequential", {"knobs": Knobs(block_order="sequential")}),
    Case("chat", "responses", "text", "no_usage_asked", {"include_usage": False}),
    Case("chat", "responses", "logprobs", "asked", {"logprobs": True}),
    Case("chat", "responses", "thinking_text_tool", "both", {"knobs": Knobs(reasoning_field="both")}),
    Case("messages", "responses", "text_beside_tool", "sequential", {"knobs": Knobs(block_order="sequential")}),
    Case("messages", "responses", "text", "upstream_name", {"knobs": Knobs(echo_model="upstream")}),
)


def sources(dialect: str) -> list[str]:
    return sorted(path.stem for path in (TRANSCRIPTS / dialect).glob("*.sse"))


CROSS = [Case(client, upstream, source) for client, upstream in PAIRS for source in sources(upstream)] + [*VARIANTS]
SAME = [Case(dialect, dialect, source) for dialect in DIALECTS for source in sources(dialect)]


def play(machine: StreamMachine, pieces: Iterable[bytes]) -> bytes:
    """Return the bytes that the driver would write. It stops reading as soon as a stage is done."""
    out = b""
    for piece in pieces:
        out += machine.feed(piece) or b""
        if machine.done:
            return out
    return out + (machine.finish() or b"")


def splits(case: Case) -> Iterator[tuple[str, list[bytes]]]:
    """Byte by byte, and in two: at forty places in the second stage, at nine in the first.

    With `DRAGOMAN_HYPOTHESIS=deep` at every place. Cuts anywhere are a law too: `properties/test_law_splits.py`.
    """
    data = case.data
    yield "byte by byte", [data[at : at + 1] for at in range(len(data))]
    places = range(1, len(data))
    for at in places if EVERY_PLACE else some(some_of(places, 40), 9):
        yield f"split at {at}", [data[:at], data[at:]]


def plain(value: Any) -> Any:
    """An event as JSON, without the fields that have their default and those that are never written to a client."""
    if is_dataclass(value):
        return {
            spec.name: plain(getattr(value, spec.name))
            for spec in fields(value)
            if not (isinstance(value, Failure) and spec.name == "reason")
            and (spec.default is MISSING or getattr(value, spec.name) != spec.default)
        }
    return str(value) if isinstance(value, Enum) else value


def events_of(case: Case) -> list[Any]:
    """The events that reach the client's writer, one by one."""
    return list(case.translation().events([case.data]))


def compare(path: Path, found: bytes) -> None:
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(found) if found or path.suffix == ".sse" else path.unlink(missing_ok=True)
    expected = path.read_bytes() if path.exists() else b""
    assert found.decode() == expected.decode(), f"differs from {path.relative_to(STREAMS)}"


@pytest.mark.every_row
@pytest.mark.parametrize("case", CROSS, ids=str)
def test_golden(case: Case) -> None:
    translation = case.translation()
    out = play(translation.stream_machine(), [case.data])
    compare(case.golden("sse"), out)
    context = translation.context
    rows = "".join(f"{loss.code} {loss.path}: {loss.done}\n" for loss in context.losses.rows)
    compare(case.golden("losses"), rows.encode())
    if case.client == "chat":
        accumulated = chat.check(out, include_usage=context.include_usage, logprobs=context.logprobs)
    elif case.client == "messages":
        accumulated = messages.check(out, overlapping=case.variant == "interleave")
    else:
        accumulated = responses.check(out, own=case.upstream != "responses")
    assert (accumulated.error is None) is (context.failure is None)
    assert b"upstream-model" not in out or case.variant == "upstream_name"


@pytest.mark.every_row
@pytest.mark.parametrize("case", CROSS, ids=str)
def test_golden_events(case: Case) -> None:
    events = events_of(case)
    rows = [json.dumps({"event": type(event).__name__, **plain(event)}, ensure_ascii=False) for event in events]
    lines = "".join(row + "\n" for row in rows).encode("utf-8", "backslashreplace")
    compare(case.golden("events"), lines)
    canonical.check(events)
    assert all(not isinstance(event, Error) for event in events[:-1])


@pytest.mark.law
@pytest.mark.parametrize("case", CROSS, ids=str)
def test_T71_any_split_of_the_source_makes_the_same_bytes(case: Case) -> None:
    translation = case.translation()
    whole = play(translation.stream_machine(), [case.data])
    for how, pieces in splits(case):
        again = case.translation()
        assert play(again.stream_machine(), pieces) == whole, how
        assert again.losses.rows == translation.losses.rows, how
        assert again.context.usage == translation.context.usage, how


@pytest.mark.law
@pytest.mark.every_row
@pytest.mark.parametrize("case", SAME, ids=str)
def test_same_dialect_is_forwarded_byte_for_byte(case: Case) -> None:
    """Only the model's name changes; a stream that was cut is given its dialect's error (the golden of such a case)."""
    data = case.data
    out = play(case.translation().stream_machine(), [data])
    renamed = data.replace(b'"upstream-model"', b'"client-model"')
    if WRITE and out == renamed:
        case.golden("sse").unlink(missing_ok=True)
    elif out != renamed or case.golden("sse").exists():
        compare(case.golden("sse"), out)
    unrenamed = case.translation()
    unrenamed.upstream_model = "client-model"
    bare = play(unrenamed.stream_machine(), [data])
    # A failed response of ours has no name of a model, if the upstream sent none.
    bare = bare.replace(b'"model":""', b'"model":"client-model"')
    assert bare.replace(b'"upstream-model"', b'"client-model"') == out
    for how, pieces in splits(case):
        assert play(case.translation().stream_machine(), pieces) == out, how


def test_no_golden_is_left_over() -> None:
    known = {str(case) for case in [*CROSS, *SAME]}
    files = {str(path.relative_to(STREAMS).with_suffix("")) for path in STREAMS.glob("*_from_*/*")}
    assert files <= known
    assert {str(case) for case in CROSS} <= files

"""A stream whose counts were requested for the caller reaches the client as if no one had requested them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Dialect, translate
from dragoman.canonical.events import Usage
from dragoman.dialects.chat.stream.observer import ChatObserver
from dragoman.dialects.chat.stream.usage_remover import UsageRemover
from dragoman.gateway import DIRECTIONS, ReplyOptions
from dragoman.reply_context import ReplyContext
from dragoman.stages.passthrough import Passthrough
from dragoman.wire.json_edit import JsonStringRewriter
from support.strategies import splits, texts

COUNTS = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
DONE = "[DONE]"


class Style(NamedTuple):
    """The form of a server's chunks."""

    spaced: bool = False
    line_end: str = "\n"
    first: bool = False
    """True if `usage` is the first member of a chunk."""
    nulls: bool = True
    padded: bool = False
    lines: bool = False
    """True if a chunk is on several lines."""
    comment: bool = False


def written(style: Style, payload: dict[str, Any], usage: Any) -> str:
    if usage is not None or (style.nulls and usage is None):
        payload = {"usage": usage, **payload} if style.first else {**payload, "usage": usage}
    if style.padded:
        payload["obfuscation"] = "aB3"
    separators = (", ", ": ") if style.spaced else (",", ":")
    return json.dumps(payload, separators=separators)


def stream(style: Style, payloads: list[dict[str, Any]], *, requested: bool) -> bytes:
    out = []
    for payload in payloads:
        usage: Any = None
        if payload.get("counts"):
            if not requested:
                continue
            payload, usage = {"id": "c", "model": "up", "choices": []}, COUNTS
        text = written(style if requested else style._replace(nulls=False), payload, usage)
        # A server that writes a chunk on several lines breaks it where both forms of the chunk have a line end.
        data = text.replace('"choices"', '\ndata: "choices"', 1) if style.lines else text
        out.append(("event: x\n: c\n" if style.comment else "") + f"data: {data}\n\n")
    return "".join([*out, f"data: {DONE}\n\n"]).replace("\n", style.line_end).encode()


def chunk(text: str | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {"role": "assistant"} if text is None else {"role": "assistant", "content": text}
    return {"id": "c", "model": "up", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def play(stage: Passthrough, pieces: list[bytes]) -> bytes:
    out = b""
    for piece in pieces:
        out += stage.feed(piece)
        if stage.done:
            return out
    return out + stage.finish()


def stages(model: str | None) -> tuple[UsageRemover, Passthrough]:
    def renamer() -> JsonStringRewriter | None:
        return JsonStringRewriter(model, ("model",)) if model is not None else None

    return (
        UsageRemover(ChatObserver(), ReplyContext("m", request_id="req_1"), renamer()),
        Passthrough(ChatObserver(), ReplyContext("m", request_id="req_1"), renamer()),
    )


styles = st.builds(
    Style,
    st.booleans(),
    st.sampled_from(("\n", "\r\n", "\r")),
    *[st.booleans() for _ in range(5)],
)
contents = st.lists(texts | st.sampled_from((',"usage":null}', '"usage"', "usage", '\\"usage\\": null')), max_size=6)


@given(styles, contents, st.sampled_from((None, "mine")), st.booleans(), st.data())
def test_the_client_gets_the_bytes_of_an_upstream_that_was_not_requested_to_count(
    style: Style, parts: list[str], model: str | None, cut: bool, data: st.DataObject
) -> None:
    payloads = [chunk(text) for text in parts]
    # An object of the same name further down stays.
    payloads += [chunk("x", timings={"usage": None}), chunk(None, "stop"), {"counts": True}]
    sent = stream(style, payloads, requested=True)
    plain = stream(style, payloads, requested=False)
    if cut:  # after a number of whole chunks
        count = data.draw(st.integers(0, len(payloads)))
        blank = style.line_end * 2
        sent = b"".join(part + blank.encode() for part in sent.split(blank.encode())[:count])
        plain = b"".join(part + blank.encode() for part in plain.split(blank.encode())[: min(count, len(payloads) - 1)])
    remover, forwarder = stages(model)
    pieces = data.draw(splits(sent))
    assert play(remover, pieces) == play(forwarder, [plain] if plain else [])
    assert remover.observer.usage == (Usage(12, None, None, 5) if count_seen(sent) else None)
    assert remover.done == forwarder.done
    assert remover.observer.complete == forwarder.observer.complete


def count_seen(sent: bytes) -> bool:
    return b'"prompt_tokens"' in sent


@pytest.mark.parametrize("size", range(7, 200, 7))
def test_a_stream_that_is_cut_within_the_counts_is_complete(size: int) -> None:
    style = Style()
    plain = stream(style, [chunk("a"), chunk(None, "stop")], requested=False).removesuffix(b"data: [DONE]\n\n")
    sent = stream(style, [chunk("a"), chunk(None, "stop"), {"counts": True}], requested=True)
    start = sent.index(b'data: {"id":"c","model":"up","choices":[]')
    remover, _ = stages(None)
    assert play(remover, [sent[: min(start + size, len(sent) - 16)]]) == plain


def test_counts_on_a_chunk_with_choices_stay() -> None:
    whole = b"".join(
        b"data: " + json.dumps(each).encode() + b"\n\n" for each in (chunk("a"), chunk(None, "stop", usage=COUNTS))
    )
    remover, _ = stages(None)
    assert play(remover, [whole + b"data: [DONE]\n\n"]) == whole + b"data: [DONE]\n\n"
    assert remover.observer.usage is not None


def test_frames_without_json_stay() -> None:
    remover, _ = stages(None)
    comment = b': a comment with "usage"\n\n'
    assert play(remover, [comment + stream(Style(), [chunk("a", "stop")], requested=True)]).startswith(comment)


def test_a_translation_removes_what_it_requested_and_knows_the_counts() -> None:
    body = json.dumps({"model": "up", "messages": [], "stream": True}).encode()
    translation = translate(DIRECTIONS[Dialect.CHAT, Dialect.CHAT], body, options=ReplyOptions(request_usage=True))
    machine = translation.stream_machine()
    payloads = [chunk("a"), chunk(None, "stop"), {"counts": True}]
    out = machine.feed(stream(Style(), payloads, requested=True)) + machine.finish()
    assert out == stream(Style(), payloads, requested=False)
    assert translation.usage_and_estimates() == (Usage(12, None, None, 5), ())
    assert translation.stage_names() == ["UsageRemover"]

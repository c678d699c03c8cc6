"""Content of the history that an upstream does not take becomes a text; that of the user's latest turn is a 400."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from dragoman.errors import ClientRequestError, Unsupported
from dragoman.losses import LossCode
from support.canonical_turns import PNG, translated

DIALECTS = ("chat", "messages", "responses")
DIRECTIONS = list(product(DIALECTS, DIALECTS))
PDF = "JVBERi0xLjcK"
TEXT_ONLY = {"images": False, "pdf": False, "rewrite": True}

Json = dict[str, Any]


def chat(kind: str) -> Json:
    parts: dict[str, Json] = {
        "image": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        "pdf": {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
        "broken": {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
        "unknown": {"type": "hologram", "hologram": {}},
        "text": {"type": "text", "text": "see"},
    }
    return parts[kind]


def messages(kind: str) -> Json:
    parts: dict[str, Json] = {
        "image": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        "pdf": {
            "type": "document",
            "title": "a.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        },
        "broken": {"type": "image", "source": {"type": "base64", "media_type": "image/png"}},
        "unknown": {"type": "hologram", "hologram": {}},
        "text": {"type": "text", "text": "see"},
    }
    return parts[kind]


def responses(kind: str) -> Json:
    parts: dict[str, Json] = {
        "image": {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        "pdf": {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        "broken": {"type": "input_image", "image_url": "data:image/png;base64,"},
        "unknown": {"type": "input_hologram", "hologram": {}},
        "text": {"type": "input_text", "text": "see"},
    }
    return parts[kind]


PARTS: dict[str, Callable[[str], Json]] = {"chat": chat, "messages": messages, "responses": responses}


def history(dialect: str, old: Json | None, result: Json | None, new: Json | None) -> Json:
    """A conversation with these parts in its first turn, in a tool's result, and in the latest turn."""
    see = PARTS[dialect]("text")
    first, found, last = ([see, part] if part else [see] for part in (old, result, new))
    ends = [{"role": "user", "content": last}] if new else []
    if dialect == "chat":
        call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        turns = [
            {"role": "user", "content": first},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": found},
        ]
        return {"model": "m", "messages": [*turns, *ends]}
    if dialect == "messages":
        turns = [
            {"role": "user", "content": first},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": found}]},
        ]
        return {"model": "m", "max_tokens": 9, "messages": [*turns, *ends]}
    turns = [
        {"role": "user", "content": first},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": found},
    ]
    return {"model": "m", "input": [*turns, *ends]}


@pytest.mark.parametrize("place", ["earlier turn", "result"])
@pytest.mark.parametrize("kind", ["image", "pdf", "broken", "unknown"])
@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
def test_a_part_of_the_history_becomes_a_text(client: str, upstream: str, kind: str, place: str) -> None:
    """T-41: one picture in the history ended the session."""
    part = PARTS[client](kind)
    body = history(client, part, None, None) if place == "earlier turn" else history(client, None, part, None)
    sent, made = translated(client, upstream, body, flags=TEXT_ONLY)
    text = json.dumps(sent)
    assert "left out: " in text
    assert PNG not in text
    assert PDF not in text
    assert made.losses.counts[LossCode.CONTENT_REPLACED] == 1
    assert ("[file a.pdf left out: " in text) is (kind == "pdf")


@pytest.mark.parametrize("kind", ["image", "pdf", "broken", "unknown"])
@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
def test_a_part_of_the_latest_turn_is_rejected(client: str, upstream: str, kind: str) -> None:
    with pytest.raises(ClientRequestError):
        translated(client, upstream, history(client, None, None, PARTS[client](kind)), flags=TEXT_ONLY)


@pytest.mark.parametrize("place", ["earlier turn", "result"])
@pytest.mark.parametrize("kind", ["image", "pdf", "broken", "unknown"])
@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
def test_losses_that_are_rejected_reject_it(client: str, upstream: str, kind: str, place: str) -> None:
    part = PARTS[client](kind)
    body = history(client, part, None, None) if place == "earlier turn" else history(client, None, part, None)
    with pytest.raises(ClientRequestError) as caught:
        translated(client, upstream, body, flags=TEXT_ONLY, on_loss="reject")
    assert (caught.value.failure.param or "").startswith(("messages[", "input["))


@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
def test_a_final_assistant_turn_does_not_make_history_of_the_users_picture(client: str, upstream: str) -> None:
    body = history(client, None, None, PARTS[client]("image"))
    turns = body.get("messages") or body["input"]
    turns.append({"role": "assistant", "content": "It shows"})
    with pytest.raises(ClientRequestError):
        translated(client, upstream, body, flags=TEXT_ONLY)


@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
def test_an_upstream_that_takes_them_gets_them(client: str, upstream: str) -> None:
    body = history(client, PARTS[client]("image"), PARTS[client]("image"), PARTS[client]("image"))
    sent, made = translated(client, upstream, body, flags={"rewrite": True})
    assert json.dumps(sent).count(PNG) == 3
    assert "content_replaced" not in made.losses.counts


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_route_that_passes_through_is_rewritten_for_a_picture_that_is_not_taken(dialect: str) -> None:
    body = history(dialect, PARTS[dialect]("image"), None, PARTS[dialect]("text"))
    sent, made = translated(dialect, dialect, body, flags={"images": False})
    assert PNG not in json.dumps(sent)
    assert made.losses.counts[LossCode.CONTENT_REPLACED] == 1
    plain = history(dialect, None, None, PARTS[dialect]("text"))
    _, made = translated(dialect, dialect, plain, flags={"images": False})
    assert not made.rewritten
    assert made.body == json.dumps(plain).encode()


@pytest.mark.parametrize("upstream", DIALECTS)
def test_a_document_keeps_its_texts(upstream: str) -> None:
    inner = [{"type": "text", "text": "before"}, messages("image"), {"type": "text", "text": "after"}]
    document = {"type": "document", "source": {"type": "content", "content": inner}}
    sent, made = translated("messages", upstream, history("messages", None, document, None), flags=TEXT_ONLY)
    text = json.dumps(sent)
    assert text.index("before") < text.index("[image left out: ") < text.index("after")
    assert made.losses.counts[LossCode.CONTENT_REPLACED] == 1


@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
def test_an_unknown_part_of_the_assistant_becomes_a_text(client: str, upstream: str) -> None:
    body = history(client, None, None, PARTS[client]("text"))
    turns = body.get("messages") or body["input"]
    turns.insert(1, {"role": "assistant", "content": [{"type": "hologram"}]})
    sent, made = translated(client, upstream, body, flags={"rewrite": True})
    assert "[content left out: " in json.dumps(sent)
    assert made.losses.counts[LossCode.CONTENT_REPLACED] == 1


@pytest.mark.parametrize("upstream", DIALECTS)
def test_audio_of_an_earlier_reply_becomes_a_text(upstream: str) -> None:
    body = history("chat", None, None, chat("text"))
    body["messages"].insert(1, {"role": "assistant", "content": "said", "audio": {"id": "audio_1"}})
    sent, made = translated("chat", upstream, body, flags={"rewrite": True})
    assert "[content left out: audio of an earlier reply" in json.dumps(sent)
    assert made.losses.counts[LossCode.CONTENT_REPLACED] == 1


RECORDINGS: list[Json] = [
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
]


@pytest.mark.parametrize("recording", RECORDINGS, ids=["audio", "video"])
@pytest.mark.parametrize("upstream", ["messages", "responses"])
def test_a_recording_of_an_earlier_turn_becomes_a_text(upstream: str, recording: Json) -> None:
    sent, made = translated("chat", upstream, history("chat", recording, None, None))
    kind = "audio" if "audio" in recording["type"] else "video"
    assert f"[{kind} left out: {kind} cannot be sent to this upstream" in json.dumps(sent)
    assert made.losses.counts[LossCode.CONTENT_REPLACED] == 1
    with pytest.raises(Unsupported, match=kind):
        translated("chat", upstream, {"model": "m", "messages": [{"role": "user", "content": [recording]}]})


@pytest.mark.parametrize("recording", RECORDINGS, ids=["audio", "video"])
def test_a_rewritten_chat_request_keeps_its_recordings(recording: Json) -> None:
    sent, made = translated("chat", "chat", history("chat", recording, None, None), flags={"rewrite": True})
    assert recording in sent["messages"][0]["content"]
    assert LossCode.CONTENT_REPLACED not in made.losses.counts


@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
def test_a_part_that_was_replaced_leaves_no_garbage(client: str, upstream: str) -> None:
    """The traceback of its error has the frames of the reader and the writer, which hold the request."""
    part = PARTS[client]("unknown")
    body = history(client, part, part, PARTS[client]("text"))
    translated(client, upstream, body, flags={"rewrite": True})
    gc.collect()
    gc.disable()
    try:
        translated(client, upstream, body, flags={"rewrite": True})
        assert gc.collect() == 0
    finally:
        gc.enable()

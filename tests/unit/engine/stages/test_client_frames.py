"""Frames that the client gets in place of the upstream's: the model's name, and errors."""

from __future__ import annotations

import json

import pytest

from dragoman.canonical.events import Delta
from dragoman.dialects.chat.stream.observer import ChatObserver
from dragoman.errors import Failure, FailureKind
from dragoman.reply_context import ReplyContext
from dragoman.stages.client_frames import ClientFrames
from dragoman.wire.delta_template import VaryingKeys, learn
from dragoman.wire.json_edit import JsonStringRewriter
from dragoman.wire.sse import Frame

KEY = "sk-proj-abcdefghijklmnopqrstuvwx"
CUT = Failure(FailureKind.API, "upstream stream ended", 502)


def frames(observer: ChatObserver | None = None, *, own_key: str = "") -> ClientFrames:
    context = ReplyContext("client", secrets=(KEY,), own_key=own_key)
    return ClientFrames(observer or ChatObserver(), context, JsonStringRewriter("client", ("model",)))


def message(data: bytes) -> str:
    found: str = json.loads(data.removeprefix(b"data: "))["error"]["message"]
    return found


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_only_the_name_of_the_model_is_replaced(end: bytes) -> None:
    data = b': up\n\nevent: x\ndata: {"model":"up",\ndata: "text":"up"}\n\ndata: {"up":1}\n\n'.replace(b"\n", end)
    assert frames().rename(data) == data.replace(b'"model":"up"', b'"model":"client"')


@pytest.mark.parametrize(
    ("payload", "renamed"),
    [(b'{"model":"up","text":"Hi"}', b'data: {"model":"client","text":'), (b'{"text":"Hi"}', None)],
)
def test_the_heads_of_a_template_are_those_before_its_text(payload: bytes, renamed: bytes | None) -> None:
    client = frames()
    template = learn(b"", payload, Delta(0, "Hi"), VaryingKeys())
    assert template is not None
    assert client.note_heads(template, payload)
    assert client.heads == ((template.before, renamed) if renamed is not None else None)


def test_a_template_with_a_name_behind_its_text_has_no_heads() -> None:
    client = frames()
    payload = b'{"model":"up","text":"Hi","model":"up"}'
    template = learn(b"", payload, Delta(0, "Hi"), VaryingKeys())
    assert template is not None
    assert not client.note_heads(template, payload)
    assert client.heads is None


def test_the_error_of_the_upstream_is_the_reason_and_has_no_secrets() -> None:
    observer = ChatObserver()
    assert message(frames(observer).error(CUT)) == "upstream stream ended"
    observer.failure = Failure(FailureKind.OVERLOADED, f"no room for {KEY}", 503)
    written = frames(observer).error(CUT)
    assert message(written).startswith("no room for ")
    assert KEY.encode() not in written


def test_an_error_frame_is_forwarded_unless_it_has_a_secret() -> None:
    observer = ChatObserver()
    observer.failure = Failure(FailureKind.OVERLOADED, "no room", 503)
    assert frames(observer).redacted(Frame("", b'{"error":{"message":"no room"}}')) is None
    clean = frames(observer).redacted(Frame("", b'{"error":{"message":"no room for %b"}}' % KEY.encode()))
    assert clean is not None
    assert message(clean).startswith("no room for ")
    assert KEY.encode() not in clean


def test_an_error_about_the_callers_key_is_replaced() -> None:
    observer = ChatObserver()
    observer.failure = Failure(FailureKind.AUTHENTICATION, "invalid key", 401)
    shown = frames(observer, own_key="vendor").redacted(Frame("", b'{"error":{"message":"invalid key"}}'))
    assert shown is not None
    assert "vendor" in message(shown)

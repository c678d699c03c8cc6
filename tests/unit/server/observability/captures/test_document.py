"""The file of a capture."""

from __future__ import annotations

import pytest

from dragoman.dialects import Dialect
from dragoman_server.observability.captures.document import body_of, pieces_of
from dragoman_server.observability.captures.recording import Pieces
from dragoman_server.observability.captures.store import Capture
from support.recordings import capture_of, recorded
from support.samples import TEXT, text_stream

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES


def reply_of(capture: Capture) -> dict[str, object]:
    return dict(capture.exchange["attempts"][0]["reply"])


def test_a_body_is_text_or_base64_and_can_be_cut_into_its_reads() -> None:
    pieces = [b"data: \xc3", b"\xa9\n\n", b"\xff\xfe"]
    for count in (2, 3):
        capture = capture_of(recorded(CHAT, CHAT, pieces[:count]))
        reply = reply_of(capture)
        assert ("text" in reply) is (count == 2)
        assert pieces_of(reply, "reads") == pieces[:count]
        assert body_of(reply) == b"".join(pieces[:count])


@pytest.mark.parametrize("texts", [False, True])
def test_secrets_are_masked_with_texts_and_without(texts: bool) -> None:
    secret = "canary-secret-7f3a"
    frame = b'data: {"id":"%b","choices":[{"index":0,"delta":{"content":"my %b"}}]}\n\n' % (
        secret.encode(),
        secret.encode(),
    )
    made = recorded(CHAT, CHAT, [frame[:40], frame[40:]], secrets=(secret,), user=secret)
    made.wrote(frame)
    capture = capture_of(made, texts=texts)
    assert secret not in str(capture)
    assert [length for _, length in capture.exchange["attempts"][0]["reply"]["reads"]] == [40, len(frame) - 40]
    assert ("my ***" in str(capture)) is texts
    assert capture.exchange["replay"]["masks"] == [len(secret)]
    assert capture.exchange["attempts"][0]["request"]["headers"] == [["x-api-key", "***"]]


def test_texts_are_kept_only_if_they_are_asked_for() -> None:
    made = recorded(MESSAGES, CHAT, text_stream(CHAT))
    assert TEXT[:5] in str(capture_of(made))
    assert TEXT[:5] not in str(capture_of(made, texts=False))


def test_a_body_of_an_attempt_that_does_not_fit_is_marked() -> None:
    made = recorded(CHAT, MESSAGES, [b"x"], limit=100)
    capture = capture_of(made)
    assert capture.summary["truncated"]
    request = capture.exchange["attempts"][0]["request"]
    assert request["truncated"]
    assert request["bytes"] > len(body_of(request))
    assert isinstance(made.reply, Pieces)


def test_a_body_that_was_omitted_has_its_type() -> None:
    made = recorded(CHAT, CHAT, [])
    made.attempts[0].reply.omitted = f"audio/sk-canary-key-7f3a2b{'x' * 300}"
    made.attempts[0].reply.add(b"123", 1.0)
    made.request_omitted = "multipart/form-data"
    capture = capture_of(made)
    reply = reply_of(capture)
    assert (reply["bytes"], reply["text"], reply["reads"], reply["truncated"]) == (3, "", [], True)
    assert "canary-key" not in str(reply["omitted"])
    assert len(str(reply["omitted"])) <= 200
    assert capture.exchange["client"]["request"]["omitted"] == "multipart/form-data"
    assert "omitted" not in capture.exchange["client"]["reply"]


def test_an_exchange_that_was_forwarded_has_nothing_for_a_replay() -> None:
    made = recorded(CHAT, CHAT, [])
    assert capture_of(made).exchange["replay"] is not None
    made.endpoint = "embeddings"
    assert capture_of(made).exchange["replay"] is None

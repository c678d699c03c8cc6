"""Captured exchanges, translated again. The law over real sockets is in e2e/test_captures.py."""

from __future__ import annotations

import json

import pytest

from dragoman import DragomanError, Failure
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.errors import FailureKind, StreamTruncated, UpstreamUnreachable
from dragoman_server.observability.captures.replay import (
    NotReplayable,
    captured_upstream_reply,
    captured_upstream_request,
    replay,
)
from support.recordings import JSON_TYPE, capture_of, recorded
from support.samples import error_frame, judge, read_error, reply, text_stream, tool_stream

CHAT, MESSAGES, RESPONSES, *_ = Dialect


@pytest.mark.parametrize("upstream", tuple(Dialect), ids=str)
@pytest.mark.parametrize("to", CLIENT_DIALECTS, ids=str)
async def test_a_reply_can_be_translated_for_another_client(upstream: Dialect, to: Dialect) -> None:
    for pieces in (text_stream(upstream), tool_stream(upstream)):
        for texts in (True, False):
            capture = capture_of(recorded(CHAT, upstream, pieces), texts=texts)
            replayed = await replay(capture, to)
            assert replayed.status == 200
            if to is not upstream:
                judge(to, replayed.body)
    body = [json.dumps(reply(upstream)).encode()]
    whole = capture_of(recorded(CHAT, upstream, body, headers=JSON_TYPE, stream=False))
    assert json.loads((await replay(whole, to)).body)


async def test_failures_are_those_of_the_capture() -> None:
    cut = StreamTruncated("upstream connection broke").failure
    begun = text_stream(MESSAGES)[:3]
    replayed = await replay(capture_of(recorded(CHAT, MESSAGES, begun, error=cut)))
    assert b"upstream connection broke" in replayed.body
    away = capture_of(recorded(RESPONSES, MESSAGES, None, error=UpstreamUnreachable("no route").failure, stream=False))
    replayed = await replay(away)
    assert replayed.status == 502
    assert "no route" in read_error(RESPONSES, replayed.body).message
    with pytest.raises(NotReplayable, match="did not reply"):
        captured_upstream_reply(away)
    broken = Failure(FailureKind.API, "cut off", 502)
    whole = recorded(CHAT, MESSAGES, [b"{"], headers=JSON_TYPE, error=broken, stream=False)
    assert (await replay(capture_of(whole))).status == 502
    refused = recorded(CHAT, MESSAGES, [b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}'],
                       status=429, headers=JSON_TYPE, stream=False)  # fmt: skip
    replayed = await replay(capture_of(refused))
    assert replayed.status == 429


async def test_an_error_about_the_gateways_own_key_is_that_of_the_capture() -> None:
    wrong = [b'{"type":"error","error":{"type":"authentication_error","message":"wrong"}}']
    capture = capture_of(recorded(CHAT, MESSAGES, wrong, status=401, headers=JSON_TYPE, stream=False))
    assert (await replay(capture)).status == 401
    capture.exchange["replay"]["own_key"] = "up"
    assert (await replay(capture)).status == 502
    del capture.exchange["replay"]["own_key"]  # of an earlier version
    assert (await replay(capture)).status == 401


async def test_a_failure_after_an_early_start_is_in_the_stream() -> None:
    capture = capture_of(recorded(CHAT, MESSAGES, [error_frame(MESSAGES)]))
    replayed = await replay(capture)
    assert replayed.status == 200
    assert replayed.body.startswith(b"data: ")
    capture.exchange["client"]["reply"]["status"] = 529
    replayed = await replay(capture)
    assert replayed.status >= 500
    assert replayed.body.startswith(b"{")


async def test_what_cannot_be_replayed_is_named() -> None:
    complete = capture_of(recorded(CHAT, MESSAGES, text_stream(MESSAGES)))
    assert json.loads(captured_upstream_request(complete))["model"] == "up-m"
    complete.exchange["attempts"] = []
    with pytest.raises(NotReplayable, match="not sent upstream"):
        await replay(complete)
    with pytest.raises(NotReplayable, match="truncated"):
        await replay(capture_of(recorded(CHAT, MESSAGES, [b"x" * 500], limit=300)))
    with pytest.raises(NotReplayable, match="disconnected"):
        await replay(capture_of(recorded(CHAT, MESSAGES, None)))
    untranslated = capture_of(recorded(CHAT, MESSAGES, []))
    untranslated.exchange["replay"] = None
    with pytest.raises(NotReplayable, match="not translated"):
        await replay(untranslated)


async def test_a_request_that_is_rejected_now_raises() -> None:
    capture = capture_of(recorded(CHAT, MESSAGES, text_stream(MESSAGES)))
    capture.exchange["client"]["request"]["text"] = '{"model": 5}'
    with pytest.raises(DragomanError, match="model"):
        await replay(capture)


async def test_fields_of_other_versions_are_ignored() -> None:
    capture = capture_of(recorded(CHAT, MESSAGES, text_stream(MESSAGES)))
    before = await replay(capture)
    for table in ("profile", "knobs", "limits"):
        capture.exchange["replay"][table]["of_a_later_version"] = 1
    del capture.exchange["replay"]["knobs"]["on_loss"]
    assert (await replay(capture)).body == before.body


async def test_the_clock_is_read_again() -> None:
    made = recorded(RESPONSES, CHAT, text_stream(CHAT))
    assert made.readings is not None
    made.readings.values += [1000.5, 2000.5]
    assert b'"completed_at":2000' in (await replay(capture_of(made))).body

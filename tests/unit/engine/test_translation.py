"""The public methods of a translation in all directions: streams, in-band errors, responses, headers, events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Dialect, Direction, Failure, Knobs, Translation, builtin_profile, error_response
from dragoman.canonical.events import Delta, Error, TextRun
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import CLIENT_DIALECTS, PromptDigest, TokenCounter, read_error
from oracles.grammar import chat
from oracles.grammar.accumulated import Accumulated
from support.directions import ALL, judge, translated
from support.samples import text_stream

FAILURE = Failure(FailureKind.TIMEOUT, "nothing for 5 s; the key was sk-secret-1", 504, origin=FailureOrigin.UPSTREAM)
EVERY = pytest.mark.parametrize("row", ALL, ids=str)


def chunks(row: Direction) -> list[bytes]:
    """The frames of a stream of the upstream that has some text; without token counts where they pass through Chat."""
    return text_stream(row.upstream.dialect, counted=not unchanged_chat(row))


def unchanged_chat(row: Direction) -> bool:
    return row.passthrough and row.client.dialect is Dialect.CHAT


def judged(row: Direction, data: bytes) -> Accumulated:
    if unchanged_chat(row):
        return chat.check(data, include_usage=False)
    return judge(row.client.dialect, data, own=not row.passthrough)


def fed(translation: Translation, data: list[bytes]) -> tuple[Any, bytes]:
    machine = translation.stream_machine()
    return machine, b"".join(map(machine.feed, data))


def ended(translation: Translation, data: list[bytes]) -> tuple[Any, bytes]:
    """As `fed`, with the end of the connection if nothing else ends a stream of the upstream."""
    machine, out = fed(translation, data)
    closed = not translation.direction.upstream.dialect.facts.last_events
    return machine, out + (machine.finish() if closed else b"")


@EVERY
def test_a_machine_is_done_with_the_terminal_event_and_knows_the_usage(row: Direction) -> None:
    machine, out = ended(translated(row), chunks(row))
    assert machine.done
    assert machine.failure is None
    assert unchanged_chat(row) or (machine.usage is not None and machine.usage.output_total)
    assert judged(row, out).error is None
    assert (machine.feed(b"data: {}\n\n"), machine.finish(), machine.fail(FAILURE)) == (b"", b"", b"")


@EVERY
@pytest.mark.parametrize("count", [0, 2, 5])
def test_fail_ends_a_running_stream_in_an_error_of_the_clients_dialect(row: Direction, count: int) -> None:
    if row.passthrough and row.client.dialect is Dialect.RESPONSES and count != 2:
        pytest.skip("our error repeats the items that the upstream has finished, and needs its first event")
    translation = translated(row)
    translation.context.secrets = ("sk-secret-1",)
    machine, out = fed(translation, chunks(row)[:count])
    tail = machine.fail(FAILURE)
    found = judged(row, out + tail)
    assert found.error is not None
    assert "nothing for 5 s" in json.dumps(found.error)
    assert b"sk-secret-1" not in tail
    assert machine.done
    assert translation.failure is not None
    assert translation.failure.kind is FailureKind.TIMEOUT
    assert machine.fail(FAILURE) == b""


@EVERY
def test_events_are_one_for_each_text_and_end_a_cut_stream_in_an_error(row: Direction) -> None:
    data = b"".join(chunks(row))
    events = list(translated(row).events([data[:100], data[100:]]))
    assert type(events[-1]).__name__ == "End"
    assert not any(isinstance(event, TextRun) for event in events)
    text = "".join(event.text for event in events if isinstance(event, Delta))
    assert text
    found = judged(row, ended(translated(row), chunks(row))[1])
    assert found.text == text
    assert isinstance(list(translated(row).events(chunks(row)[:3]))[-1], Error)


@EVERY
def test_an_upstreams_error_becomes_the_clients_response(row: Direction) -> None:
    headers = {"Retry-After": "7", "Set-Cookie": "a=b", "Content-Length": "3"}
    translation = translated(row)
    translation.context.secrets = ("sk-secret-1",)
    response = translation.error(
        429, b'{"error":{"message":"slow down, sk-secret-1","type":"rate_limit_error"}}', headers
    )
    assert response.status == 429
    assert response.failure.kind is FailureKind.RATE_LIMIT
    assert translation.failure is response.failure
    assert response.headers["retry-after"] == "7"
    assert response.headers[row.client.dialect.request_id_header] == "req_1"
    assert not {"set-cookie", "content-length"} & set(map(str.lower, response.headers))
    message = json.loads(response.body)["error"]["message"]
    assert message.startswith("slow down")
    assert "secret" not in message
    # The client's own reader finds the error again, as its SDK would.
    assert read_error(row.client.dialect, 429, response.body, {}).kind is FailureKind.RATE_LIMIT


@EVERY
def test_a_failure_without_a_response_becomes_one(row: Direction) -> None:
    response = translated(row).error_of(FAILURE)
    assert response.status == 504
    assert read_error(row.client.dialect, 504, response.body, {}).kind is FailureKind.TIMEOUT
    assert response.headers[row.client.dialect.request_id_header] == "req_1"


@EVERY
def test_a_page_of_html_becomes_an_error_of_the_clients_dialect(row: Direction) -> None:
    response = translated(row).error(503, b"<html><title>Bad gateway</title></html>", {})
    assert response.status == error_response(row.client.dialect, response.failure).status or row.passthrough
    assert "Bad gateway" in json.loads(response.body)["error"]["message"]


@EVERY
def test_reply_headers_are_those_of_the_clients_dialect(row: Direction) -> None:
    limit = "anthropic-ratelimit-requests-limit" if row.upstream.dialect == "messages" else "x-ratelimit-limit-requests"
    there = {row.upstream.dialect.request_id_header: "req_up", limit: "50", "server": "x", "connection": "close"}
    found = translated(row).reply_headers(there, now=1_790_000_000)
    wanted = "anthropic-ratelimit-requests-limit" if row.client.dialect == "messages" else "x-ratelimit-limit-requests"
    if row.upstream.dialect.facts.limits is None:  # it sends neither limits nor an id
        assert found == translated(row).reply_headers({})
        return
    assert found == {row.client.dialect.request_id_header: "req_up", wanted: "50"}
    assert translated(row).reply_headers({}) == {row.client.dialect.request_id_header: "req_1"}


@EVERY
def test_a_recorded_reply_is_translated_without_its_request(row: Direction) -> None:
    profile = builtin_profile(row.upstream.dialect)
    translation = Translation.for_reply(row, "up", model="mine", profile=profile, knobs=Knobs())
    machine, out = ended(translation, chunks(row))
    assert machine.done
    assert judged(row, out).error is None


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
def test_the_facts_of_a_dialect(dialect: Dialect) -> None:
    body = b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hello you"}],"input":"Hello you"}'
    assert 0 < TokenCounter().count(dialect, body, "m").tokens < 30


@pytest.mark.parametrize("dialect", Dialect)
def test_a_prompt_agrees_with_itself(dialect: Dialect) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"input":"Hi","contents":[{"parts":[]}]}'
    digest = PromptDigest.of(dialect, body)
    assert digest.agreement(digest).broken_by is None

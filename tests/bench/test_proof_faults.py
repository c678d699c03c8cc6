"""The fault matrix of `dragoman_proof`: a sample of its cases finds nothing, and its judge finds what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman import Dialect
from dragoman.dialects import CLIENT_DIALECTS
from dragoman_proof import cli
from dragoman_proof.faults.client import Received
from dragoman_proof.faults.judge import violation
from dragoman_proof.faults.kinds import CLIENT, UPSTREAM, WEBSOCKET, Case
from dragoman_proof.faults.matrix import FOLLOWED, SOCKET, TRANSPORTS, Part
from dragoman_proof.faults.reading import read
from dragoman_proof.faults.recording import NAMES, recordings
from dragoman_proof.faults.report import Totals, table
from dragoman_proof.faults.run import play
from support.verdicts import golden

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
DIRECTIONS = [(client, upstream) for client in CLIENT_DIALECTS for upstream in Dialect]
EACH = pytest.mark.parametrize(("client", "upstream"), DIRECTIONS, ids=[f"{c}-{u}" for c, u in DIRECTIONS])


@pytest.mark.few
@EACH
async def test_a_sample_of_the_faults_finds_nothing(client: Dialect, upstream: Dialect) -> None:
    """Whatever happens to a stream, and wherever, no client takes what it got for a whole reply."""
    totals = Totals()
    await play(Part(client, upstream, "raw", 120), totals, at_once=16)
    assert totals.violations == []
    assert totals.cases == 120


@pytest.mark.turns
@pytest.mark.parametrize(("way", "count"), [(SOCKET, 120), (FOLLOWED, 60)])
@pytest.mark.parametrize("upstream", list(Dialect))
async def test_a_sample_of_the_faults_of_other_ways_finds_nothing(upstream: Dialect, way: str, count: int) -> None:
    """A WebSocket gets `response.failed`; a response that is followed elsewhere ends as the stored one does."""
    totals = Totals()
    await play(Part(RESPONSES, upstream, "raw", count, way=way), totals, at_once=16)
    assert totals.violations == []
    assert totals.cases == count


@pytest.mark.whole
@pytest.mark.parametrize("way", [SOCKET, FOLLOWED])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("upstream", list(Dialect))
async def test_many_faults_of_other_ways_find_nothing(upstream: Dialect, transport: str, way: str) -> None:
    totals = Totals()
    await play(Part(RESPONSES, upstream, transport, 150, seed=2, way=way), totals, at_once=24)
    assert totals.violations == []
    assert totals.failed.total() > 25


@pytest.mark.whole
@pytest.mark.parametrize("transport", TRANSPORTS)
@EACH
async def test_many_faults_find_nothing(client: Dialect, upstream: Dialect, transport: str) -> None:
    totals = Totals()
    await play(Part(client, upstream, transport, 250, seed=2), totals, at_once=24)
    assert totals.violations == []
    assert totals.failed.total() > 50


@pytest.mark.parametrize("upstream", list(Dialect))
def test_every_fault_happens_at_every_event(upstream: Dialect) -> None:
    cases = Part(CHAT, upstream).cases()
    assert [case.number for case in cases] == list(range(len(cases)))
    assert {case.kind for case in cases} == {*UPSTREAM, *CLIENT}
    for recording in recordings(upstream):
        assert 0 < recording.noted <= recording.whole <= len(recording.data), recording.name
        cuts = {case.at for case in cases if case.kind == "cut" and case.recording.name == recording.name}
        assert cuts >= {0, *recording.ends}
    assert len(recordings(upstream)) == len(NAMES[upstream].split())
    assert {case.kind for case in Part(RESPONSES, upstream, way=SOCKET).cases()} == {*UPSTREAM, *CLIENT, *WEBSOCKET}
    assert {case.kind for case in Part(RESPONSES, upstream, way=FOLLOWED).cases()} == {*UPSTREAM}


WRONG = {
    "cut without an error": ("cut", lambda body: body[: body.rindex(b"event: message_delta")], "no terminal frame"),
    "a broken stream that looks complete": ("cut", lambda body: body, "looks complete"),
    "an event without its blank line": ("cut", lambda body: body[:-1], "grammar"),
    "another text": ("drip", lambda body: body.replace(b"Hel", b"Hal"), "another reply"),
    "words behind the fault": (
        "error event",
        lambda body: (
            body[: body.index(b"event: content_block_stop")].replace(b"Hel", b"Hal")
            + b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"cut"}}\n\n'
        ),
        "did not send",
    ),
    "a stream without its start": ("cut", lambda body: body[body.index(b"\n\n") + 2 :], "grammar"),
}


@pytest.mark.parametrize(("kind", "change", "found"), WRONG.values(), ids=WRONG)
def test_the_judge_finds(kind: str, change: object, found: str) -> None:
    assert callable(change)
    part, body = Part(MESSAGES, CHAT), golden("messages_from_chat/text")
    sound = read(MESSAGES, body)
    case = Case(0, recordings(CHAT)[0], kind, 5, 0)
    right = replace(case, kind="drip")
    assert violation(part, right, Received(200, body, ended=True, streamed=True), sound) is None
    problem = violation(part, case, Received(200, change(body), ended=True, streamed=True), sound)
    assert problem is not None
    assert found in problem


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_the_judge_finds_a_call_that_is_not_whole(upstream: Dialect) -> None:
    body = golden(f"messages_from_{upstream}/two_tools")
    sound = read(MESSAGES, body)
    assert len(sound.calls) == 2
    (name, arguments) = sound.calls[0]
    sound.calls[0] = (name, arguments + " ")  # what the upstream sent is longer than what was closed
    error = b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"cut"}}\n\n'
    received = Received(200, body[: body.index(b"event: message_delta")] + error, ended=True, streamed=True)
    problem = violation(Part(MESSAGES, upstream), Case(0, recordings(upstream)[0], "cut", 5, 0), received, sound)
    assert problem is not None
    assert "not whole" in problem


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (502, b'{"type":"error","error":{"type":"api_error","message":"no"}}', None),
        (502, b'{"detail":"no"}', 'no error of the dialect: b\'{"detail":"no"}\''),
        (400, b'{"error":{"type":"x","message":"no"}}', "status 400 for a fault of the upstream"),
    ],
)
def test_errors_before_a_stream(status: int, body: bytes, problem: str | None) -> None:
    case = Case(0, recordings(CHAT)[0], "cut head", 0, 0)
    assert violation(Part(MESSAGES, CHAT), case, Received(status, body, ended=True), None) == problem


_ERROR = b'event: error\ndata: {"type":"error","sequence_number":1,"code":null,"message":"cut","param":null}\n\n'


@pytest.mark.parametrize(
    ("kind", "received", "found"),
    [
        ("cut", Received(200, _ERROR, ended=True, code=1000), "without `response.failed`"),
        ("cut", Received(200, _ERROR, ended=True), "a close with 1000 is answered with None"),
        ("breaks a frame", Received(200, b"", ended=False, code=1000), "closed with the code 1000"),
        ("closes wrongly", Received(200, b"", ended=False), "closed with the code None"),
        ("floods", Received(200, b"", ended=False), "got no whole reply"),
        ("holds half a frame", Received(200, b"", ended=False), "got no whole reply"),
    ],
)
def test_the_judge_of_a_websocket_finds(kind: str, received: Received, found: str) -> None:
    part, case = Part(RESPONSES, RESPONSES, way=SOCKET), Case(0, recordings(RESPONSES)[0], kind, 5, 0)
    replies = golden("responses_from_chat/text")
    begun = replies[: replies.index(b"event: response.in_progress")]
    body = begun + received.body if received.body else b""
    problem = violation(part, case, replace(received, body=body), read(RESPONSES, replies))
    assert problem is not None
    assert found in problem


@pytest.mark.parametrize(
    ("stored", "found"), [("in_progress", "the stored response is in_progress"), ("completed", None)]
)
def test_the_judge_compares_the_stored_response(stored: str, found: str | None) -> None:
    part, case = Part(RESPONSES, CHAT, way=FOLLOWED), Case(0, recordings(CHAT)[0], "drip", 5, 0)
    body = golden("responses_from_chat/text")
    problem = violation(part, case, Received(200, body, ended=True, stored=stored), read(RESPONSES, body))
    assert (problem or "").startswith(found or "")
    assert bool(problem) == bool(found)


def test_a_stopped_body_is_found() -> None:
    case = Case(0, recordings(CHAT)[0], "cut", 0, 0)
    problem = violation(Part(MESSAGES, CHAT), case, Received(200, b"", ended=False, streamed=True), None)
    assert problem == "the reply does not end as its transport has it"


def test_the_command_prints_totals(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "faults",
        "--directions",
        "chat-chat",
        "--transports",
        "raw",
        "--ways",
        "http",
        "--cases",
        "30",
        "--at-once",
        "8",
    ]
    assert cli.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "| all | 30 |" in shown
    assert "violations: 0" in shown


def test_violations_are_counted() -> None:
    totals = Totals()
    totals.by_kind["cut"] += 2
    totals.violations.append("x")
    assert table(totals).endswith("violations: 1")

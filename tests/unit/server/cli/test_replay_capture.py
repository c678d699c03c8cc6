"""`dragoman replay`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.dialects import Dialect
from dragoman.wire import json_dumps
from dragoman_server.cli.main import main
from dragoman_server.observability.captures.recording import Recording
from dragoman_server.observability.captures.replay import replay
from dragoman_server.observability.captures.store import Capture
from support.recordings import capture_of, recorded
from support.samples import judge, text_stream

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES


def written(folder: Path, made: Recording, *, ended: str = "completed") -> tuple[str, bytes]:
    """The file of a capture whose client got what a replay makes, and that reply."""
    body = asyncio.run(replay(capture_of(made))).body
    made.wrote(body)
    return save(folder, capture_of(made, ended=ended)), body


def save(folder: Path, capture: Capture) -> str:
    path = folder / "req_1.capture"
    path.write_bytes(json_dumps(capture.summary) + b"\n" + json_dumps(capture.exchange) + b"\n")
    return str(path)


def run(capsysbinary: pytest.CaptureFixture[bytes], *words: str) -> tuple[int, bytes, str]:
    status = main(["replay", *words])
    out, err = capsysbinary.readouterr()
    return status, out, err.decode()


def test_the_clients_stream_is_printed(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file, body = written(tmp_path, recorded(CHAT, MESSAGES, text_stream(MESSAGES)))
    assert run(capsysbinary, file) == (0, body, "")
    for dialect in (MESSAGES, RESPONSES):
        status, out, _ = run(capsysbinary, file, "--to", dialect)
        assert status == 0
        judge(dialect, out)


def test_a_golden_is_compared(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file, body = written(tmp_path, recorded(CHAT, MESSAGES, text_stream(MESSAGES)))
    golden = tmp_path / "golden.sse"
    golden.write_bytes(body)
    assert run(capsysbinary, file, "--diff", str(golden))[:2] == (0, b"")
    golden.write_bytes(body.replace(b"[DONE]", b"[END]"))
    status, out, _ = run(capsysbinary, file, "--diff", str(golden))
    assert status == 1
    assert b"-data: [END]" in out
    assert b"+data: [DONE]" in out
    golden.write_bytes(body.replace(b"\n", b"\r\n"))
    assert run(capsysbinary, file, "--diff", str(golden))[0] == 1
    assert run(capsysbinary, file, "--diff", str(tmp_path / "none"))[0] == 2


def test_a_capture_is_checked_against_itself(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    made = recorded(CHAT, MESSAGES, text_stream(MESSAGES))
    file, _ = written(tmp_path, made)
    status, out, err = run(capsysbinary, file, "--check")
    assert (status, out) == (0, b"")
    assert "the client's reply" in err
    assert "the upstream's request" in err
    capture = capture_of(made)
    reply, request = capture.exchange["client"]["reply"], capture.exchange["attempts"][0]["request"]
    reply["status"] = 500
    assert run(capsysbinary, save(tmp_path, capture), "--check")[0] == 1
    reply["status"] = 200
    reply["text"] = "x"
    assert run(capsysbinary, save(tmp_path, capture), "--check")[0] == 1
    capture = capture_of(made)
    request = capture.exchange["attempts"][0]["request"]
    request["text"] = request["text"].replace("up-m", "up-n")
    assert run(capsysbinary, save(tmp_path, capture), "--check")[0] == 1


def test_a_client_that_left_is_compared_up_to_there(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    made = recorded(CHAT, MESSAGES, text_stream(MESSAGES))
    body = asyncio.run(replay(capture_of(made))).body
    made.wrote(body[:100])
    assert run(capsysbinary, save(tmp_path, capture_of(made, ended="abandoned")), "--check")[0] == 0
    assert run(capsysbinary, save(tmp_path, capture_of(made)), "--check")[0] == 1


def test_a_status_of_an_error_is_printed(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    refused = recorded(CHAT, MESSAGES, [b"{}"], status=503, stream=False)
    status, out, err = run(capsysbinary, save(tmp_path, capture_of(refused)))
    assert status == 0
    assert out.startswith(b"{")
    assert "503" in err


def test_a_fixture_is_written(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file, _ = written(tmp_path, recorded(CHAT, MESSAGES, text_stream(MESSAGES)))
    assert run(capsysbinary, file, "--fixture", str(tmp_path), "--name", "one")[0] == 0
    assert (tmp_path / "transcripts" / "messages" / "one.sse").is_file()


def test_what_cannot_be_replayed_is_reported(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    capture = capture_of(recorded(CHAT, MESSAGES, text_stream(MESSAGES), limit=400))
    status, _, err = run(capsysbinary, save(tmp_path, capture))
    assert status == 2
    assert "truncated" in err
    assert run(capsysbinary, save(tmp_path, capture), "--check", "--to", "chat")[0] == 2
    capture.summary["endpoint"] = "embeddings"
    for words in ((), ("--check",), ("--fixture", str(tmp_path)), ("--to", "chat")):
        status, out, err = run(capsysbinary, save(tmp_path, capture), *words)
        assert (status, out) == (2, b"")
        assert "/v1/embeddings is forwarded untranslated, so there is nothing to translate again" in err
    del capture.summary["endpoint"]
    del capture.exchange["client"]
    status, _, err = run(capsysbinary, save(tmp_path, capture))
    assert status == 2
    assert "damaged" in err

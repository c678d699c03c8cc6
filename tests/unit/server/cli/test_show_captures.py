"""`dragoman capture list | show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.dialects import Dialect
from dragoman.wire import json_dumps
from dragoman_server.cli.main import main
from dragoman_server.observability.captures.store import CaptureStore
from support.recordings import capture_of, recorded
from support.samples import text_stream

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A configuration with a directory that has one capture."""
    made = recorded(CHAT, MESSAGES, text_stream(MESSAGES))
    made.wrote(b"data: \x1b[31m red \x7f\r\n\r\n")
    capture = capture_of(made)
    store = CaptureStore(tmp_path / "captures", 10, 10**6, 60.0, lambda: 0.0)
    store.open()
    store.write("req_1", json_dumps(capture.summary) + b"\n" + json_dumps(capture.exchange) + b"\n")
    path = tmp_path / "dragoman.toml"
    path.write_text(f'[capture]\ndirectory = "{tmp_path}/captures"\n[providers.up]\napi_key = "${{NONE}}"\n')
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["capture", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_captures_are_listed(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "list", "-c", config)
    assert (status, out) == (0, "1970-01-01 00:00:07  req_1  chat→chat  m  200 completed (texts)\n")
    status, out, _ = run(capsys, "list", "--json", "-c", config)
    assert [each["id"] for each in json.loads(out)["data"]] == ["req_1"]
    assert run(capsys, "list", "--directory", f"{config}.none")[2] == "there are no captures\n"


def test_a_capture_is_shown_with_its_four_phases(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "show", "req_1", "-c", config)
    assert status == 0
    for title in ("1. the client's request", "2. the upstream's request", "3. the upstream's reply", "4. the client's"):
        assert title in out
    assert '"model":"up-m"' in out
    assert "x-api-key: ***" in out
    assert "\x1b" not in out
    assert "?[31m red ?\n\n" in out
    found = json.loads(run(capsys, "show", "req_1", "--json", "-c", config)[1])
    assert (found["id"], len(found["attempts"])) == ("req_1", 1)
    file = str(Path(config).parent / "captures" / "req_1.capture")
    assert json.loads(run(capsys, "show", file, "--json")[1]) == found


def test_a_forwarded_exchange_is_listed_by_its_endpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = capture_of(recorded(CHAT, CHAT, None))
    capture.summary["endpoint"] = "audio/transcriptions"
    capture.exchange["client"]["request"] |= {"omitted": "multipart/form-data", "bytes": 70, "text": ""}
    path = tmp_path / "req_1.capture"
    path.write_bytes(json_dumps(capture.summary) + b"\n" + json_dumps(capture.exchange) + b"\n")
    assert "req_1  audio/transcriptions  m  200 completed" in run(capsys, "list", "--directory", str(tmp_path))[1]
    out = run(capsys, "show", str(path))[1]
    assert "the client's request: POST /v1/x, 70 bytes of multipart/form-data (not kept)\n" in out


def test_a_client_that_left_before_its_reply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = capture_of(recorded(CHAT, MESSAGES, None), ended="abandoned")
    capture.exchange["client"]["reply"]["status"] = None
    path = tmp_path / "req_1.capture"
    path.write_bytes(json_dumps(capture.summary) + b"\n" + json_dumps(capture.exchange) + b"\n")
    assert "4. the client disconnected before its reply" in run(capsys, "show", str(path))[1]


def test_what_does_not_exist_is_reported(
    config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path.joinpath("captures"))
    for words, message in (
        (("show", "req_2", "-c", config), "no such capture"),
        (("show", "./req_2.capture"), "cannot be read"),
        (("show", config), "not a capture"),
        (("list",), "name the configuration, or --directory"),
    ):
        status, _, err = run(capsys, *words)
        assert status == 2
        assert message in err
    Path(config).write_text("[server]\n")
    assert "captures are off" in run(capsys, "list", "-c", config)[2]

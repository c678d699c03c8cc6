"""Transcripts for the golden tests, made from captures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli.main import main
from dragoman_server.observability.captures.fixture import write_fixture
from dragoman_server.observability.captures.replay import NotReplayable
from support.paths import TRANSCRIPTS
from support.recordings import JSON_TYPE, capture_of, recorded
from support.samples import reply, text_stream

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES


@pytest.mark.parametrize("upstream", tuple(Dialect), ids=str)
def test_a_capture_becomes_a_transcript(upstream: Dialect, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pieces = text_stream(upstream)
    capture = capture_of(recorded(CHAT, upstream, pieces))
    path = write_fixture(capture, tmp_path, "my_case")
    assert path == tmp_path / "transcripts" / upstream / "my_case.sse"
    assert path.parent.name in {folder.name for folder in TRANSCRIPTS.iterdir()}
    expected = b"".join(pieces)
    for field in (b'"model": ', b'"modelVersion": '):
        expected = expected.replace(field + b'"m"', field + b'"upstream-model"')
    assert path.read_bytes() == expected
    assert b"upstream-model" in expected
    target = "messages" if upstream is CHAT else "chat"
    assert main(["translate", "--from", upstream, "--to", target, "--kind", "stream", str(path)]) == 0
    assert "upstream-model" in capsys.readouterr().out


def test_a_whole_reply_is_json(tmp_path: Path) -> None:
    body = json.dumps(reply(MESSAGES)).encode()
    path = write_fixture(capture_of(recorded(CHAT, MESSAGES, [body], headers=JSON_TYPE, stream=False)), tmp_path)
    assert path.name == "req_1.json"
    assert json.loads(path.read_bytes())["model"] == "upstream-model"


def test_what_is_no_fixture_is_refused(tmp_path: Path) -> None:
    capture = capture_of(recorded(CHAT, MESSAGES, text_stream(MESSAGES)))
    for name in ("../x", "a b", "x" * 101):
        with pytest.raises(NotReplayable, match="name"):
            write_fixture(capture, tmp_path, name)
    with pytest.raises(NotReplayable, match="truncated"):
        write_fixture(capture_of(recorded(CHAT, MESSAGES, [b"x" * 900], limit=400)), tmp_path)
    forwarded = capture_of(recorded(CHAT, CHAT, text_stream(CHAT)))
    forwarded.summary["endpoint"] = "completions"
    with pytest.raises(NotReplayable, match="forwarded"):
        write_fixture(forwarded, tmp_path)
    assert list(tmp_path.iterdir()) == []

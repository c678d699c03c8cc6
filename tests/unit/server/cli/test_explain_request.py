"""The command that explains a request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli.main import main
from support import samples

CHAT, MESSAGES, RESPONSES, *_ = Dialect


def test_the_command_line_explains_for_a_client(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(samples.dump(samples.request(RESPONSES)))
    words = ["explain", "--to", "chat", "--client", "codex", "--json", str(file)]
    assert main(words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["client_profile"], facts["knobs"]) == (
        "codex",
        {"reasoning_surface": "summary", "error_codes": "codex", "heartbeats": "event"},
    )
    assert main([*words[:-1], "--knob", "reasoning_surface=reasoning_text", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["knobs"] == {"error_codes": "codex", "heartbeats": "event"}

"""The command that checks a configuration."""

from __future__ import annotations

from typing import Any

import pytest

NO_ROUTE = "there is no route, so models are known as PROVIDER/MODEL only, such as up/…: write [[routes]]"


def test_check_prints_the_remarks(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    from dragoman_server.cli.main import main

    path = tmp_path / "dragoman.toml"
    path.write_text(
        '[server]\nhost = "0.0.0.0"\n[providers.up]\ndialect = "chat"\nbase_url = "http://h"\napi_key = "s"\n'
    )
    assert main(["check", str(path)]) == 0
    expected = capsys.readouterr().err
    assert NO_ROUTE in expected
    assert "whoever reaches 0.0.0.0 uses the providers' keys" in expected

"""The table `[capture]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman_server.config.capture_options import CaptureOptions, load_capture_options
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config

PROVIDER = {"up": {"dialect": "chat", "base_url": "http://127.0.0.1:9/v1"}}


def read(table: dict[str, Any]) -> CaptureOptions:
    return parse_config({"providers": PROVIDER, "capture": table}, {}).capture


def test_captures_are_off_by_default() -> None:
    assert not read({}).enabled
    assert read({}) == CaptureOptions()


def test_all_settings_are_read() -> None:
    table = {
        **{"directory": "d", "header": False, "share": 0.5, "texts": True, "exchange_bytes": 2000},
        **{"total_bytes": 5000, "number": 7, "days": 0.5, "open": 3},
    }
    options = read(table)
    assert options.enabled
    assert {name: getattr(options, name) for name in table} == table


@pytest.mark.parametrize(
    ("table", "path"),
    [
        ({"share": 0.5}, "directory"),
        ({"directory": "d", "share": 1.5}, "share"),
        ({"directory": "d", "share": -1}, "share"),
        ({"directory": "d", "number": 0}, "number"),
        ({"directory": "d", "exchange_bytes": 10}, "exchange_bytes"),
        ({"directory": "d", "total_bytes": 10}, "total_bytes"),
        ({"directory": "d", "days": 0}, "days"),
        ({"directory": "d", "days": float("inf")}, "days"),
        ({"directory": "d", "open": 0}, "open"),
        ({"directory": "d", "secret": 1}, "secret"),
    ],
)
def test_problems_are_reported(table: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError, match=rf"capture\.{path}"):
        read(table)


def test_the_table_is_read_alone(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('[capture]\ndirectory = "d"\n[providers.up]\napi_key = "${NOT_SET}"\n')
    assert load_capture_options(file).directory == str(tmp_path / "d")
    file.write_text("[capture]\nnumber = 0\n")
    with pytest.raises(ConfigError, match=r"capture\.directory[^|]*capture\.number"):
        load_capture_options(file)

"""The options of the WebSocket."""

from __future__ import annotations

import pytest

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.config.schema import Server
from dragoman_server.config.websocket import WebSocketOptions


def test_options_are_read() -> None:
    table = {"enabled": False, "max_age": 60, "concurrent": 2, "history": 4096}
    config = parse_config({"server": {"websocket": table}}, {})
    assert config.server.websocket == WebSocketOptions(enabled=False, max_age=60, concurrent=2, history=4096)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (WebSocketOptions(max_age=0), "max_age"),
        (WebSocketOptions(max_age=float("inf")), "max_age"),
        (WebSocketOptions(concurrent=0), "concurrent"),
        (WebSocketOptions(queue=0), "queue"),
        (WebSocketOptions(responses=0), "responses"),
        (WebSocketOptions(history=1), "history"),
        (WebSocketOptions(total_history=1), "total_history"),
    ],
)
def test_an_option_out_of_range_is_a_problem(options: WebSocketOptions, path: str) -> None:
    ((where, message),) = Server(websocket=options).problems()
    assert where == f"server.websocket.{path}"
    assert "expected" in message


def test_unknown_options_are_problems() -> None:
    with pytest.raises(ConfigError, match=r"server\.websocket\.age: unknown key"):
        parse_config({"server": {"websocket": {"age": 1}}}, {})

"""The bounds on the load of one process."""

from __future__ import annotations

import pytest

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.config.overload import Overload
from dragoman_server.config.schema import Server


def test_bounds_are_read() -> None:
    config = parse_config({"server": {"overload": {"event_loop_lag": 1, "memory": 2**30, "open_requests": 500}}}, {})
    assert config.server.overload == Overload(1, 2**30, 500)


@pytest.mark.parametrize("value", [-1, float("inf"), float("nan")])
def test_a_bound_is_a_number_from_0(value: float) -> None:
    ((path, message),) = Server(overload=Overload(event_loop_lag=value)).problems()
    assert (path, message) == ("server.overload.event_loop_lag", f"expected 0 (no bound) or more; got {value:g}")


def test_unknown_bounds_are_problems() -> None:
    with pytest.raises(ConfigError, match=r"server\.overload\.lag: unknown key"):
        parse_config({"server": {"overload": {"lag": 1}}}, {})

"""The options of streams that can be resumed."""

from __future__ import annotations

import pytest

from dragoman_server.config.load import parse_config
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.config.schema import Config, Server
from dragoman_server.config.state_options import StateOptions


def test_options_are_read() -> None:
    table = {"seconds": 30, "kept": 5.5, "bytes": 4096, "total_bytes": 300000, "streams": 9, "streams_per_client": 3}
    config = parse_config({"server": {"resume": table}}, {})
    assert config.server.resume == ResumeOptions(30.0, 5.5, 4096, 300000, 9, 3)
    assert not parse_config({"server": {}}, {}).server.resume.seconds


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (ResumeOptions(seconds=-1), "seconds"),
        (ResumeOptions(seconds=float("inf")), "seconds"),
        (ResumeOptions(kept=-1), "kept"),
        (ResumeOptions(bytes=1), "bytes"),
        (ResumeOptions(total_bytes=1), "total_bytes"),
        (ResumeOptions(streams=0), "streams"),
        (ResumeOptions(streams_per_client=0), "streams_per_client"),
    ],
)
def test_an_option_out_of_range_is_a_problem(options: ResumeOptions, path: str) -> None:
    ((where, message),) = Server(resume=options).problems()
    assert where == f"server.resume.{path}"
    assert "expected" in message


def test_several_workers_resume_streams_through_a_store() -> None:
    server = Server(resume=ResumeOptions(seconds=1), workers=2)
    for state in (StateOptions(), StateOptions(kind="off")):
        ((where, message),) = Config(server=server, state=state).problems()
        assert where == "server.resume.seconds"
        assert "state.kind" in message
    for kind, url in (("sqlite", ""), ("redis", "redis://127.0.0.1:6379/0")):
        assert not list(Config(server=server, state=StateOptions(kind=kind, url=url)).problems())
    assert not list(Config(server=Server(resume=ResumeOptions(), workers=2)).problems())
    assert not list(Config(server=Server(resume=ResumeOptions(seconds=1))).problems())

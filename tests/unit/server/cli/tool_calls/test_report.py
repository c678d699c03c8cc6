"""The report on tool calls."""

from __future__ import annotations

import json

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.wire import json_dumps
from dragoman_server.cli.tool_calls.ask import Answer
from dragoman_server.cli.tool_calls.question import Model
from dragoman_server.cli.tool_calls.read_reply import SeenCall, SeenReply
from dragoman_server.cli.tool_calls.report import Report
from dragoman_server.config.provider import Provider

LONG = Provider("a-provider-with-a-long-name", Dialect.CHAT, "http://h/v1", "sk-secret")  # type: ignore[arg-type]
MODEL = Model(LONG, "organisation/family-of-models-70b-instruct-2507-fp8")
ARGUMENTS = '{"city":"Oslo","days":2}'


def good(client: Dialect) -> Answer:
    stop = {"chat": "tool_calls", "messages": "tool_use", "responses": "completed"}[client]
    reply = SeenReply(calls={0: SeenCall("call_1", "get_weather", ARGUMENTS)}, stop=stop, usage=True, ended=True)
    return Answer(MODEL, client, 0.5, status=200, streamed=True, reply=reply, upstream_status=200)


def refused(client: Dialect) -> Answer:
    sent = {"model": "m", "parallel_tool_calls": False}
    message = "parallel_tool_calls is not supported by this model, and neither are \x1b[31mmany other fields. " * 4
    return Answer(MODEL, client, 0.1, status=400, error=message, upstream_status=400, upstream_sent=sent)


def test_no_differences() -> None:
    report = Report([good(client) for client in CLIENT_DIALECTS], [])
    assert report.ok
    assert [line.split()[-1] for line in report.lines()] == ["differences", "none", "none", "none"]


def test_the_same_difference_is_shown_once_with_its_repair() -> None:
    report = Report([refused(Dialect.CHAT), good(Dialect.MESSAGES), refused(Dialect.RESPONSES)], [(LONG, "no " * 60)])
    lines = list(report.lines())
    assert not report.ok
    assert [line.split()[-1] for line in lines[1:4]] == ["refused", "none", "refused"]
    assert lines.count("    profile_flags.parallel_tool_calls = false") == 1
    assert lines.count("  repair, in [providers.a-provider-with-a-long-name]:") == 1
    assert any("(chat, responses):" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)
    assert all(line.isprintable() for line in lines)
    assert "secret" not in "\n".join(lines)


def test_the_report_as_data() -> None:
    data = json.loads(json_dumps(Report([good(Dialect.CHAT), refused(Dialect.MESSAGES)], [(LONG, "why")]).json()))
    fine, wrong = data["asked"]
    assert fine["calls"] == [{"name": "get_weather", "arguments": ARGUMENTS}]
    assert (fine["ok"], fine["stop"], fine["usage"], fine["differences"]) == (True, "tool_calls", True, [])
    assert (wrong["ok"], wrong["status"], wrong["client"], wrong["upstream"]) == (False, 400, "messages", "chat")
    (difference,) = wrong["differences"]
    path = "providers.a-provider-with-a-long-name.profile_flags.parallel_tool_calls"
    assert difference["repair"] == {"path": path, "value": False}
    assert data["not_asked"] == [{"provider": LONG.name, "reason": "why"}]


def test_a_report_on_nothing_is_not_good() -> None:
    report = Report([], [(LONG, "no model")])
    assert not report.ok
    assert list(report.lines()) == ["", f"{LONG.name} was not asked: no model"]

"""Tools, calls and results of kinds that Chat and Messages lack: refused where the bridge let them through.

The bridge turns them all into functions first; a writer that met one would else send it as something that it is not.
"""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import BlockStart, Error, Event, Start, Stop, StopReason
from dragoman.canonical.parts import Part, Text, ToolCall, ToolReference, ToolResult
from dragoman.canonical.reply import Reply
from dragoman.canonical.request import Json, Namespace, Request, Tool, ToolChoice, ToolKind
from dragoman.canonical.turn import Turn
from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.shared.stream_writer import StreamWriter
from dragoman.errors import Unsupported, UpstreamProtocolError
from dragoman.knobs import Knobs
from dragoman.losses import Losses
from dragoman.profiles.profile import Profile
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import NameTable
from support.frames import frames_of

chat, messages = CODECS[Dialect.CHAT], CODECS[Dialect.MESSAGES]
DIALECTS = pytest.mark.parametrize("dialect", [chat, messages], ids=["chat", "messages"])


def refused(dialect: Any, *, tools: list[Tool] | None = None, parts: list[Part] | None = None, **fields: Any) -> str:
    """The path that the refusal names."""
    turns = [Turn("user", [Text("x")])]
    turns += [Turn("user" if type(part) is ToolResult else "assistant", [part]) for part in parts or ()]
    turns.append(Turn("user", [Text("y")]))
    request = Request("responses", "m", turns, tools=tools or [], **fields)
    with pytest.raises(Unsupported) as caught:
        dialect.write_request(
            request, model="m", profile=Profile(), knobs=Knobs(), losses=Losses(), names=NameTable(64)
        )
    return str(caught.value.failure.param)


@DIALECTS
@pytest.mark.parametrize("kind", ["function", "custom"])
def test_a_tool_in_a_namespace(dialect: Any, kind: ToolKind) -> None:
    tool = Tool(kind, "add", ("tools", 1), native={"type": "custom"}, namespace=Namespace("ns"))
    assert refused(dialect, tools=[tool]) == "tools[1]"


@DIALECTS
def test_a_tool_search(dialect: Any) -> None:
    native: Json = {"type": "tool_search"}
    tool = Tool("search", "tool_search", ("tools", 0), schema={}, native=native, origin="responses")
    assert refused(dialect, tools=[tool]) == "tools[0]"


@DIALECTS
@pytest.mark.parametrize("fields", [{"search": True}, {"namespace": "ns"}])
def test_a_call(dialect: Any, fields: Any) -> None:
    assert refused(dialect, parts=[ToolCall("c", "add", "{}", ("input", 4), **fields)]) == "input[4]"


@DIALECTS
def test_a_result_of_a_search(dialect: Any) -> None:
    call = ToolCall("c", "tool_search", "{}")
    result = ToolResult("c", [ToolReference("add")], ("input", 5), search=True)
    assert refused(dialect, parts=[call, result]) == "input[5]"


@pytest.mark.parametrize("dialect", [messages], ids=["messages"])
def test_free_text_tools_at_messages(dialect: Any) -> None:
    call = ToolCall("c", "p", "x", ("input", 4), custom=True)
    assert refused(dialect, parts=[call]) == "input[4]"
    parts: list[Part] = [ToolCall("c", "p", "{}"), ToolResult("c", "x", ("input", 5), custom=True)]
    assert refused(dialect, parts=parts) == "input[5]"
    assert refused(dialect, tools=[Tool("custom", "p", ("tools", 0))]) == "tools[0]"
    choice = ToolChoice("tool", ("tool_choice",), ["p"], custom=True)
    assert refused(dialect, tools=[Tool("function", "p")], tool_choice=choice) == "tool_choice"


# --- replies ----------------------------------------------------------------------------------------------------------


def error_of(dialect: Any, **fields: Any) -> str:
    """The error that a stream with such a call ends in; the call itself is never reported."""
    writer: StreamWriter = dialect.writer(ReplyContext("m"))
    events: list[Event] = [Start("1", "m"), BlockStart(0, "tool", "c", "secret_name", **fields)]
    frames = frames_of(writer.feed(events))
    assert writer.done
    assert b"error" in (frames[-1].data or b"")
    assert not any(b'"c"' in (frame.data or b"") for frame in frames)
    assert writer.context.failure is not None
    return writer.context.failure.message


@DIALECTS
@pytest.mark.parametrize("fields", [{"search": True}, {"namespace": "ns"}])
def test_no_client_receives_a_call_that_it_cannot_make_sense_of(dialect: Any, fields: Any) -> None:
    assert "'secret_name'" in error_of(dialect, **fields)
    reply = Reply("1", "m", [ToolCall("c", "secret_name", "{}", **fields)], Stop(StopReason.TOOL_CALLS))
    with pytest.raises(UpstreamProtocolError, match="'secret_name'"):
        dialect.write_reply(reply, ReplyContext("m"))


def test_a_free_text_call_is_for_chat_clients_and_an_error_for_messages_clients() -> None:
    assert "free-text" in error_of(messages, custom=True)
    reply = Reply("1", "m", [ToolCall("c", "p", "x", custom=True)], Stop(StopReason.TOOL_CALLS))
    with pytest.raises(UpstreamProtocolError, match="free-text"):
        messages.write_reply(reply, ReplyContext("m"))
    (call,) = chat.write_reply(reply, ReplyContext("m"))["choices"][0]["message"]["tool_calls"]
    assert call == {"id": "c", "type": "custom", "custom": {"name": "p", "input": "x"}}
    events: list[Event] = [Start("1", "m"), BlockStart(0, "tool", "c", "p", custom=True)]
    frames = frames_of(chat.writer(ReplyContext("m")).feed(events))
    assert b'"type":"custom","custom":{"name":"p"' in (frames[-1].data or b"")


def test_an_error_is_not_made_of_ordinary_calls() -> None:
    for dialect in (chat, messages):
        writer = dialect.writer(ReplyContext("m"))
        frames = writer.feed([Start("1", "m"), BlockStart(0, "tool", "c", "f")])
        assert not writer.done
        assert not any(isinstance(frame, Error) for frame in frames)

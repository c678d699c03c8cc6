"""The scenes of the demo: a request, the point that it shows, and a check that it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman import Dialect
from dragoman.aio import UpstreamRequest
from dragoman.wire import SSEFrame, json_loads
from dragoman_server.cli.tool_calls.read_reply import SeenReply, read_reply
from dragoman_server.config.load import simulated_config
from dragoman_server.endpoints.explain import guess_client
from dragoman_server.routing.router import Router


@dataclass(slots=True)
class SceneRecording:
    """Everything that was sent and received on both sides of one scene."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    """The body of the client's response if it was not a stream."""
    call: UpstreamRequest | None = None
    client: list[SSEFrame] = field(default_factory=list)
    upstream: list[SSEFrame] = field(default_factory=list)
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene. `check` yields a sentence for each problem."""

    subject: str
    body: dict[str, Any]
    point: str
    check: Callable[[SceneRecording, SeenReply, SeenReply], Iterator[str]]
    before: dict[str, Any] | None = None
    """A Responses request that is sent first, without being drawn. The scene's request continues its response."""

    @property
    def client(self) -> Dialect:
        """The dialect of the request."""
        return guess_client(self.body)

    @property
    def upstream(self) -> Dialect:
        """The dialect to which the gateway of the demo sends the request."""
        return Router(simulated_config()).resolve(self.body["model"], self.client).provider.dialect

    @property
    def title(self) -> str:
        """`Messages client → Chat upstream · subject`."""
        return f"{self.client.facts.name} client → {self.upstream.facts.name} upstream · {self.subject}"

    def problems(self, seen: SceneRecording) -> list[str]:
        """Return the problems of a recording, an empty list for a good one."""
        return list(self.check(seen, read_reply(self.client, seen.client), read_reply(self.upstream, seen.upstream)))


def _check_same_content(seen: SceneRecording, client: SeenReply, upstream: SeenReply) -> Iterator[str]:
    if seen.status != 200:
        yield f"status {seen.status} instead of 200: {seen.body[:200].decode(errors='replace')}"
        return
    if client.content() != upstream.content():
        yield f"the client received {client.content()}, the upstream sent {upstream.content()}"
    if not client.ended or client.error:
        yield f"the client's stream did not end cleanly ({client.error})"
    if client.tokens() != upstream.tokens() or client.tokens() is None:
        yield f"token counts differ: {client.tokens()} and {upstream.tokens()}"
    for call in client.calls.values():
        if not call.complete or not _is_object(call.as_function()[1]):
            yield f"the call of {call.name} is not complete"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json_loads(text), dict)
    except ValueError:
        return False


def _check_thinking(seen: SceneRecording, client: SeenReply, upstream: SeenReply) -> Iterator[str]:
    yield from _check_same_content(seen, client, upstream)
    if not (client.reasoning_text and client.text and len(client.calls) == 1):
        yield "thinking, a text and a call were expected"
    if client.stop != "tool_use":
        yield f"stop reason {client.stop} instead of tool_use"
    if "top_k" not in seen.headers.get("x-dragoman-loss", ""):
        yield "the loss of top_k was not reported"


def _check_parallel(seen: SceneRecording, client: SeenReply, upstream: SeenReply) -> Iterator[str]:
    yield from _check_same_content(seen, client, upstream)
    if client.stop != "tool_calls":
        yield f"finish reason {client.stop} instead of tool_calls"
    if len(client.calls) != 2 or sorted(client.order) == client.order:
        yield "two interleaved calls were expected"


def _check_namespaced(seen: SceneRecording, client: SeenReply, upstream: SeenReply) -> Iterator[str]:
    yield from _check_same_content(seen, client, upstream)
    if [(call.namespace, call.name) for call in client.calls.values()] != [("mcp__notes", "add_note")]:
        yield f"the call did not come back in its namespace: {', '.join(map(str, client.calls.values()))}"
    if [call.name for call in upstream.calls.values()] != ["mcp__notes__add_note"]:
        yield "the upstream was expected to call a plain function"


def _check_free_text(seen: SceneRecording, client: SeenReply, upstream: SeenReply) -> Iterator[str]:
    yield from _check_same_content(seen, client, upstream)
    if not all(call.custom and call.arguments.startswith("*** Begin Patch\n") for call in client.calls.values()):
        yield f"the call did not come back as free text: {', '.join(map(str, client.calls.values()))}"
    if len(client.calls) != 1 or any(call.custom for call in upstream.calls.values()):
        yield "one call of a plain function was expected from the upstream"
    if "custom_wrapped" not in seen.headers.get("x-dragoman-loss", ""):
        yield "the loss of the grammar was not reported"


def _check_signed(seen: SceneRecording, client: SeenReply, upstream: SeenReply) -> Iterator[str]:
    yield from _check_same_content(seen, client, upstream)
    if client.stop != "tool_use" or len(client.calls) != 1:
        yield f"stop reason {client.stop} instead of tool_use, or not one call"
    if not any(b'"signature_delta"' in (frame.data or b"") for frame in seen.client):
        yield "the signature of the call did not arrive"


def _check_stopped(seen: SceneRecording, client: SeenReply, upstream: SeenReply) -> Iterator[str]:
    if "stop" in json_loads(seen.call.body if seen.call else b"{}"):
        yield "a field that Responses lacks was sent"
    if client.text != "one, two, three" or not upstream.text.startswith(f"{client.text}###"):
        yield f"the client received {client.text!r}, the upstream sent {upstream.text!r}"
    if client.stop != "stop" or not client.ended or client.error:
        yield f"finish reason {client.stop} instead of stop, or no clean end ({client.error})"


def _check_broken(seen: SceneRecording, client: SeenReply, upstream: SeenReply) -> Iterator[str]:
    if not seen.cut or upstream.ended:
        yield "the upstream was not cut"
    if not client.error:
        yield "the client received no error"
    if client.ended or client.stop or any(call.complete for call in client.calls.values()):
        yield "the client's stream looks as if it had ended normally"


def _check_continued(seen: SceneRecording, client: SeenReply, upstream: SeenReply) -> Iterator[str]:
    yield from _check_same_content(seen, client, upstream)
    sent = json_loads(seen.call.body if seen.call else b"{}").get("messages", [])
    if [turn["role"] for turn in sent] != ["user", "assistant", "user"]:
        yield "the upstream did not receive the whole conversation"


def _check_rejected(seen: SceneRecording, client: SeenReply, upstream: SeenReply) -> Iterator[str]:
    if seen.call is not None:
        yield "something was sent to the upstream"
    if seen.status != 400:
        yield f"status {seen.status} instead of 400"
    elif json_loads(seen.body)["error"]["param"] != "n":
        yield "the error does not name the field"


def _schema(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


_WEATHER = {"name": "get_weather", "description": "The weather in a city", "input_schema": _schema("city")}

_NOTES = {
    "type": "namespace",
    "name": "mcp__notes",
    "description": "A notebook",
    "tools": [{"type": "function", "name": "add_note", "description": "Keep a note", "parameters": _schema("note")}],
}
_PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edit files",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /(.|\\n)+/"},
}


def _function(name: str, parameter: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": _schema(parameter)}}


SCENES: tuple[Scene, ...] = (
    Scene(
        "thinking, text and a tool call",
        {
            "model": "sim-thinking",
            "max_tokens": 1024,
            "stream": True,
            "thinking": {"type": "adaptive"},
            "top_k": 40,
            "system": "Be brief.",
            "messages": [{"role": "user", "content": "How is the weather in Oslo?"}],
            "tools": [_WEATHER],
        },
        "An Anthropic client receives Messages events from a model with OpenAI's Chat Completions API.",
        _check_thinking,
    ),
    Scene(
        "two parallel tool calls, interleaved",
        {
            "model": "sim-parallel",
            "stream": True,
            "stream_options": {"include_usage": True},
            "verbosity": "low",
            "messages": [{"role": "user", "content": "Weather and time in Oslo?"}],
            "tools": [_function("get_weather", "city"), _function("get_time", "tz")],
        },
        "The other way round: each fragment of arguments stays with its call.",
        _check_parallel,
    ),
    Scene(
        "a tool in a namespace",
        {
            "model": "chat/sim-tools",
            "stream": True,
            "store": False,
            "input": "Note that it rains.",
            "max_output_tokens": 1000,
            "tools": [_NOTES],
        },
        "Chat has no namespaces: the tool is sent under a joined name, and its call returns as the client declared it.",
        _check_namespaced,
    ),
    Scene(
        "a tool that takes free text",
        {
            "model": "messages/sim-call-apply_patch",
            "stream": True,
            "store": False,
            "input": "Write a note.",
            "max_output_tokens": 1000,
            "tools": [_PATCH],
        },
        "Messages has no free-text tools: the text arrives inside JSON and is unwrapped while it streams. "
        "So Codex can edit files with any model.",
        _check_free_text,
    ),
    Scene(
        "a signed tool call",
        {
            "model": "generate/sim-thinking",
            "max_tokens": 1024,
            "stream": True,
            "thinking": {"type": "adaptive"},
            "messages": [{"role": "user", "content": "How is the weather in Oslo?"}],
            "tools": [_WEATHER],
        },
        "Gemini signs its calls and rejects a history without the signatures: this one travels in a thinking block, "
        "and returns to its call with the client's next request.",
        _check_signed,
    ),
    Scene(
        "a stop sequence",
        {
            "model": "responses/sim-stop",
            "stream": True,
            "stop": "###",
            "messages": [{"role": "user", "content": "Count."}],
        },
        "Responses has no stop sequences: the gateway holds back text that may become one, cuts the text there and "
        "closes the connection. The token counts are lost with it.",
        _check_stopped,
    ),
    Scene(
        "the upstream fails in mid-call",
        {
            "model": "responses/sim-cut-tools",
            "max_tokens": 1024,
            "stream": True,
            "messages": [{"role": "user", "content": "How is the weather in Oslo?"}],
            "tools": [_WEATHER],
        },
        "The client receives an error instead of a normal end: the partial call is not closed, so no agent runs it.",
        _check_broken,
    ),
    Scene(
        "a stored conversation",
        {"model": "messages/sim-text", "stream": True, "input": "And in summer?"},
        "The client sends only its new message and the id of the response before it. The gateway has stored that one, "
        "and sends the whole conversation to an upstream that stores nothing.",
        _check_continued,
        {"model": "messages/sim-text", "input": "How is the weather in Oslo?"},
    ),
    Scene(
        "a request that cannot be translated",
        {"model": "sim-text", "n": 2, "messages": [{"role": "user", "content": "Hello!"}]},
        "Messages has no n: the client receives a 400 in its own dialect that names the field.",
        _check_rejected,
    ),
)

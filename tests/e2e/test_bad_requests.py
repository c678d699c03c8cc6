"""The reply to a wrong request: its client's own envelope, the field's own path, and nothing is sent upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from support.gateways import CHAT, CROSS, MESSAGES, Gate, config_for, gate, raw_exchange, with_limits
from support.samples import TOOL, dump, read_error, reply, request
from support.sockets import ScriptedServer, answer


class Stage(NamedTuple):
    """A gateway for either direction, and the upstreams that must stay idle."""

    gate: Gate
    upstreams: dict[Dialect, ScriptedServer]

    def untouched(self) -> bool:
        return not any(upstream.connections for upstream in self.upstreams.values())


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """`chat/…` and `messages/…` name the upstream; `strict/chat/…` is the same with losses refused."""
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as chat,
        ScriptedServer(answer(200, dump(reply(MESSAGES)))) as messages,
    ):
        upstreams = {CHAT: chat, MESSAGES: messages}
        providers = {d.value: Provider(d.value, d, server.url) for d, server in upstreams.items()}
        routes = [Route(f"strict/{d}/*", d.value, "*", knobs={"on_loss": "reject"}) for d in upstreams]
        config = with_limits(Config(providers, [*routes, Route("only", "chat")]), request_body=4096, messages=50)
        async with gate(config) as entrance:
            yield Stage(entrance, upstreams)


class Case(NamedTuple):
    """A change of the sample request and the path that must be named."""

    path: str
    fields: dict[str, Any]


def _user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


OTHER = {
    CHAT: {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "required": ["at"]}}},
    MESSAGES: {"name": "look", "input_schema": {"type": "object", "required": ["at"]}},
}
"""Another tool of the name of `TOOL`. The same one twice is one."""

CHAT_CASES = [
    Case("model", {"model": None}),
    Case("model", {"model": ""}),
    Case("model", {"model": 3}),
    Case("messages", {"messages": None}),
    Case("messages", {"messages": "Hi"}),
    Case("messages", {"messages": []}),
    Case("messages[0]", {"messages": ["Hi"]}),
    Case("messages[0].role", {"messages": [{"role": "wizard", "content": "Hi"}]}),
    Case("messages[0].content", _user(7)),
    Case("messages[0].content[1]", _user([{"type": "text", "text": "a"}, "b"])),
    Case("messages[0].content[0].text", _user([{"type": "text", "text": 1}])),
    Case("messages[0].content[0]", _user([{"type": "hologram", "hologram": {}}])),
    Case("messages[0].content[0]", _user([{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}])),
    Case("stream", {"stream": "yes"}),
    Case("temperature", {"temperature": "hot"}),
    Case("temperature", {"temperature": True}),
    Case("top_p", {"top_p": [1]}),
    Case("max_tokens", {"max_tokens": 1.5}),
    Case("max_completion_tokens", {"max_completion_tokens": 0}),
    Case("stop[1]", {"stop": ["a", 2]}),
    Case("n", {"n": 2}),
    Case("tools", {"tools": {}}),
    Case("tools[0]", {"tools": [{"type": "custom", "custom": {"name": "patch"}}]}),
    Case("tools[0].type", {"tools": [{"type": "telepathy"}]}),
    Case("tools[0].function.name", {"tools": [{"type": "function", "function": {"name": 5}}]}),
    Case("tools[1]", {"tools": [TOOL[CHAT], OTHER[CHAT]]}),
    Case("tool_choice", {"tool_choice": 1}),
    Case("functions", {"functions": [{"name": "f"}]}),
    Case("function_call", {"function_call": "auto"}),
    Case("messages[1]", {"messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    ]}),
    Case("response_format.type", {"response_format": {"type": "poem"}}),
    Case("logprobs", {"logprobs": True}),
    Case("modalities[0]", {"modalities": ["audio"]}),
]  # fmt: skip

MESSAGES_CASES = [
    Case("model", {"model": None}),
    Case("model", {"model": ["m"]}),
    Case("max_tokens", {"max_tokens": None}),
    Case("max_tokens", {"max_tokens": "100"}),
    Case("max_tokens", {"max_tokens": -1}),
    Case("messages", {"messages": None}),
    Case("messages", {"messages": {}}),
    Case("messages", {"messages": []}),
    Case("messages[0]", {"messages": [None]}),
    Case("messages[0].role", {"messages": [{"role": "tool", "content": "Hi"}]}),
    Case("messages[0].content", _user(None)),
    Case("messages[0].content[0].type", _user([{"text": "a"}])),
    Case("messages[0].content[1]", _user([{"type": "text", "text": "a"}, 3])),
    Case("messages[0].content[0].text", _user([{"type": "text", "text": None}])),
    Case("messages[0].content[0]", _user([{"type": "hologram"}])),
    Case("messages[0].content[0].source", _user([{"type": "image", "source": "https://x/y.png"}])),
    Case("messages[0].content[0].tool_use_id", _user([{"type": "tool_result", "content": "x"}])),
    Case("system", {"system": 4}),
    Case("stream", {"stream": 1}),
    Case("temperature", {"temperature": "0"}),
    Case("top_k", {"top_k": 1.5}),
    Case("stop_sequences[0]", {"stop_sequences": [1]}),
    Case("tools", {"tools": "look"}),
    Case("tools[0]", {"tools": ["look"]}),
    Case("tools[0].name", {"tools": [{"input_schema": {}}]}),
    Case("tools[1].name", {"tools": [TOOL[MESSAGES], OTHER[MESSAGES]]}),
    Case("tool_choice.type", {"tool_choice": {"type": "perhaps"}}),
    Case("container", {"container": "c_1"}),
    Case("mcp_servers", {"mcp_servers": [{"type": "url", "url": "https://x", "name": "x"}]}),
    Case("thinking.type", {"thinking": {"type": "deep"}}),
]  # fmt: skip

CASES = [(client, case) for client, cases in ((CHAT, CHAT_CASES), (MESSAGES, MESSAGES_CASES)) for case in cases]


def _names(noted: Any, client: Dialect, path: str) -> bool:
    """Return whether the error names exactly this path, in the client's way."""
    return bool(noted.message.startswith(f"{path}: ")) and (client is MESSAGES or noted.param == path)


async def test_wrong_fields_answer_400_naming_the_path(stage: Stage) -> None:
    failed = []
    for client, case in CASES:
        other = MESSAGES if client is CHAT else CHAT
        fields = {"model": f"{other}/m", **case.fields}
        status, noted, headers = await stage.gate.refusal(client, **fields)
        kept = headers.get("x-request-id" if client is CHAT else "request-id", "").startswith("req_")
        right = status == 400 and noted.type == "invalid_request_error" and _names(noted, client, case.path) and kept
        if not right or not stage.untouched():
            failed.append((client, case, status, noted))
    assert not failed, "\n".join(map(str, failed))


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1, 2]", b'"Hi"', b"null", b'{"model": "m",}', b'{"model": NaN}', b"\xff\xfe{}", b"a=1&b=2"]
)
async def test_a_body_that_is_no_json_object_is_refused(stage: Stage, client: Dialect, body: bytes) -> None:
    status, noted, _ = await stage.gate.refusal(client, body)
    assert (status, noted.type) == (400, "invalid_request_error")
    assert "JSON" in noted.message
    assert stage.untouched()


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
async def test_an_unknown_model_answers_404_with_the_known_ones(stage: Stage, client: Dialect) -> None:
    status, noted, _ = await stage.gate.refusal(client, model="nobody")
    assert status == 404
    assert "'nobody'" in noted.message
    assert "known models: only" in noted.message
    assert noted.type == ("invalid_request_error" if client is CHAT else "not_found_error")
    assert (noted.param, noted.code) == (("model", "model_not_found") if client is CHAT else (None, None))
    assert stage.untouched()


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_an_oversized_body_answers_413_before_it_is_read(stage: Stage, client: Dialect, framing: str) -> None:
    """With a length the body need not even come; in chunks no more than the limit is read."""
    path = "/v1/chat/completions" if client is CHAT else "/v1/messages"
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n".encode()
    if framing == "length":
        sent = head + b"content-length: 1000000000\r\n\r\n"
    else:
        piece = b"800\r\n" + b" " * 0x800 + b"\r\n"
        sent = head + b"transfer-encoding: chunked\r\n\r\n" + piece * 3  # and the end never comes
    answered = await raw_exchange(stage.gate.port, sent)
    assert answered.startswith(b"HTTP/1.1 413 ")
    noted = read_error(client, answered.partition(b"\r\n\r\n")[2])
    assert "request_body = 4096" in noted.message
    assert noted.type == ("invalid_request_error" if client is CHAT else "request_too_large")
    assert stage.untouched()


@pytest.mark.parametrize(("client", "upstream"), CROSS)
async def test_too_many_messages_answer_400(stage: Stage, client: Dialect, upstream: Dialect) -> None:
    many = [{"role": "user", "content": "x"}] * 51
    status, noted, _ = await stage.gate.refusal(client, model=f"{upstream}/m", messages=many)
    assert status == 400
    assert noted.message == "messages: holds 51 messages; the limit messages is 50"
    assert stage.untouched()


STRICT = [
    (CHAT, "seed", {"seed": 7}),
    (CHAT, "messages[0].name", {"messages": [{"role": "user", "name": "ann", "content": "Hi"}]}),
    (CHAT, "prediction", {"prediction": {"type": "content", "content": "x"}}),
    (CHAT, "mystery", {"mystery": 1}),
    (MESSAGES, "top_k", {"top_k": 5}),
    (MESSAGES, "mystery", {"mystery": 1}),
    (MESSAGES, "context_management", {"context_management": {"edits": []}}),
]


@pytest.mark.parametrize(("client", "path", "fields"), STRICT)
async def test_strict_mode_makes_a_loss_a_400_and_otherwise_it_is_reported(
    stage: Stage, client: Dialect, path: str, fields: dict[str, Any]
) -> None:
    other = MESSAGES if client is CHAT else CHAT
    status, noted, _ = await stage.gate.refusal(client, model=f"strict/{other}/m", **fields)
    assert status == 400
    assert _names(noted, client, path), noted
    assert stage.untouched()
    async with stage.gate.post(client, model=f"{other}/m", **fields) as response:
        assert response.status == 200
        assert response.headers["x-dragoman-loss"]
    assert len(stage.upstreams[other].requests) == 1


@pytest.mark.parametrize(("client", "upstream"), CROSS)
async def test_strict_mode_lets_a_lossless_request_through(stage: Stage, client: Dialect, upstream: Dialect) -> None:
    limit: dict[str, Any] = {"max_completion_tokens": 100} if client is CHAT else {}
    async with stage.gate.post(client, model=f"strict/{upstream}/m", **limit) as response:
        assert response.status == 200
        assert "x-dragoman-loss" not in response.headers
    assert len(stage.upstreams[upstream].requests) == 1


@pytest.mark.parametrize("content", ["assistant text", [{"type": "text", "text": "assistant text"}]])
async def test_a_prefill_is_refused_where_the_knob_demands_it(content: Any) -> None:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content}]
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        config = config_for(server.url, CHAT)
        knob: Any
        for knob, asked in (("reject", 0), ("auto", 1)):
            knobs = replace(config.knobs, prefill=knob)
            async with gate(replace(config, knobs=knobs)) as entrance:
                if asked:
                    async with entrance.post(MESSAGES, messages=turns) as response:
                        assert response.status == 200
                else:
                    status, noted, _ = await entrance.refusal(MESSAGES, messages=turns)
                    assert status == 400
                    assert _names(noted, MESSAGES, "messages[1]")
            assert len(server.requests) == asked


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
async def test_a_body_compressed_wrongly_is_the_clients_fault(
    stage: Stage, client: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    status, noted, _ = await stage.gate.refusal(client, b"no gzip at all", headers={"content-encoding": "gzip"})
    assert (status, noted.message) == (400, "the body cannot be read: its gzip body is corrupt")
    async with stage.gate.post(client, model="only") as response:
        assert response.status == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_passthrough_leaves_the_judgement_to_the_upstream(stage: Stage) -> None:
    """Only what the gateway itself reads is judged: the model and the size."""
    odd = request(CHAT, model="chat/m", n=2, tools=[{"type": "custom", "custom": {"name": "patch"}}])
    async with stage.gate.post(CHAT, odd) as response:
        assert response.status == 200
    assert len(stage.upstreams[CHAT].requests) == 1

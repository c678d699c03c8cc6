"""Each quirk of a host is found through a whole gateway, and named with the setting that repairs it."""

from __future__ import annotations

import copy
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest
from aiohttp import ClientSession, web

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.cli.tool_calls.ask import ask
from dragoman_server.cli.tool_calls.differences import differences
from dragoman_server.cli.tool_calls.question import models_to_ask
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Config
from oracles.simulator import strict_simulator
from support.gateways import served

Json = dict[str, Any]
Handler = Callable[[web.Request], Any]
Found = dict[str, list[tuple[str, str]]]
"""Code and repair of each difference, by client."""
FLAG = "profile_flags."
ARGUMENTS = '{"city":"Oslo","days":2}'
HEAD: Json = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
USAGE: Json = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    return HEAD | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more


def piece(**fields: Any) -> Json:
    return chunk({"tool_calls": [{"index": 0, **fields}]})


GOOD: list[Json] = [
    chunk({"role": "assistant", "content": ""}),
    piece(id="call_1", type="function", function={"name": "get_weather", "arguments": ""}),
    piece(function={"arguments": ARGUMENTS}),
    chunk({}, "tool_calls"),
    HEAD | {"choices": [], "usage": USAGE},
]
"""A stream without a quirk."""


def changed(number: int, **choice: Any) -> list[Json]:
    """The stream with other fields in the choice of one chunk."""
    chunks = copy.deepcopy(GOOD)
    chunks[number]["choices"][0] |= choice
    return chunks


def called(**fields: Any) -> list[Json]:
    """The stream with other fields in the first piece of its call."""
    first = GOOD[1]["choices"][0]["delta"]["tool_calls"][0]
    return changed(1, delta={"tool_calls": [{**first, **fields}]})


def with_reasoning(field: str, value: Any = "I think") -> list[Json]:
    return [GOOD[0], chunk({field: value}), *GOOD[1:]]


def written(text: str) -> list[Json]:
    return [GOOD[0], chunk({"content": text}), chunk({}, "stop"), GOOD[-1]]


def streaming(chunks: list[Json], *, done: bool = True) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        frames = [f"data: {json.dumps(each)}\n\n" for each in chunks]
        return web.Response(text="".join([*frames, "data: [DONE]\n\n" * done]), content_type="text/event-stream")

    return answer


def failing(status: int, message: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"error": {"message": message, "type": "x", "code": None}}, status=status)

    return answer


async def whole(_: web.Request) -> web.Response:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return web.json_response({**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE})


@asynccontextmanager
async def host(answer: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with served(app) as (url, _):
        yield url


async def found(answer: Handler, profile: str = "compatible", **flags: Any) -> Found:
    """The differences of a host with this handler from a profile."""
    async with host(answer) as url:
        return await found_at(f"{url}/v1", Dialect.CHAT, "m", profile, **flags)


async def found_at(url: str, dialect: Dialect, model: str, profile: str, **flags: Any) -> Found:
    abilities = builtin_profile(dialect, profile).replace(flags)
    config = Config(providers={"up": Provider("up", dialect, url, profile=abilities)})
    answers = await ask(config, models_to_ask(config, [model]))
    return {
        answer.client.value: [(each.code, str(each.repair or "").removeprefix(FLAG)) for each in differences(answer)]
        for answer in answers
    }


def everywhere(*pairs: tuple[str, str]) -> Found:
    return {dialect.value: list(pairs) for dialect in CLIENT_DIALECTS}


def translated(*pairs: tuple[str, str]) -> Found:
    return everywhere(*pairs) | {"chat": []}


@pytest.mark.parametrize("dialect", list(Dialect))
async def test_the_simulated_vendors_have_no_differences(dialect: Dialect) -> None:
    async with served(strict_simulator()) as (url, _):
        assert await found_at(url, dialect, "sim-tools", dialect.facts.vendor) == everywhere()


async def test_a_stream_without_a_quirk_has_no_differences() -> None:
    assert await found(streaming(GOOD)) == everywhere()


QUIRKS: list[tuple[str, Handler, Found]] = [
    ("name", streaming(called(function={"name": "weather", "arguments": ""})), everywhere(("name", ""))),
    (
        "arguments that are not JSON",
        streaming(changed(2, delta={"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]})),
        everywhere(("error", "")),
    ),
    (
        "arguments of another type",
        streaming(
            changed(2, delta={"tool_calls": [{"index": 0, "function": {"arguments": '{"city":"Oslo","days":"2"}'}}]})
        ),
        everywhere(("arguments", "")),
    ),
    ("a call without an id", streaming(called(id="")), everywhere(("call_id", ""))),
    ("short ids", streaming(called(id="a1B2c3D4e")), everywhere(("call_id", "call_id_max = 9"))),
    (
        "stop reason",
        streaming(changed(3, finish_reason="stop")),
        everywhere(("stop", "")) | {"chat": [("loss", "")]},  # corrected in the forwarded stream
    ),
    ("output limit", streaming(changed(3, finish_reason="length")), everywhere(("length", ""))),
    ("no usage", streaming(GOOD[:-1]), everywhere(("usage", ""))),
    ("no end", streaming(GOOD, done=False), everywhere() | {"chat": [("no_end", "")]}),
    (
        "unknown field",
        streaming([GOOD[0], chunk({"mood": "fine"}), *GOOD[1:]]),
        translated(("loss", "")),
    ),
    ("reasoning", streaming(with_reasoning("reasoning")), everywhere(("reasoning", 'reasoning_key = "reasoning"'))),
    (
        "reasoning details",
        streaming(with_reasoning("reasoning_details", [{"type": "reasoning.text", "text": "I think", "index": 0}])),
        everywhere(("reasoning", "reasoning_details = true")),
    ),
    (
        "signed calls",
        streaming(called(extra_content={"google": {"thought_signature": "c2lnbmVk"}})),
        everywhere(("signature", "signed_calls = true")),
    ),
    ("a call in the text", streaming(written('<tool_call>{"name": "get_weather"}')), everywhere(("no_call", ""))),
    ("no call", streaming(written("It will rain.")), everywhere(("no_call", ""))),
    ("a whole reply", whole, everywhere(("not_streamed", ""))),
    (
        "an error in the stream",
        streaming([GOOD[0], {"error": {"message": "full", "code": 500}}]),
        everywhere(("error", "")),
    ),
    ("key", failing(401, "no such key"), everywhere(("key", ""))),
    ("model", failing(404, "no such model"), everywhere(("model", ""))),
    ("rate", failing(429, "slow down"), everywhere(("rate", ""))),
    ("defect", failing(500, "oops"), everywhere(("status", ""))),
    (
        "stream_options",
        failing(400, "Unrecognized request argument supplied: stream_options"),
        everywhere(("refused", "stream_usage = false")),
    ),
    (
        "tool_choice",
        failing(400, "tool_choice: only auto is supported"),
        everywhere(("refused", 'tool_choice = "unforced"')),
    ),
    (
        "max_tokens",
        failing(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        everywhere(("refused", 'max_tokens_field = "max_completion_tokens"')),
    ),
    ("something", failing(400, "no"), everywhere(("refused", ""))),
]


@pytest.mark.few
@pytest.mark.parametrize(("name", "answer", "expected"), QUIRKS, ids=[quirk[0] for quirk in QUIRKS])
async def test_a_quirk_is_found_and_named(name: str, answer: Handler, expected: Found) -> None:
    assert await found(answer) == expected


async def test_usage_next_to_choices_is_read_with_a_flag() -> None:
    answer = streaming([*GOOD[:3], GOOD[3] | {"usage": USAGE}])
    repair = ("usage", 'usage_fallback = "last_seen"')
    assert await found(answer, usage_fallback="none") == translated(repair)
    assert await found(answer) == everywhere()


async def test_messages_without_their_last_event() -> None:
    simulator = strict_simulator()

    async def answer(request: web.Request) -> web.Response:
        async with served(simulator) as (url, _), ClientSession() as session:
            headers = {"anthropic-version": "2023-06-01"}
            async with session.post(url + "/v1/messages", data=await request.read(), headers=headers) as response:
                frames = (await response.text()).partition("event: message_stop")[0]
        return web.Response(text=frames, content_type="text/event-stream")

    async with host(answer) as url:
        args = url, Dialect.MESSAGES, "sim-tools"
        missing = ("no_end", "message_stop = false")
        assert missing in (await found_at(*args, "anthropic"))["messages"]
        assert await found_at(*args, "anthropic", message_stop=False) == everywhere()


async def test_the_report_states_a_host_that_is_away() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    assert await found_at(url, Dialect.CHAT, "m", "compatible") == everywhere(("no_reply", ""))

"""`server.prefix_diagnostics`: the receipt reports how far a request repeats the previous one, and what broke it."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.gateway import PromptDigest
from dragoman_server.config.provider import Secret
from dragoman_server.observability.prompt_cache import SIDES, PromptCacheDiagnostics
from support.gateways import ALL, CHAT, MESSAGES, Gate, config_for, gate
from support.samples import dump, reply
from support.sockets import ScriptedServer, answer

OWN = "x-dragoman-request-id"
TOOLS: dict[Dialect, Any] = {
    Dialect.CHAT: [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    Dialect.MESSAGES: [{"name": "f", "input_schema": {"type": "object"}}],
    Dialect.RESPONSES: [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}],
}


def stated(client: Dialect, *words: str) -> dict[str, Any]:
    turns = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(words)]
    return {"input" if client is Dialect.RESPONSES else "messages": turns}


async def noted(entrance: Gate, client: Dialect, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    sent = {"x-session-id": "s1", **(headers or {})}
    async with entrance.post(client, stream=False, headers=sent, **fields) as response:
        assert response.status == 200, await response.text()
        request_id = response.headers[OWN]
    keys = {name: value for name, value in sent.items() if name == "x-api-key"}
    async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}", headers=keys) as response:
        cache = (await response.json())["cache"]
    return request_id, cache


@pytest.mark.parametrize(("client", "upstream"), ALL)
async def test_the_receipt_reports_what_was_repeated_and_what_broke_it(client: Dialect, upstream: Dialect) -> None:
    script = answer(200, dump(reply(upstream)))
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, upstream, prefix_diagnostics=8)) as entrance,
    ):
        first, cache = await noted(entrance, client, **stated(client, "a"))
        assert cache["previous"] is None
        second, cache = await noted(entrance, client, **stated(client, "a", "b", "c"))
        assert (cache["previous"], cache["broken_by"], cache["common_share"]) == (first, None, 1.0)
        _, cache = await noted(entrance, client, **stated(client, "a", "b", "c"), tools=TOOLS[client])
        assert (cache["previous"], cache["broken_by"], cache["common_messages"]) == (second, "tools", 0)
        _, cache = await noted(entrance, client, {"x-session-id": "s2"}, **stated(client, "a", "b", "c"))
        assert cache["previous"] is None


async def test_another_key_of_the_same_session_is_another_conversation() -> None:
    script = answer(200, dump(reply(CHAT)))
    keys = (Secret("one"), Secret("two"))
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, CHAT, prefix_diagnostics=8, keys=keys)) as entrance,
    ):
        _, mine = await noted(entrance, MESSAGES, {"x-api-key": "one"}, **stated(MESSAGES, "a"))
        _, others = await noted(entrance, MESSAGES, {"x-api-key": "two"}, **stated(MESSAGES, "a"))
        assert others["previous"] is None
        assert others["conversation"] != mine["conversation"]


async def test_it_is_off_unless_it_is_asked_for() -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(config_for(server.url, CHAT)) as entrance,
    ):
        assert (await noted(entrance, MESSAGES, **stated(MESSAGES, "a")))[1] is None


def compare(prefixes: PromptCacheDiagnostics, request_id: str, *words: str, session: str = "s", **fields: Any) -> Any:
    from dragoman.dialects.directions import direction
    from dragoman.translate_request import translate

    payload = {"model": "m", **stated(CHAT, *words), **fields}
    headers = {"x-session-id": session} if session else {}
    translation = translate(direction("chat", "messages"), dump(payload))
    prompt = PromptDigest.of(MESSAGES, translation.body)
    return prefixes.compare(prompt, translation, payload, headers, b"", request_id)


def test_a_request_is_held_against_the_one_that_it_goes_on_from() -> None:
    """Agents ask for titles, and start sub-agents, next to their main turns and under the same session."""
    prefixes = PromptCacheDiagnostics(2)
    compare(prefixes, "main", "a")
    compare(prefixes, "title", "name it")
    assert compare(prefixes, "main-2", "a", "b", "c")["previous"] == "main"
    assert compare(prefixes, "title-2", "name it", "d", "e")["previous"] == "title"


def test_the_body_may_name_the_conversation() -> None:
    prefixes = PromptCacheDiagnostics(2)
    compare(prefixes, "1", "a", session="", prompt_cache_key="k")
    assert compare(prefixes, "2", "a", session="", prompt_cache_key="k")["previous"] == "1"
    assert compare(prefixes, "3", "a", session="", prompt_cache_key="l")["previous"] is None


def test_what_is_remembered_is_bounded() -> None:
    prefixes = PromptCacheDiagnostics(2)
    for session in ("s", "t", "u"):
        compare(prefixes, session, "a", session=session)
    assert compare(prefixes, "t2", "a", session="t")["previous"] == "t"
    assert compare(prefixes, "s2", "a", session="s")["previous"] is None
    for number in range(SIDES):
        compare(prefixes, f"x{number}", f"x{number}", session="t")
    assert compare(prefixes, "t3", "a", session="t")["broken_by"] == "messages[0]"

"""One client makes a feature fail for itself: it stays on for the others."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from support.gateways import gate, served
from support.named_keys import made
from support.samples import reply
from support.stateful import MEMORY, stateful, with_state

MODEL = "sim-text"
TEXT = "A line of a file that the agent has read. " * 60


def history(name: str) -> list[Any]:
    items: list[Any] = [{"type": "message", "role": "user", "content": f"Read the files of {name}."}]
    for number in range(12):
        call_id = f"call_{number}"
        items += [
            {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": call_id, "output": TEXT},
        ]
    return [*items, {"type": "message", "role": "user", "content": "What is in them?"}]


THRESHOLD = [{"type": "compaction", "compact_threshold": 4000}]


async def test_a_summary_that_a_clients_limit_refuses_leaves_compaction_on() -> None:
    (one, record), (two, other) = made("one", requests_per_minute=1), made("two")
    async with stateful(Dialect.CHAT, MEMORY, keys=(record, other)) as state:
        # The reply before it has used the only request of this minute.
        await state.client(one).responses.create(model=MODEL, input="Hello")
        for _ in range(2):
            with pytest.raises(Exception, match="429"):
                await state.client(one).responses.create(
                    model=MODEL, input=history("one"), context_management=THRESHOLD
                )
        response = await state.client(two).responses.create(
            model=MODEL, input=history("two"), context_management=THRESHOLD
        )
        assert response.output[0].type == "compaction"


async def test_a_summary_that_content_makes_fail_leaves_compaction_on() -> None:
    """Without keys: for the other conversations."""

    async def answer(request: web.Request) -> web.Response:
        text = await request.text()
        requests.append(text)
        failed = "poison" in text and "Write the summary now." in text
        return web.json_response(
            {"error": {"message": "no"}} if failed else reply(Dialect.CHAT), status=500 * failed or 200
        )

    requests: list[str] = []
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    async with served(app) as (url, _):
        config = Config(providers={"up": Provider("up", Dialect.CHAT, f"{url}/v1")}, routes=[Route("*", "up")])
        async with gate(with_state(config)) as entrance:
            kinds = []
            for name in ("poison", "poison", "another project"):
                body = {"model": "m", "input": history(name), "context_management": THRESHOLD}
                async with entrance.session.post(f"{entrance.url}/v1/responses", json=body) as response:
                    kinds.append([item["type"] for item in (await response.json())["output"]])
    print(f"{len(requests)} requests: {kinds}")
    assert kinds == [["message"], ["message"], ["compaction", "message"]]
    assert len(requests) == 1 + 1 + 1 + 2


async def test_a_key_without_a_model_leaves_exact_counts_on() -> None:
    """A vendor answers 404 to a client's own key that may not use a model."""

    async def answer(request: web.Request) -> web.Response:
        keys.append(request.headers["x-api-key"])
        if keys[-1] == "sk-attacker":
            error = {"type": "error", "error": {"type": "not_found_error", "message": "model: m"}}
            return web.json_response(error, status=404)
        return web.json_response({"input_tokens": 12345})

    keys: list[str] = []
    app = web.Application()
    app.router.add_post("/v1/messages/count_tokens", answer)
    async with served(app) as (url, _):
        provider = Provider("up", Dialect.MESSAGES, url, auth=Auth.PASSTHROUGH)
        async with gate(Config(providers={"up": provider}, routes=[Route("*", "up")])) as entrance:
            counts = []
            for key in ("sk-attacker", "sk-attacker", "sk-another"):
                body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
                sent = entrance.session.post(
                    f"{entrance.url}/v1/messages/count_tokens", json=body, headers={"x-api-key": key}
                )
                async with sent as response:
                    counts.append((await response.json())["input_tokens"])
    print(f"counts {counts} by keys {keys}")
    assert counts[2] == 12345
    assert counts[0] == counts[1] != 12345
    assert keys == ["sk-attacker", "sk-another"]

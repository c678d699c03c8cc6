"""`POST /v1/dragoman/explain` and `dragoman explain`: what a request would become, with nothing called."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from dragoman import Usage
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.gateway import ServiceReport
from dragoman_server.cli.main import main
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models, Server
from dragoman_server.proxy.hooks import Hooks
from support.gateways import CHAT, MESSAGES, Gate, config_for, gate
from support.named_keys import made, spent, with_keys
from support.samples import dump, read_error, reply, request
from support.sockets import ScriptedServer, answer

RESPONSES = Dialect.RESPONSES
EVERY = [(client, upstream) for client in CLIENT_DIALECTS for upstream in Dialect]


class Explained:
    """A gateway with a provider of each dialect at one scripted server."""

    def __init__(self, entrance: Gate, server: ScriptedServer) -> None:
        self.gate, self.server = entrance, server

    async def ask(self, body: Any, query: str = "", **headers: str) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) else dump(body)
        url = f"{self.gate.url}/v1/dragoman/explain{query}"
        async with self.gate.session.post(url, data=data, headers=headers) as response:
            assert response.headers["x-dragoman-request-id"].startswith("req_")
            return response.status, await response.read()

    async def explain(self, body: Any, query: str = "", **headers: str) -> dict[str, Any]:
        status, raw = await self.ask(body, query, **headers)
        assert status == 200, raw
        noted: dict[str, Any] = json.loads(raw)
        return noted


@pytest.fixture
async def explained() -> AsyncIterator[Explained]:
    async with ScriptedServer(answer(200, b"{}")) as server:
        config = Config(
            providers={
                f"{d}-up": Provider(f"{d}-up", d, f"{server.url}/v1?key=hidden", Secret("sk-hidden")) for d in Dialect
            },
            routes=[Route(f"to-{d}", f"{d}-up", "upstream-model", knobs={"orphans": "strip"}) for d in Dialect],
            models=Models(small="chat-up/small", unknown="small"),
        )
        async with gate(config) as entrance:
            yield Explained(entrance, server)
        assert not server.requests, "explaining calls nothing"


@pytest.mark.parametrize(("client", "upstream"), EVERY)
async def test_the_body_is_what_would_be_sent(explained: Explained, client: Dialect, upstream: Dialect) -> None:
    noted = await explained.explain(request(client, model=f"to-{upstream}", stream=True), f"?from={client}")
    assert (noted["client"], noted["upstream"], noted["passthrough"]) == (client, upstream, client is upstream)
    assert (noted["provider"], noted["model"]) == (f"{upstream}-up", f"to-{upstream}")
    assert noted["upstream_model"] == "upstream-model"
    assert noted["stream"] is True
    if upstream.facts.names_target:
        assert (noted["body"]["model"], noted["body"]["stream"]) == ("upstream-model", True)
    path, _, _ = (upstream.facts.stream_path or upstream.facts.path).partition("?")
    assert noted["url"].endswith(f"/v1/{path}".replace("{model}", "upstream-model"))
    assert noted["knobs"] == {"orphans": "strip"}
    assert noted["stages"][0] == ("Passthrough" if client is upstream else "Parser")
    assert "hidden" not in json.dumps(noted)


async def test_the_same_bytes_go_upstream(explained: Explained) -> None:
    body = request(MESSAGES, model="to-chat", stream=False, system="Be brief.", top_k=3)
    noted = await explained.explain(body)
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
        providers = {"chat-up": Provider("chat-up", CHAT, server.url)}
        config = Config(providers=providers, routes=[Route("to-chat", "chat-up", "upstream-model")])
        async with gate(config) as entrance, entrance.post(MESSAGES, body) as response:
            assert response.status == 200
        assert server.requests[0].body == json.dumps(noted["body"], ensure_ascii=False, separators=(",", ":")).encode()
    assert noted["losses"] == [{"code": "top_k", "path": "top_k", "done": "dropped", "meaning": "top_k was not sent"}]


async def test_to_may_name_a_dialect_or_a_provider(explained: Explained) -> None:
    body = request(CHAT, model="to-chat", seed=7)
    general = await explained.explain(body, "?to=messages")
    assert (general["provider"], general["url"], general["path"]) == (None, None, "messages")
    assert general["upstream_model"] == "to-chat"
    assert general["knobs"] == {}
    there = await explained.explain(body, "?to=messages-up")
    assert (there["provider"], there["upstream_model"], there["knobs"]) == ("messages-up", "to-chat", {})
    # The route has its state where it leads to that very provider.
    routed = await explained.explain(body, "?to=chat-up")
    assert (routed["upstream_model"], routed["knobs"]) == ("upstream-model", {"orphans": "strip"})
    guessed = await explained.explain(request(CHAT, model="unknown"))
    assert guessed["upstream_model"] == "small"
    assert "unknown" in guessed["warning"]


async def test_tools_and_their_names_are_reported(explained: Explained) -> None:
    inner = [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}]
    tools = [
        {"type": "namespace", "name": "notes", "description": "Notes", "tools": inner},
        {"type": "custom", "name": "patch", "description": "Patch"},
    ]
    noted = await explained.explain(request(RESPONSES, model="to-chat", tools=tools))
    assert noted["renames"] == {"notes__add": "notes.add"}
    assert noted["tools"]["patch"] == {"name": "patch", "kind": "custom"}
    assert "ToolRestorer" in noted["stages"]


async def test_a_request_that_would_be_rejected_is_rejected_alike(explained: Explained) -> None:
    for client, body, query in (
        (MESSAGES, {"model": "to-chat", "max_tokens": 5, "messages": 7}, "?from=messages"),
        (CHAT, request(CHAT, model="to-messages", n=3), ""),
        (RESPONSES, {"model": "to-chat", "input": 7}, ""),
    ):
        status, raw = await explained.ask(body, query)
        async with explained.gate.post(client, body) as response:
            assert (status, read_error(client, raw)) == (response.status, read_error(client, await response.read()))
            assert status == 400
    wish = {"x-dragoman-on-loss": "reject"}
    status, raw = await explained.ask(request(CHAT, model="to-messages", seed=7), **wish)
    assert (status, read_error(CHAT, raw).param) == (400, "seed")


@pytest.mark.parametrize(
    ("body", "query", "status", "noted"),
    [
        (b"{", "", 400, "not valid JSON"),
        ({"model": "m", "max_tokens": 5, "messages": []}, "", 400, "give from=chat or from=messages"),
        ({"model": "to-chat", "messages": []}, "?from=klingon", 400, "from: expected one of chat, messages, responses"),
        (
            {"model": "to-chat", "messages": []},
            "?to=nowhere",
            400,
            "responses, generate, chat-up, messages-up, responses-up",
        ),
        ({"model": "to-chat", "messages": []}, "?to=", 400, "to: expected one of"),
        ({"messages": []}, "", 400, "model"),
        ({"model": 7, "messages": []}, "?to=chat", 400, "model"),
    ],
)
async def test_wrong_questions_are_reported(
    explained: Explained, body: Any, query: str, status: int, noted: str
) -> None:
    code, raw = await explained.ask(body, query)
    assert code == status
    assert noted in read_error(CHAT, raw).message


async def test_an_unknown_model_is_404_and_a_wrong_key_401() -> None:
    config = Config(
        providers={"up": Provider("up", CHAT, "http://127.0.0.1:9")},
        routes=[Route("known", "up")],
        server=Server(keys=(Secret("k"),)),
    )
    async with gate(config) as entrance:
        url = f"{entrance.url}/v1/dragoman/explain"
        for headers, status in (({}, 401), ({"x-api-key": "k"}, 404)):
            async with entrance.session.post(url, data=dump(request(CHAT, model="else")), headers=headers) as response:
                assert response.status == status
                read_error(CHAT, await response.read())
        body = dump(request(MESSAGES, model="known", max_tokens=5, system="x"))
        async with entrance.session.post(url, data=body, headers={"x-api-key": "k"}) as response:
            assert (await response.json())["direction"] == "messages→chat"


# --- on the command line ---------------------------------------------------------------------------------------------


def test_the_command_states_the_same(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(dump(request(MESSAGES, model="claude-x", system="Grüße", top_k=3)))
    args = ["explain", "--to", "chat", "--model", "qwen3", "--profile", "compatible", str(path)]
    assert main(args) == 0
    stated = capfdbinary.readouterr()
    assert stated.err == b"read as a messages request, because of its fields; use --from for another dialect\n"
    text = stated.out.decode()
    assert text.startswith("messages → chat: translated\n")
    assert "loss top_k at top_k: dropped (top_k was not sent)" in text
    assert main([*args, "--json"]) == 0
    noted = json.loads(capfdbinary.readouterr().out)
    assert noted["body"]["messages"][0] == {"role": "system", "content": "Grüße"}
    assert main([*args, "--knob", "on_loss=reject"]) == 1
    assert capfdbinary.readouterr().err.startswith(b"dragoman: top_k: ")
    path.write_bytes(dump(request(MESSAGES)))
    assert main(["explain", "--to", "chat", str(path)]) == 1
    assert b"give --from chat or --from messages" in capfdbinary.readouterr().err
    assert main(["explain", "--from", "messages", "--to", "responses", "--json", str(path)]) == 0
    stated = capfdbinary.readouterr()
    assert json.loads(stated.out)["path"] == "responses"
    assert not stated.err


async def test_the_reservation_in_the_budgets_of_the_key_is_shown() -> None:
    class Prices:
        def cost(
            self, usage: Usage, model: str, provider: str | None = None, service: ServiceReport | None = None
        ) -> Decimal | None:
            return Decimal("0.001") * (usage.input_total or 0) + Decimal("0.01") * (usage.output_total or 0)

    key, record = made(daily_tokens=10**6, monthly_cost=50.0)
    other, without = made("bob")
    config = with_keys(config_for("http://up", CHAT), record, without)
    async with gate(config, hooks=Hooks(prices=Prices())) as entrance:

        async def reservation(key: str, **fields: Any) -> Any:
            url, headers = f"{entrance.url}/v1/dragoman/explain?from=messages", {"authorization": f"Bearer {key}"}
            async with entrance.session.post(url, json=request(MESSAGES, **fields), headers=headers) as response:
                return (await response.json())["reservation"]

        amounts = {"daily_tokens": "500 tokens", "monthly_cost": "5.00"}
        assert await reservation(key, max_tokens=500) == {"output_tokens": 500, "by": "max_tokens", "budgets": amounts}
        assert await reservation(other, max_tokens=500) == {"output_tokens": 500, "by": "max_tokens"}
        assert await spent(entrance, record) == {}

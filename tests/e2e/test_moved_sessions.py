"""Sessions that move from Gemini to every other upstream and back, and the other way round.

Each client plays one session with tools, signed reasoning, parallel calls, a failed call and a picture. One upstream of
each API answers in turn. They check requests as the real ones do, and reject reasoning that they did not sign.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from aiohttp import web

from dragoman_server.config.load import simulated_config
from dragoman_server.simulator import REQUESTS
from dragoman_server.simulator.render_generate import call_signature
from oracles.requests.generate import SKIP
from oracles.simulator import strict_simulator
from support.gateways import Gate, gate, served
from support.moving import PLAN, TOOL, Answer, Session, result_of, session

Json = dict[str, Any]
FROM_GEMINI = ("generate", "generate", "messages", "chat", "responses", "generate", "messages", "generate", "generate")
TO_GEMINI = ("messages", "chat", "generate", "responses", "generate", "messages", "generate", "responses", "generate")
"""The upstreams of each turn. The last two answer a second prompt of the user, without calls."""
LEFT_OUT = {"reasoning_foreign", "reasoning_unsigned"}
"""The losses of reasoning that its own upstream made, and this one does not get."""


@dataclass
class Moved:
    """A session at a gateway before a simulated upstream of each API."""

    gate: Gate
    simulator: web.Application
    session: Session

    async def turn(self, upstream: str) -> tuple[Answer, Json, set[str]]:
        """The reply of the next turn, the request that the upstream got, and the codes of what was lost."""
        answer = await self.session.ask(f"{upstream}/sim-agent")
        receipt = next(iter(self.gate.gateway.receipts.newest()))
        return answer, self.simulator[REQUESTS][-1].body, {row["code"] for row in json.loads(receipt.json())["losses"]}


@pytest.fixture
async def entrance() -> AsyncIterator[tuple[Gate, web.Application]]:
    simulator = strict_simulator(verify=True)
    async with served(simulator) as (url, _):
        config = simulated_config().with_simulator(url)
        async with gate(replace(config, server=replace(config.server, validate=1.0))) as found:
            yield found, simulator


@pytest.mark.turns
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("route", [FROM_GEMINI, TO_GEMINI], ids=["from_gemini", "to_gemini"])
@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
async def test_a_session_moves(
    entrance: tuple[Gate, web.Application], client: str, route: tuple[str, ...], streamed: bool
) -> None:
    """No request is rejected, no signature goes to another upstream, and what stays behind is reported."""
    async with session(client, entrance[0].url, streamed=streamed) as played:
        moved = Moved(*entrance, played)
        for number, upstream in enumerate(route):
            answer, sent, lost = await moved.turn(upstream)
            made = route[:number]
            if upstream == "generate":
                assert first_signatures(sent) == expected_signatures(made[: len(PLAN)], own=client != "chat")
            # Chat has no place for signatures: its clients send back texts only, which OpenAI's Chat models drop.
            foreign = made if client == "chat" and upstream != "chat" else {*made} - {upstream}
            assert bool(LEFT_OUT & lost) is (bool(foreign) and (client, upstream) != ("chat", "chat")), lost
            if number < len(PLAN):
                assert [at for _, at in answer.calls] == list(PLAN[number])
                played.answer(answer.calls)
            else:
                assert not answer.calls
                assert all(result_of(at) in answer.text for turn in PLAN for at in turn)
                assert "(pictures: 1)" in answer.text
                played.state("Thank you. Once more?")


def first_signatures(sent: Json) -> list[str | None]:
    """The signature of the first call of each reply with calls. No other call may have one."""
    found: list[str | None] = []
    for content in sent["contents"]:
        calls = [part for part in content["parts"] if "functionCall" in part]
        found += [part.get("thoughtSignature") for part in calls[:1]]
        assert not any("thoughtSignature" in part for part in calls[1:])
    return found


def expected_signatures(made: tuple[str, ...], *, own: bool) -> list[str]:
    """Those of Gemini's replies, if the client kept them, and Google's value for unsigned calls."""
    return [
        call_signature(TOOL, {"at": looked[0]}) if upstream == "generate" and own else SKIP
        for upstream, looked in zip(made, PLAN, strict=False)
    ]

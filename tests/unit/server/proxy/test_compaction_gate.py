"""The gate: stored conversations are compacted once when they reach a share of the context window."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dragoman import builtin_profile
from dragoman.dialects import Dialect
from dragoman.reasoning.compacted_history import HEADING
from dragoman.threads.history_cipher import TAG
from dragoman_server.config.compaction_options import CompactionOptions
from dragoman_server.config.provider import Secret
from dragoman_server.config.state_options import StateOptions
from support.named_keys import made
from support.stateful import MEMORY, Stateful, stateful
from support.texts import sent_texts
from support.thread_stores import KEY
from support.websockets import speaking

UPSTREAMS = pytest.mark.parametrize("upstream", list(Dialect))
MODEL = "sim-text"
LONG = "A line of a file that the agent has read. " * 60
GATE = CompactionOptions(share=0.8, context_windows=(("sim-t*", 5_000),))


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def loop(name: str, steps: int) -> list[Any]:
    items: list[Any] = []
    for number in range(steps):
        call_id = f"call_{name}_{number}"
        items += [
            {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": call_id, "output": f"{call_id} {LONG}"},
        ]
    return items


@asynccontextmanager
async def gated(upstream: Dialect, options: CompactionOptions = GATE, **config: Any) -> AsyncIterator[Stateful]:
    async with stateful(upstream, replace(MEMORY, compaction=options), **config) as state:
        yield state


def summaries(state: Stateful) -> int:
    """The requests for a summary that reached the upstream."""
    return sum("Write the summary now." in str(sent) for sent in state.simulator_requests())


@pytest.mark.turns
@UPSTREAMS
async def test_a_conversation_is_compacted_once_and_its_prompt_keeps_its_beginning(upstream: Dialect) -> None:
    async with gated(upstream) as state:
        create = state.sdk.responses.create
        response = await create(model=MODEL, input=[user("Q0?"), *loop("a", 20), user("Now?")])
        assert summaries(state) == 0  # it continues nothing
        prompts: list[list[str]] = []
        for number in range(1, 6):
            response = await create(model=MODEL, previous_response_id=response.id, input=f"Q{number}?")
            assert [item.type for item in response.output if item.type != "reasoning"] == ["message"]
            prompts.append(sent_texts(state.sent()))
            assert summaries(state) == 1
        for before, after in pairwise(prompts):
            assert after[: len(before)] == before
        assert prompts[0][0] == "Q0?"
        assert prompts[0][1].startswith(HEADING)
        assert [text for text in prompts[-1] if text.endswith("?")] == ["Q0?", "Now?", *(f"Q{n}?" for n in range(1, 6))]
        assert not any(LONG in text for text in prompts[-1])
        # It grows up to the window again, and is compacted again, with the summary.
        response = await create(model=MODEL, previous_response_id=response.id, input=[*loop("b", 20), user("Then?")])
        response = await create(model=MODEL, previous_response_id=response.id, input="Q6?")
        assert summaries(state) == 2
        texts = sent_texts(state.sent())
        assert sum(text.startswith(HEADING) for text in texts) == 1
        assert texts[-1] == "Q6?"
        await create(model=MODEL, previous_response_id=response.id, input="Q7?")
        assert summaries(state) == 2


@UPSTREAMS
async def test_a_branch_from_before_has_everything(upstream: Dialect) -> None:
    async with gated(upstream, replace(GATE, context_windows=(("*", 5_000),))) as state:
        create = state.sdk.responses.create
        first = await create(model=MODEL, input=[user("Q0?"), *loop("a", 6), user("Now?")])
        second = await create(model=MODEL, previous_response_id=first.id, input=[*loop("b", 4), user("Q1?")])
        third = await create(model=MODEL, previous_response_id=second.id, input="Q2?")
        assert summaries(state) >= 1
        node = await state.store.get("", third.id)
        listed = await state.sdk.responses.input_items.list(third.id, order="desc", limit=3)
        kinds = [item["type"] for item in node.input_items()]
        assert [item.type for item in listed.data][: len(kinds)] == kinds[::-1]
        assert (await state.store.get("", first.id)).input_items()[0] == user("Q0?")
        assert LONG in str((await state.store.get("", first.id)).input_items())


@pytest.mark.turns
@UPSTREAMS
async def test_a_conversation_of_the_api(upstream: Dialect) -> None:
    async with gated(upstream) as state:
        chat = await state.sdk.conversations.create(items=[user("Q0?")])
        await state.sdk.responses.create(model=MODEL, conversation=chat.id, input=[*loop("a", 20), user("Now?")])
        before = summaries(state)
        await state.sdk.responses.create(model=MODEL, conversation=chat.id, input="Q1?")
        await state.sdk.responses.create(model=MODEL, conversation=chat.id, input="Q2?")
        assert summaries(state) == before + 1
        texts = sent_texts(state.sent())
        assert [text for text in texts if text.endswith("?")] == ["Q0?", "Now?", "Q1?", "Q2?"]
        items = [item.type async for item in state.sdk.conversations.items.list(chat.id, order="asc")]
        assert items.count("compaction") == 1


@pytest.mark.turns
@UPSTREAMS
async def test_with_a_key_the_items_are_encrypted_for_their_client(upstream: Dialect, tmp_path: Path) -> None:
    options = StateOptions(
        kind="sqlite", path=str(tmp_path / "r.db"), encryption_key=Secret(KEY), compaction=replace(GATE, model=MODEL)
    )
    (alice, one), (bob, two) = made("alice"), made("bob")
    async with stateful(upstream, options, keys=(one, two)) as state:
        create = state.client(alice).responses.create
        items: Any = [user("Q0?"), *loop("a", 20), user("Now?")]
        compacted = await state.client(alice).responses.compact(model=MODEL, input=items)
        item = compacted.output[-1]
        assert item.encrypted_content.startswith(TAG)
        await create(model=MODEL, input=[item.to_dict(), user("Q1?")], store=False)
        assert any(text.startswith(HEADING) for text in sent_texts(state.sent()))
        counted = await state.client(alice).responses.input_tokens.count(model=MODEL, input=[item.to_dict()])
        assert counted.input_tokens < 5_000
        await state.client(bob).responses.create(model=MODEL, input=[item.to_dict(), user("Q1?")], store=False)
        assert not any(HEADING in text for text in sent_texts(state.sent()))
        managed: Any = [{"type": "compaction", "compact_threshold": 3_000}]
        first = await create(model=MODEL, input=items, context_management=managed)
        assert first.output[0].encrypted_content.startswith(TAG)
        second = await create(model=MODEL, previous_response_id=first.id, input=[*loop("b", 20), user("Q2?")])
        before = summaries(state)
        third = await create(model=MODEL, previous_response_id=second.id, input="Q3?")
        assert summaries(state) == before + 1
        await create(model=MODEL, previous_response_id=third.id, input="Q4?")
        assert summaries(state) == before + 1
        texts = sent_texts(state.sent())
        assert [text for text in texts if text.endswith("?")] == ["Q0?", "Now?", "Q2?", "Q3?", "Q4?"]
        listed = await state.client(alice).responses.input_items.list(third.id, order="desc", limit=2)
        assert [each.type for each in listed.data] == ["message", "compaction"]
        assert listed.data[1].encrypted_content.startswith(TAG)


async def test_what_is_not_stored_is_not_compacted() -> None:
    async with gated(Dialect.CHAT) as state:
        first = await state.sdk.responses.create(model=MODEL, input=[user("Q0?"), *loop("a", 20), user("Now?")])
        await state.sdk.responses.create(model=MODEL, previous_response_id=first.id, input="Q1?", store=False)
        assert summaries(state) == 0
        assert LONG in str(state.sent())
        async with speaking(state.gate.url) as client:
            turn = await client.turn(model=MODEL, input=[user("Q0?"), *loop("a", 20), user("Now?")], store=False)
            response = turn[-1]["response"]
            await client.turn(model=MODEL, input="Q1?", previous_response_id=response["id"], store=False)
        assert summaries(state) == 0


@pytest.mark.parametrize(
    "options", [CompactionOptions(), CompactionOptions(share=0.8), replace(GATE, context_windows=(("gpt-*", 10),))]
)
async def test_without_a_share_or_a_window_nothing_is_done(options: CompactionOptions) -> None:
    async with gated(Dialect.CHAT, options) as state:
        first = await state.sdk.responses.create(model=MODEL, input=[user("Q0?"), *loop("a", 20), user("Now?")])
        await state.sdk.responses.create(model=MODEL, previous_response_id=first.id, input="Q1?")
        managed: Any = [{"type": "compaction"}]
        await state.sdk.responses.create(
            model=MODEL, previous_response_id=first.id, input="Q2?", context_management=managed
        )
        assert summaries(state) == 0


async def test_a_threshold_is_a_share_of_the_window_if_none_is_given() -> None:
    profile = builtin_profile("chat").replace({"context_window": 5_000})
    async with gated(Dialect.CHAT, CompactionOptions()) as state:
        config = state.gate.gateway.config
        providers = {name: replace(provider, profile=profile) for name, provider in config.providers.items()}
        state.gate.gateway.reconfigure(replace(config, providers=providers))
        managed: Any = [{"type": "compaction"}]
        items: Any = [user("Q0?"), *loop("a", 20), user("Now?")]
        response = await state.sdk.responses.create(model=MODEL, input=items, context_management=managed)
        assert response.output[0].type == "compaction"
        response = await state.sdk.responses.create(model=MODEL, input="Q?", context_management=managed)
        assert response.output[0].type == "message"

"""State that the server keeps, as the clients' own documentation uses it, before an upstream of each dialect.

The clients are the official SDK (its examples of conversation state) and openai-agents (its server-managed sessions).
The latter takes seconds to import, in each worker that collects this file, so that only the tests import it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from dragoman.dialects import Dialect
from dragoman.reasoning.compacted_history import HEADING
from support.stateful import Stateful, stateful
from support.texts import sent_texts

UPSTREAMS = pytest.mark.parametrize("upstream", list(Dialect))
STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


# --- openai-agents ----------------------------------------------------------------------------------------------------


class Calls:
    """An agent with a tool, and the cities that it was called with."""

    def __init__(self, state: Stateful, model: str = "sim-text") -> None:
        from agents import Agent, ModelSettings, OpenAIResponsesModel, function_tool

        self.cities: list[str] = []
        self._sdk = state.sdk

        @function_tool
        def get_weather(city: str) -> str:
            """The weather of a city."""
            self.cities.append(city)
            return "rain, as the tool reports"

        self.agent = Agent(
            name="Assistant",
            instructions="Be brief.",
            tools=[get_weather],
            model=OpenAIResponsesModel(model, state.sdk),
            model_settings=ModelSettings(max_tokens=200),
        )

    def use_model(self, model: str) -> None:
        """Let the following runs name another model."""
        from agents import OpenAIResponsesModel

        self.agent.model = OpenAIResponsesModel(model, self._sdk)

    async def run(self, text: str, *, stream: bool = False, **options: Any) -> Any:
        from agents import RunConfig, Runner

        options |= {"run_config": RunConfig(tracing_disabled=True), "max_turns": 4}
        if not stream:
            return await Runner.run(self.agent, text, **options)
        result = Runner.run_streamed(self.agent, text, **options)
        async for _ in result.stream_events():
            pass
        return result


@pytest.mark.turns
@UPSTREAMS
@STREAM
async def test_agents_with_a_conversations_session(upstream: Dialect, stream: bool) -> None:
    from agents import OpenAIConversationsSession

    async with stateful(upstream) as state:
        session = OpenAIConversationsSession(openai_client=state.sdk)
        agent = Calls(state, "sim-tools")
        first = await agent.run("Weather in Oslo?", stream=stream, session=session)
        assert agent.cities
        agent.use_model("sim-text")
        second = await agent.run("And tomorrow?", stream=stream, session=session)
        texts = sent_texts(state.sent())
        for text in ("Weather in Oslo?", first.final_output, "And tomorrow?"):
            assert text in texts, texts
        assert "rain, as the tool reports" in str(state.sent())
        items: list[Any] = await session.get_items()
        assert [item.get("type") for item in items if item.get("type") != "reasoning"][-1] == "message"
        message = [item for item in items if item["type"] == "message"][-1]  # a signature may follow it
        assert message["content"][0]["text"] == second.final_output
        kinds = [item.get("type") for item in items]
        assert kinds.index("function_call") < kinds.index("function_call_output")
        assert len(await session.get_items(limit=2)) == 2
        # The last question and its answer are taken back.
        question = max(place for place, item in enumerate(items) if item.get("role") == "user")
        for item in reversed(items[question:]):
            popped: Any = await session.pop_item()
            assert popped["id"] == item["id"]
        await agent.run("And yesterday?", stream=stream, session=session)
        assert "And tomorrow?" not in sent_texts(state.sent())
        conversation = await session._get_session_id()
        await session.clear_session()
        with pytest.raises(openai.NotFoundError):
            await state.sdk.conversations.retrieve(conversation)


@UPSTREAMS
@STREAM
async def test_agents_with_a_conversation(upstream: Dialect, stream: bool) -> None:
    """`conversation_id` of a run: each turn of the loop sends new items only."""
    async with stateful(upstream) as state:
        conversation = await state.sdk.conversations.create()
        agent = Calls(state, "sim-tools")
        first = await agent.run("Weather in Oslo?", stream=stream, conversation_id=conversation.id)
        assert agent.cities
        agent.use_model("sim-text")
        await agent.run("And tomorrow?", stream=stream, conversation_id=conversation.id)
        texts = sent_texts(state.sent())
        assert texts.count("Weather in Oslo?") == texts.count("And tomorrow?") == 1
        assert first.final_output in texts
        items = [item async for item in state.sdk.conversations.items.list(conversation.id, order="asc")]
        kinds = [item.type for item in items]
        assert kinds.count("function_call") == kinds.count("function_call_output") == len(agent.cities)


@UPSTREAMS
@STREAM
@pytest.mark.parametrize("mode", ["input", "previous_response_id"])
async def test_agents_with_a_session_that_compacts(upstream: Dialect, stream: bool, mode: Any) -> None:
    """It replaces its items by the reply of `POST /v1/responses/compact`."""
    from agents import OpenAIResponsesCompactionSession, SQLiteSession

    async with stateful(upstream) as state:
        session = OpenAIResponsesCompactionSession(
            "s",
            SQLiteSession("s"),
            client=state.sdk,
            model="gpt-5.2",
            compaction_mode=mode,
            should_trigger_compaction=lambda context: len(context["compaction_candidate_items"]) >= 2,
        )
        agent = Calls(state, "sim-tools")
        await agent.run("Weather in Oslo?", stream=stream, session=session)
        assert agent.cities
        items: list[Any] = await session.get_items()
        assert [item["type"] for item in items] == ["message", "compaction"]
        agent.use_model("sim-text")
        await agent.run("And tomorrow?", stream=stream, session=session)
        asked = next(sent for sent in state.simulator_requests() if "And tomorrow?" in str(sent))
        texts = [text for text in sent_texts(asked) if text != "Be brief."]
        assert [texts[0], texts[-1]] == ["Weather in Oslo?", "And tomorrow?"]
        assert texts[1].startswith(HEADING)


@UPSTREAMS
@STREAM
async def test_agents_with_the_previous_response(upstream: Dialect, stream: bool) -> None:
    async with stateful(upstream) as state:
        agent = Calls(state)
        first = await agent.run("Name a river.", stream=stream)
        second = await agent.run("How long is it?", stream=stream, previous_response_id=first.last_response_id)
        assert sent_texts(state.sent())[-3:] == ["Name a river.", first.final_output, "How long is it?"]
        stored = await state.sdk.responses.retrieve(second.last_response_id)
        assert stored.previous_response_id == first.last_response_id
        # A branch from the first response.
        await agent.run("Where is it?", stream=stream, previous_response_id=first.last_response_id)
        assert sent_texts(state.sent())[-3:] == ["Name a river.", first.final_output, "Where is it?"]


@UPSTREAMS
@STREAM
async def test_agents_with_automatic_previous_responses(upstream: Dialect, stream: bool) -> None:
    """The turns of a loop continue each other, from the first one."""
    async with stateful(upstream) as state:
        agent = Calls(state, "sim-tools")
        result = await agent.run("Weather in Oslo?", stream=stream, auto_previous_response_id=True)
        assert agent.cities
        responses = [each.response_id for each in result.raw_responses]
        assert len(responses) > 1
        stored = [await state.sdk.responses.retrieve(each) for each in responses]
        assert [each.previous_response_id for each in stored] == [None, *responses[:-1]]
        assert sent_texts(state.sent()).count("Weather in Oslo?") == 1
        own = [item async for item in state.sdk.responses.input_items.list(responses[1], order="asc")]
        kinds = [item.type for item in own]
        assert kinds.index("message") < kinds.index("function_call") < kinds.index("function_call_output")


# --- the examples of the SDK ------------------------------------------------------------------------------------------


def by_hand(client: openai.OpenAI) -> list[str]:
    """The client keeps the conversation: nothing is stored."""
    history: list[Any] = [{"role": "user", "content": "tell me a joke"}]
    response = client.responses.create(model="sim-text", input=history, store=False)
    first = response.output_text
    history += [{"role": each.role, "content": each.content} for each in response.output if each.type == "message"]
    history.append({"role": "user", "content": "tell me another"})
    client.responses.create(model="sim-text", input=history, store=False)
    return ["tell me a joke", first, "tell me another"]


def by_conversation(client: openai.OpenAI) -> list[str]:
    conversation = client.conversations.create()
    question = {"role": "user", "content": "What are the 5 Ds of dodgeball?"}
    given: Any = [question]
    first = client.responses.create(model="sim-text", input=given, conversation=conversation.id)
    client.responses.create(model="sim-text", input="explain why each is funny.", conversation=conversation.id)
    return [question["content"], first.output_text, "explain why each is funny."]


def by_previous_response(client: openai.OpenAI) -> list[str]:
    first = client.responses.create(model="sim-text", input="tell me a joke")
    second: Any = [{"role": "user", "content": "explain why this is funny."}]
    client.responses.create(model="sim-text", previous_response_id=first.id, input=second)
    return ["tell me a joke", first.output_text, "explain why this is funny."]


@UPSTREAMS
@pytest.mark.parametrize("example", [by_hand, by_conversation, by_previous_response])
async def test_the_examples_of_the_sdk(upstream: Dialect, example: Any) -> None:
    async with stateful(upstream) as state:
        with openai.OpenAI(base_url=f"{state.gate.url}/v1", api_key="x", max_retries=0, timeout=30) as client:
            texts = await asyncio.to_thread(example, client)
        assert sent_texts(state.sent()) == texts

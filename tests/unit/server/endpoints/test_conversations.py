"""Conversations by the official SDK, before a simulated upstream of each dialect."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest

from dragoman.dialects import Dialect
from dragoman.threads import StoreError
from dragoman_server.config.state_options import StateOptions
from support.named_keys import made
from support.stateful import stateful
from support.texts import sent_texts

UPSTREAMS = pytest.mark.parametrize("upstream", list(Dialect))
CHAT = Dialect.CHAT


async def all_items(sdk: Any, conversation: str, order: str = "asc", limit: int = 2) -> list[Any]:
    """All items of a conversation, over the pages of the SDK."""
    return [each async for each in await sdk.conversations.items.list(conversation, order=order, limit=limit)]


def texts_of(items: list[Any]) -> list[str]:
    return [part.text for item in items if item.type == "message" for part in item.content]


@pytest.mark.turns
@UPSTREAMS
@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_over_several_turns(upstream: Dialect, stream: bool) -> None:
    async with stateful(upstream) as state:
        sdk = state.sdk
        made_one = await sdk.conversations.create(
            items=[{"type": "message", "role": "user", "content": "I live in Oslo."}], metadata={"topic": "weather"}
        )
        assert (made_one.object, made_one.metadata) == ("conversation", {"topic": "weather"})
        answers = []
        for number, question in enumerate(("First?", "Second?")):
            reference: Any = made_one.id if number else {"id": made_one.id}
            reply = await sdk.responses.create(
                model="sim-text", conversation=reference, input=question, stream=stream, max_output_tokens=50
            )
            if stream:
                reply = [event async for event in reply][-1].response
            assert reply.conversation.id == made_one.id
            assert reply.previous_response_id is None
            assert reply.store is True
            answers.append(reply)
        assert "conversation" not in state.sent()
        assert sent_texts(state.sent()) == ["I live in Oslo.", "First?", answers[0].output_text, "Second?"]
        # Gemini signs texts, so its replies have reasoning items too.
        items = [each for each in await all_items(sdk, made_one.id) if each.type == "message"]
        assert texts_of(items) == [*sent_texts(state.sent()), answers[1].output_text]
        assert [item.role for item in items] == ["user", "user", "assistant", "user", "assistant"]
        assert len({item.id for item in items}) == 5
        assert texts_of(await all_items(sdk, made_one.id, "desc")) == texts_of(items)[::-1]
        # The items that the second response was made from.
        before = [each async for each in await sdk.responses.input_items.list(answers[1].id, order="asc", limit=3)]
        shown = [each.id for each in before if each.type == "message"]
        assert shown == [each.id for each in items[:-1]]
        # A deleted item is not sent again.
        after = await sdk.conversations.items.delete(items[1].id, conversation_id=made_one.id)
        assert after.id == made_one.id
        await sdk.responses.create(model="sim-text", conversation=made_one.id, input="Third?")
        assert "First?" not in sent_texts(state.sent())
        # A branch from the first response: it knows nothing of the later ones.
        await sdk.responses.create(model="sim-text", previous_response_id=answers[0].id, input="Branch?")
        assert sent_texts(state.sent()) == ["I live in Oslo.", "First?", answers[0].output_text, "Branch?"]
        assert "Branch?" not in texts_of(await all_items(sdk, made_one.id))


async def test_the_endpoints_of_items_and_metadata() -> None:
    async with stateful(CHAT) as state:
        sdk = state.sdk
        empty = await sdk.conversations.create()
        assert (await all_items(sdk, empty.id), empty.metadata) == ([], {})
        user: Any = {"type": "message", "role": "user", "content": "Hi"}
        call: Any = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
        output: Any = {"type": "function_call_output", "call_id": "c1", "output": "x"}
        added = await sdk.conversations.items.create(empty.id, items=[user, call])
        assert [each.type for each in added.data] == ["message", "function_call"]
        later = await sdk.conversations.items.create(empty.id, items=[output])
        assert [each.type for each in later.data] == ["function_call_output"]
        assert [each.id for each in await all_items(sdk, empty.id)] == [each.id for each in [*added.data, *later.data]]
        one = await sdk.conversations.items.retrieve(added.data[1].id, conversation_id=empty.id)
        assert (one.name, one.call_id) == ("f", "c1")
        changed = await sdk.conversations.update(empty.id, metadata={"a": "b"})
        assert changed.metadata == (await sdk.conversations.retrieve(empty.id)).metadata == {"a": "b"}
        await sdk.responses.create(model="sim-text", conversation=empty.id, input="Next")
        roles = [message["role"] for message in state.sent()["messages"]]
        assert roles == ["user", "assistant", "tool", "user"]
        gone = await sdk.conversations.delete(empty.id)
        assert (gone.id, gone.object, gone.deleted) == (empty.id, "conversation.deleted", True)
        for call_again in (
            sdk.conversations.retrieve(empty.id),
            sdk.conversations.delete(empty.id),
            sdk.conversations.update(empty.id, metadata={}),
            sdk.conversations.items.create(empty.id, items=[user]),
            sdk.responses.create(model="sim-text", conversation=empty.id, input="Hi"),
        ):
            with pytest.raises(openai.NotFoundError, match=f"Conversation with id '{empty.id}' not found"):
                await call_again


async def test_nothing_is_added_by_a_request_that_is_not_stored() -> None:
    async with stateful(CHAT) as state:
        sdk = state.sdk
        one = await sdk.conversations.create(items=[{"role": "user", "content": "Before"}])
        reply = await sdk.responses.create(model="sim-text", conversation=one.id, input="Secret?", store=False)
        assert sent_texts(state.sent()) == ["Before", "Secret?"]
        assert (reply.store, reply.conversation.id) == (False, one.id)
        assert texts_of(await all_items(sdk, one.id)) == ["Before"]


async def test_turns_at_the_same_time_are_all_kept() -> None:
    async with stateful(CHAT) as state:
        sdk = state.sdk
        one = await sdk.conversations.create()
        questions = [f"Question {number}?" for number in range(6)]
        await asyncio.gather(
            *(sdk.responses.create(model="sim-text", conversation=one.id, input=each) for each in questions)
        )
        items = await all_items(sdk, one.id, limit=100)
        assert len(items) == 12
        assert sorted(texts_of(items)[::2]) == questions  # each question is followed by its answer


async def test_other_keys_do_not_see_a_conversation() -> None:
    mine, first = made("first")
    others, second = made("second")
    async with stateful(CHAT, keys=(first, second)) as state:
        me, other = state.client(mine), state.client(others)
        one = await me.conversations.create(items=[{"role": "user", "content": "Hi"}])
        (item,) = await all_items(me, one.id)
        for call in (
            other.conversations.retrieve(one.id),
            other.conversations.update(one.id, metadata={}),
            other.conversations.delete(one.id),
            other.conversations.items.list(one.id),
            other.conversations.items.create(one.id, items=[{"role": "user", "content": "x"}]),
            other.conversations.items.retrieve(item.id, conversation_id=one.id),
            other.conversations.items.delete(item.id, conversation_id=one.id),
            other.responses.create(model="sim-text", conversation=one.id, input="Hi"),
        ):
            with pytest.raises(openai.NotFoundError):
                await call
        assert len(await all_items(me, one.id)) == 1


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"items": "x"}, "items"),
        ({"items": [{"role": "user", "content": "x"}] * 21}, "items"),
        ({"items": [{"type": "item_reference", "id": "msg_1"}]}, "items[0].type"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a"),
        ({"metadata": {"x" * 65: "a"}}, "metadata"),
        ({"metadata": {f"a{number}": "" for number in range(17)}}, "metadata"),
    ],
)
async def test_a_body_that_is_wrong(body: dict[str, Any], param: str) -> None:
    async with stateful(CHAT) as state:
        with pytest.raises(openai.BadRequestError) as caught:
            await state.sdk.post("/conversations", body=body, cast_to=object)
        assert caught.value.param == param
        assert param in caught.value.message


async def test_an_item_that_an_upstream_cannot_have_names_the_conversation() -> None:
    """It was valid when it was added: other upstreams can have it."""
    async with stateful(CHAT) as state:
        sdk = state.sdk
        file = {"type": "input_file", "file_url": "https://example.com/a.pdf"}
        one = await sdk.conversations.create(items=[{"role": "user", "content": [file]}])
        with pytest.raises(openai.BadRequestError) as caught:
            await sdk.responses.create(model="sim-text", conversation=one.id, input="Hi")
        assert caught.value.param == "conversation"
        assert one.id in caught.value.message


async def test_a_conversation_has_a_limit_of_turns() -> None:
    async with stateful(CHAT, StateOptions(kind="memory", max_chain=2)) as state:
        sdk = state.sdk
        one = await sdk.conversations.create()
        await sdk.responses.create(model="sim-text", conversation=one.id, input="1")
        with pytest.raises(openai.BadRequestError, match="the most are 2") as caught:
            await sdk.responses.create(model="sim-text", conversation=one.id, input="2")
        assert caught.value.param == "conversation"


async def test_a_conversation_survives_a_restart(tmp_path: Path) -> None:
    options = StateOptions(kind="sqlite", path=str(tmp_path / "state.db"))
    async with stateful(CHAT, options) as state:
        one = await state.sdk.conversations.create(metadata={"a": "b"})
        await state.sdk.responses.create(model="sim-text", conversation=one.id, input="Hi")
    async with stateful(CHAT, options) as state:
        assert (await state.sdk.conversations.retrieve(one.id)).metadata == {"a": "b"}
        await state.sdk.responses.create(model="sim-text", conversation=one.id, input="Again")
        assert sent_texts(state.sent())[::2] == ["Hi", "Again"]


async def test_a_store_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stateful(CHAT) as state:
        one = await state.sdk.conversations.create()

        async def fail(*_: Any) -> Any:
            raise StoreError("away")

        for method in ("put", "tree_outline"):
            monkeypatch.setattr(state.store, method, fail)
        for call in (
            state.sdk.conversations.create(),
            state.sdk.conversations.retrieve(one.id),
            state.sdk.responses.create(model="sim-text", conversation=one.id, input="Hi"),
        ):
            with pytest.raises(openai.InternalServerError) as caught:
                await call
            assert caught.value.status_code == 503
            assert caught.value.response.headers["retry-after"] == "1"


async def test_references_to_items_of_earlier_responses() -> None:
    """The AI SDK sends earlier replies as references."""
    async with stateful(CHAT) as state:
        sdk = state.sdk
        first = await sdk.responses.create(model="sim-text", input="First?")
        listed = await sdk.responses.input_items.list(first.id)
        references: Any = [
            {"type": "item_reference", "id": listed.data[0].id},
            {"id": first.output[0].id},
            {"role": "user", "content": "Second?"},
        ]
        second = await sdk.responses.create(model="sim-text", input=references)
        assert sent_texts(state.sent()) == ["First?", first.output_text, "Second?"]
        # What is stored is the item, not the reference.
        await sdk.responses.delete(first.id)
        await sdk.responses.create(model="sim-text", previous_response_id=second.id, input="Third?", store=False)
        assert sent_texts(state.sent())[:3] == ["First?", first.output_text, "Second?"]
        with pytest.raises(openai.BadRequestError, match="there is no stored item") as caught:
            await sdk.responses.create(model="sim-text", input=references, store=False)
        assert caught.value.param == "input[0].id"


async def test_the_responses_endpoints_do_not_show_conversations() -> None:
    async with stateful(CHAT) as state:
        sdk = state.sdk
        one = await sdk.conversations.create()
        for call in (sdk.responses.retrieve(one.id), sdk.responses.delete(one.id)):
            with pytest.raises(openai.NotFoundError):
                await call
        with pytest.raises(openai.BadRequestError, match="send it as `conversation`"):
            await sdk.responses.create(model="sim-text", previous_response_id=one.id, input="Hi")
        assert (await sdk.conversations.retrieve(one.id)).id == one.id

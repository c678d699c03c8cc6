"""Threads of an embedding program: append, fork, rollback, and the request for each dialect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman import ClientRequestError
from dragoman.dialects import Dialect
from dragoman.threads import MemoryStore, StoreError, Thread
from support.samples import dump, reply
from support.thread_stores import assistant, user


def numbered() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"resp_{number}"


def thread(store: MemoryStore | None = None, owner: str = "k") -> Thread:
    return Thread(store or MemoryStore(), owner, new_id=numbered().__next__)


async def test_append_fork_and_rollback() -> None:
    one = thread()
    await one.append([user("a")], [assistant("A")])
    await one.append([user("b")], [assistant("B")])
    other = await one.fork("resp_1")
    await other.append([user("c")], [assistant("C")])
    assert await one.items() == [user("a"), assistant("A"), user("b"), assistant("B")]
    assert await other.items() == [user("a"), assistant("A"), user("c"), assistant("C")]
    await one.rollback()
    assert (one.head, await one.items()) == ("resp_1", [user("a"), assistant("A")])
    await one.rollback(1)
    assert (one.head, await one.items()) == (None, [])
    assert (await other.fork()).head == "resp_3"


async def test_a_step_that_leads_nowhere() -> None:
    one = thread()
    await one.append([user("a")])
    with pytest.raises(ValueError, match="the path has 1 responses, cannot go back by 2"):
        await one.rollback(2)
    with pytest.raises(ValueError, match="no response resp_9 on the path to resp_1"):
        await one.fork("resp_9")
    with pytest.raises(StoreError, match="resp_7 is not stored"):
        await Thread(MemoryStore(), "k", "resp_7").items()


async def test_the_payload_of_each_dialect() -> None:
    one = thread()
    call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "42"}
    await one.append([user("a")], [call])
    chat = await one.payload("chat", "m", input=[output], instructions="Be brief.")
    assert [message["role"] for message in chat["messages"]] == ["developer", "user", "assistant", "tool"]
    messages = await one.payload(Dialect.MESSAGES, "m", input=[output], instructions="Be brief.")
    assert [block["type"] for message in messages["messages"] for block in message["content"] if type(block) is dict][
        -2:
    ] == ["tool_use", "tool_result"]
    responses = await one.payload("responses", "m", input=[output])
    assert responses["input"] == [user("a"), call, output]
    assert responses["store"] is False


@pytest.mark.parametrize("dialect", list(Dialect))
async def test_the_reply_of_each_dialect_can_be_appended(dialect: Dialect) -> None:
    from dragoman import json_loads

    one = thread()
    translation = await one.translate(dialect, "m", input=[user("Hi")])
    output = json_loads(translation.reply(dump(reply(dialect))))["output"]
    await one.append([user("Hi")], output)
    for upstream in Dialect:
        assert await one.payload(upstream, "m", input=[user("More")])


async def test_what_a_dialect_cannot_express_is_an_error() -> None:
    one = thread()
    await one.append([{"type": "compaction", "encrypted_content": "x"}])
    with pytest.raises(ClientRequestError, match="compacted history"):
        await one.payload("chat", "m", input=[user("a")])

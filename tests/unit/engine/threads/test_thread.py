"""Threads of an embedding program: append, fork, rollback, and the request for each dialect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman import ClientRequestError
from dragoman.dialects import Dialect
from dragoman.reasoning.compacted_history import unwrap_history
from dragoman.threads import Compaction, MemoryStore, StoreError, Thread, lineage_of
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


def long_step(name: str) -> list[dict[str, str]]:
    return [
        {"type": "function_call", "call_id": name, "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": name, "output": f"{name} " * 3_000},
    ]


async def test_a_thread_is_compacted_and_branches_are_not() -> None:
    records: list[str] = []

    async def summarise(compaction: Compaction) -> str:
        records.append(compaction.record)
        return "Three were read."

    one = thread()
    first = await one.append([user("a"), *long_step("1"), *long_step("2"), *long_step("3")], [assistant("A")])
    branch = await one.fork()
    found = await one.compact(summarise, "small")
    assert found is not None
    assert (found.summarised, len(records)) == (6, 1)
    assert one.head != first
    path = await one.path()
    assert [node.id for node in path] == [first, one.head]
    assert unwrap_history(path[1].output_items()[0]) is not None
    for dialect in Dialect:
        payload = dump(await one.payload(dialect, "m", input=[user("b")])).decode()
        assert "Three were read." in payload
        assert "1 1 1" not in payload
        assert "1 1 1" in dump(await branch.payload(dialect, "m", input=[user("b")])).decode()
    rows = lineage_of(path)["nodes"]
    assert [row["kind"] for row in rows] == ["response", "response.compaction"]
    await one.rollback()
    assert (one.head, await one.items()) == (first, await branch.items())


async def test_a_thread_is_compacted_when_it_has_reached_a_threshold() -> None:
    calls = 0

    async def summarise(_: Compaction) -> str:
        nonlocal calls
        calls += 1
        return "Sum."

    one = thread()
    assert await one.compact(summarise) is None
    await one.append([user("a"), *long_step("1")], [assistant("A")])
    assert await one.compact(summarise, threshold=100_000) is None
    await one.append([user("b"), *long_step("2")], [assistant("B")])
    # Long results are shortened first, which needs no summary.
    found = await one.compact(summarise, threshold=4_000)
    assert found is not None
    assert (found.summarised, calls) == (0, 0)
    items = [item for number in range(40) for item in long_step(f"s{number}")]
    await one.append([user("c"), *items], [assistant("C")])
    assert await one.compact(summarise, threshold=4_000) is not None
    assert calls == 1
    assert await one.compact(summarise, threshold=4_000) is None
    await one.append([user("d" * 90_000)], [assistant("D")])
    assert await one.compact(summarise, threshold=4_000) is None  # what the user wrote stays
    assert calls == 1


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
    from dragoman.wire import json_loads

    one = thread()
    translation = await one.translate(dialect, "m", input=[user("Hi")])
    output = json_loads(translation.reply(dump(reply(dialect))))["output"]
    await one.append([user("Hi")], output)
    for upstream in Dialect:
        assert await one.payload(upstream, "m", input=[user("More")])


async def test_what_a_dialect_cannot_express_is_an_error() -> None:
    one = thread()
    await one.append([{"type": "compaction", "encrypted_content": "x"}])
    with pytest.raises(ClientRequestError, match="no_such_item"):
        await one.payload("chat", "m", input=[{"type": "no_such_item"}])
    payload = await one.payload("chat", "m", input=[user("a")])
    assert "compacted by another provider" in str(payload)

"""The records of responses that upstreams run by themselves."""

from __future__ import annotations

from dragoman_server.routing.running_responses import RunningResponses


async def test_a_record_is_taken_once_and_by_its_client_only() -> None:
    running = RunningResponses()
    await running.keep(b"alice", "resp_1", b"one")
    assert await running.take(b"bob", "resp_1") is None
    assert await running.take(b"alice", "resp_2") is None
    assert [await running.take(b"alice", "resp_1") for _ in range(2)] == [b"one", None]
    assert len(running) == 0
    await running.end(b"alice", "resp_1")


async def test_one_client_does_not_push_out_the_records_of_others() -> None:
    running = RunningResponses(limit=8)
    await running.keep(b"bob", "resp_0", b"bob's")
    for number in range(20):
        await running.keep(b"alice", f"resp_{number}", b"alice's")
    assert len(running) == 3
    assert await running.take(b"bob", "resp_0") == b"bob's"
    assert await running.take(b"alice", "resp_17") is None
    assert await running.take(b"alice", "resp_19") == b"alice's"


async def test_the_records_of_all_clients_have_a_limit() -> None:
    running = RunningResponses(limit=8)
    for number in range(20):
        await running.keep(str(number).encode(), "resp", b"")
    assert len(running) == 8
    assert await running.take(b"11", "resp") is None
    assert await running.take(b"12", "resp") == b""


class Store:
    def __init__(self) -> None:
        self.fails = False
        self.records: dict[tuple[bytes, bytes], bytes] = {}

    async def keep_run(self, owner: bytes, response: bytes, record: bytes) -> bool:
        if not self.fails:
            self.records[owner, response] = record
        return not self.fails

    async def take_run(self, owner: bytes, response: bytes) -> bytes | None:
        return None if self.fails else self.records.get((owner, response))

    async def end_run(self, owner: bytes, response: bytes) -> None:
        self.records.pop((owner, response), None)


async def test_a_store_has_the_records_unless_it_fails() -> None:
    running, store = RunningResponses(), Store()
    running.shared = store
    await running.keep(b"alice", "resp_1", b"one")
    assert (len(running), [*store.records.values()]) == (0, [b"one"])
    assert await running.take(b"alice", "resp_1") == b"one"
    await running.end(b"alice", "resp_1")
    assert await running.take(b"alice", "resp_1") is None
    store.fails = True
    await running.keep(b"alice", "resp_2", b"two")
    assert [await running.take(b"alice", "resp_2") for _ in range(2)] == [b"two", None]

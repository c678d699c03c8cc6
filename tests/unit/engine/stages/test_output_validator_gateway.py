"""A writer that is broken on purpose behind the real gateway: the stream goes on, and everybody is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dragoman.canonical.events import BlockEnd, BlockStart, End
from dragoman.dialects import Dialect
from dragoman.dialects.chat.stream.writer import ChatWriter
from dragoman.dialects.messages.stream.writer import MessagesWriter
from dragoman.dialects.responses.stream.writer import ResponsesWriter
from dragoman_server.config.load import parse_config
from dragoman_server.config.toml_reader import ConfigError
from dragoman_server.observability.metric_families import OUTPUT_VIOLATIONS, Totals
from support.exposed import read_exposition, total
from support.gateways import Gate, config_for, gate
from support.samples import text_stream
from support.sockets import ScriptedServer, stream

CHAT, MESSAGES, RESPONSES = Dialect
NAME = "dragoman_output_violations_total"


@pytest.fixture(params=Dialect)
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Dialect, str]:
    """A client dialect whose writer has a defect, and the rule that it breaks."""
    client: Dialect = request.param
    if client is CHAT:
        plain_start = ChatWriter.writes[BlockStart]

        def twice(self: Any, event: Any, out: Any) -> None:
            plain_start(self, event, out)
            self._write_chunk(b'{"role":"assistant","content":""}', out)

        monkeypatch.setitem(ChatWriter.writes, BlockStart, twice)
        return client, "the role twice: clients concatenate it"
    if client is MESSAGES:
        plain_end = MessagesWriter.writes[BlockEnd]

        def wrong_index(self: Any, event: BlockEnd, out: Any) -> None:
            self._indexes[event.index] += 1
            plain_end(self, event, out)

        monkeypatch.setitem(MessagesWriter.writes, BlockEnd, wrong_index)
        return client, "an event of a block that is not open (T-02)"
    plain_end_of_text = ResponsesWriter.writes[BlockEnd]

    def leaps(self: Any, event: BlockEnd, out: Any) -> None:
        self._sequence += 1
        plain_end_of_text(self, event, out)

    monkeypatch.setitem(ResponsesWriter.writes, BlockEnd, leaps)
    return client, "a sequence_number that is not the next"


async def counted(entrance: Gate, **labels: str) -> float:
    async with entrance.session.get(entrance.url + "/metrics") as response:
        return total(read_exposition(await response.read()), NAME, **labels)


async def asked(entrance: Gate, client: Dialect) -> tuple[bytes, dict[str, Any]]:
    """A streamed reply, and its receipt."""
    async with asyncio.timeout(10), entrance.post(client, stream=True) as response:
        body = await response.read()
        request_id = response.headers["x-dragoman-request-id"]
    async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}") as response:
        return body, await response.json()


async def test_a_breach_is_counted_told_and_sent_on(
    broken: tuple[Dialect, str], caplog: pytest.LogCaptureFixture
) -> None:
    client, rule = broken
    upstream = CHAT if client is not CHAT else MESSAGES
    async with (
        ScriptedServer(stream(text_stream(upstream))) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        assert await counted(entrance) == 0
        with caplog.at_level("WARNING", "dragoman"):
            body, receipt = await asked(entrance, client)
        assert await counted(entrance, client=client, upstream=upstream) == 1
        assert await counted(entrance) == 1
    assert {CHAT: b"[DONE]", MESSAGES: b"message_stop", RESPONSES: b"response.completed"}[client] in body
    assert receipt["ended"] == "completed"
    (violation,) = receipt["violations"]
    assert violation["rule"] == rule
    assert violation["position"] > 0
    (line,) = [record.getMessage() for record in caplog.records if "grammar" in record.getMessage()]
    assert all(word in line for word in (receipt["request_id"], f"{client}→{upstream}", "up", "route *", rule))
    assert "東京" in body.decode()
    assert not any(word in json.dumps(violation, ensure_ascii=False) + line for word in ("Grüße", "東京"))


@pytest.mark.parametrize("client", Dialect)
async def test_a_stream_without_its_end_is_a_breach(client: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = {CHAT: ChatWriter, MESSAGES: MessagesWriter, RESPONSES: ResponsesWriter}[client]
    plain = writer.write

    def endless(self: Any, event: Any, out: Any) -> None:
        if type(event) is not End:
            plain(self, event, out)

    monkeypatch.setattr(writer, "write", endless)
    upstream = CHAT if client is not CHAT else MESSAGES
    async with (
        ScriptedServer(stream(text_stream(upstream))) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        _, receipt = await asked(entrance, client)
    assert [violation["rule"] for violation in receipt["violations"]] == ["no terminal frame"]


@pytest.mark.parametrize("client", Dialect)
@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
async def test_a_sound_stream_counts_nothing(client: Dialect, upstream: Dialect) -> None:
    async with (
        ScriptedServer(stream(text_stream(upstream))) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        _, receipt = await asked(entrance, client)
        assert receipt["violations"] == []
        page = entrance.gateway.metrics.alone()
        assert page.values[NAME] == {(c, u): [0] for c in Dialect for u in Dialect}


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES])
async def test_what_passes_through_is_counted_as_the_upstreams(
    dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    good = text_stream(dialect)
    async with (
        ScriptedServer(stream([*good[:-1], b"data: garbage\n\n", good[-1]])) as server,
        gate(config_for(server.url, dialect)) as entrance,
    ):
        with caplog.at_level("WARNING", "dragoman"):
            _, receipt = await asked(entrance, dialect)
        assert await counted(entrance, client=dialect, upstream=dialect) == 1
    assert [violation["rule"] for violation in receipt["violations"]] == ["a frame that is not JSON"]
    assert "upstream broke its grammar: a frame that is not JSON" in caplog.text


async def test_it_can_be_switched_off(broken: tuple[Dialect, str]) -> None:
    client, _ = broken
    upstream = CHAT if client is not CHAT else MESSAGES
    async with (
        ScriptedServer(stream(text_stream(upstream))) as server,
        gate(config_for(server.url, upstream, validate=False)) as entrance,
    ):
        _, receipt = await asked(entrance, client)
        assert receipt["violations"] == []
        # What is not looked at is not told as 0.
        assert set(entrance.gateway.metrics.alone().values[NAME]) == {(d, d) for d in Dialect}


def test_the_configuration_says_so_in_a_boolean() -> None:
    assert parse_config({}, {}).server.validate is True
    assert parse_config({"server": {"validate": False}}, {}).server.validate is False
    with pytest.raises(ConfigError, match=r"server\.validate: expected a boolean"):
        parse_config({"server": {"validate": "off"}}, {})


def test_workers_add_up_from_the_start() -> None:
    mine, theirs = Totals(), Totals()
    for totals in (mine, theirs):
        totals.add(OUTPUT_VIOLATIONS, (CHAT, MESSAGES), 0)
    theirs.add(OUTPUT_VIOLATIONS, (CHAT, MESSAGES))
    mine.merge(Totals.unpack(json.loads(json.dumps(theirs.pack()))))
    assert mine.read(OUTPUT_VIOLATIONS, CHAT, MESSAGES) == [1]

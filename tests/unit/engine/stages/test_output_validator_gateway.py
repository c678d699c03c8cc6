"""A writer that is broken on purpose behind the real gateway: the stream goes on, and everybody is reported."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.events import BlockEnd, BlockStart, End
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.dialects.chat.stream.writer import ChatWriter
from dragoman.dialects.messages.stream.writer import MessagesWriter
from dragoman.dialects.responses.stream.writer import ResponsesWriter
from dragoman.stages.validation_sample import FIRST, ValidationSample
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import StateOptions
from dragoman_server.observability.captures.document import body_of
from dragoman_server.observability.captures.replay import captured_reply, captured_upstream_reply, replay
from dragoman_server.observability.captures.store import Capture, read_capture
from dragoman_server.observability.metric_families import OUTPUT_VALIDATED, OUTPUT_VIOLATIONS, Totals
from support.exposed import read_exposition, total
from support.gateways import Gate, config_for, gate
from support.samples import reply, text_stream
from support.sockets import ScriptedServer, answer, stream

CHAT, MESSAGES, RESPONSES, *_ = Dialect
NAME, VALIDATED = "dragoman_output_violations_total", "dragoman_output_validated_total"


@pytest.fixture(params=CLIENT_DIALECTS)
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
    async with asyncio.timeout(30), entrance.post(client, stream=True) as response:
        body = await response.read()
        request_id = response.headers["x-dragoman-request-id"]
    async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{request_id}") as response:
        return body, await response.json()


async def test_a_breach_is_counted_reported_and_sent_on(
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


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
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


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
async def test_a_sound_stream_counts_nothing(client: Dialect, upstream: Dialect) -> None:
    async with (
        ScriptedServer(stream(text_stream(upstream))) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        _, receipt = await asked(entrance, client)
        assert receipt["violations"] == []
        page = entrance.gateway.metrics.alone()
        assert page.values[NAME] == {(c, u): [0] for c in CLIENT_DIALECTS for u in Dialect}
        assert page.values[VALIDATED] == {
            (c, u): [int((c, u) == (client, upstream))] for c in CLIENT_DIALECTS for u in Dialect
        }


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
        gate(config_for(server.url, upstream, validate=0.0)) as entrance,
    ):
        _, receipt = await asked(entrance, client)
        assert receipt["violations"] == []
        # What is not checked is not shown as 0.
        for name in (NAME, VALIDATED):
            assert set(entrance.gateway.metrics.alone().values[name]) == {(d, d) for d in CLIENT_DIALECTS}


async def test_streams_after_the_first_are_validated_by_chance() -> None:
    """Failures of the upstream take no place among the first ones, and whole replies are not counted."""
    rolls = iter([0.5, 0.01, 0.02])
    replies = [
        *(answer(503, b"{}") for _ in range(FIRST)),
        answer(200, json.dumps(reply(CHAT)).encode()),
        *(stream(text_stream(CHAT)) for _ in range(FIRST + 3)),
    ]
    async with ScriptedServer(*replies) as server, gate(config_for(server.url, CHAT, validate=0.02)) as entrance:
        entrance.gateway.services.loaded.validation = ValidationSample(0.02, lambda: next(rolls))
        validated = entrance.gateway.metrics.totals
        for _ in range(FIRST):
            async with entrance.post(MESSAGES, stream=True) as response:
                assert response.status >= 500
        async with entrance.post(MESSAGES) as response:
            assert response.status == 200
        assert validated.read(OUTPUT_VALIDATED, MESSAGES, CHAT) == [0]
        counts = []
        for _ in range(FIRST + 3):
            await asked(entrance, MESSAGES)
            counts += validated.read(OUTPUT_VALIDATED, MESSAGES, CHAT)
    assert counts == [*range(1, FIRST + 1), FIRST, FIRST + 1, FIRST + 1]


async def test_a_reload_begins_a_new_sample() -> None:
    config = config_for("http://127.0.0.1:9", CHAT, validate=0.02)
    async with gate(config) as entrance:
        gateway = entrance.gateway
        for _ in range(FIRST):
            assert gateway.services.loaded.validation.take(MESSAGES, CHAT, "up")
        gateway.reconfigure(replace(config, server=replace(config.server, validate=1.0)))
        assert gateway.services.loaded.validation.share == 1.0
        gateway.reconfigure(config)
        gateway.services.loaded.validation._chance = lambda: 1.0
        assert gateway.services.loaded.validation.take(MESSAGES, CHAT, "up")


def with_captures(url: str, upstream: Dialect, folder: Path, **server: Any) -> Config:
    capture = CaptureOptions(str(folder / "captures"), texts=True)
    return replace(config_for(url, upstream, **server), capture=capture, state=StateOptions(kind="off"))


def kept(folder: Path) -> list[Capture]:
    """The captures in the directory of a gateway that has closed."""
    files = sorted((folder / "captures").glob("*"))
    return [read_capture(path) for path in files if path.name.startswith("req_")]


async def test_the_exchange_of_a_breach_is_captured(broken: tuple[Dialect, str], tmp_path: Path) -> None:
    client, rule = broken
    upstream = CHAT if client is not CHAT else MESSAGES
    frames = text_stream(upstream)
    async with (
        ScriptedServer(stream(frames)) as server,
        gate(with_captures(server.url, upstream, tmp_path)) as entrance,
    ):
        body, receipt = await asked(entrance, client)
    (capture,) = kept(tmp_path)
    assert (capture.summary["id"], capture.summary["reason"]) == (receipt["request_id"], "violation")
    assert captured_reply(capture) == body
    assert captured_upstream_reply(capture) == b"".join(frames)
    assert json.loads(body_of(capture.exchange["client"]["request"]))["stream"] is True
    assert capture.exchange["receipt"]["violations"] == receipt["violations"]
    again = await replay(capture)
    assert again.body == body
    assert again.translation.violation is not None
    assert again.translation.violation.rule == rule


async def test_the_exchange_of_a_sound_stream_is_not_kept(tmp_path: Path) -> None:
    async with (
        ScriptedServer(stream(text_stream(CHAT))) as server,
        gate(with_captures(server.url, CHAT, tmp_path)) as entrance,
    ):
        await asked(entrance, MESSAGES)
        captures = entrance.gateway.services.instruments.captures
        assert captures is not None
        assert captures._open == 0
    assert kept(tmp_path) == []


async def test_a_breach_of_an_exchange_that_is_not_to_be_captured(broken: tuple[Dialect, str], tmp_path: Path) -> None:
    client, _ = broken
    upstream = CHAT if client is not CHAT else MESSAGES
    async with (
        ScriptedServer(stream(text_stream(upstream))) as server,
        gate(with_captures(server.url, upstream, tmp_path)) as entrance,
    ):
        async with entrance.post(client, stream=True, headers={"x-dragoman-capture": "0"}) as response:
            await response.read()
        assert await counted(entrance) == 1
    assert kept(tmp_path) == []


async def test_a_captured_stream_is_always_validated(broken: tuple[Dialect, str], tmp_path: Path) -> None:
    client, rule = broken
    upstream = CHAT if client is not CHAT else MESSAGES
    async with (
        ScriptedServer(stream(text_stream(upstream))) as server,
        gate(with_captures(server.url, upstream, tmp_path, validate=0.0)) as entrance,
        entrance.post(client, stream=True, headers={"x-dragoman-capture": "1"}) as response,
    ):
        await response.read()
    (capture,) = kept(tmp_path)
    assert capture.summary["reason"] == "header"
    assert [violation["rule"] for violation in capture.exchange["receipt"]["violations"]] == [rule]


def test_the_configuration_has_a_share() -> None:
    assert parse_config({}, {}).server.validate == 0.02
    for value, share in ((0.5, 0.5), (1, 1.0), (0, 0.0), (True, 1.0), (False, 0.0)):
        found = parse_config({"server": {"validate": value}}, {}).server.validate
        assert (found, type(found)) == (share, float)
    with pytest.raises(ConfigError, match=r"server\.validate: expected a number"):
        parse_config({"server": {"validate": "off"}}, {})
    for value in (-0.1, 1.1, float("nan")):
        with pytest.raises(ConfigError, match=r"server\.validate: expected a share from 0 to 1; got"):
            parse_config({"server": {"validate": value}}, {})


def test_workers_add_up_from_the_start() -> None:
    mine, theirs = Totals(), Totals()
    for totals in (mine, theirs):
        totals.add(OUTPUT_VIOLATIONS, (CHAT, MESSAGES), 0)
    theirs.add(OUTPUT_VIOLATIONS, (CHAT, MESSAGES))
    mine.merge(Totals.unpack(json.loads(json.dumps(theirs.pack()))))
    assert mine.read(OUTPUT_VIOLATIONS, CHAT, MESSAGES) == [1]

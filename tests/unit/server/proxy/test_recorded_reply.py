"""Captures of forwarded endpoints over real sockets: which are kept, what they have, and what is never held."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli.main import main
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.observability.captures.document import body_of
from dragoman_server.observability.captures.replay import NotReplayable, replay
from dragoman_server.observability.captures.store import Capture
from dragoman_server.simulator import make_simulator
from dragoman_server.simulator.other_endpoints import AUDIO
from support.forms import FORM_TYPE, form, part
from support.gateways import Gate, config_for, gate, served, until
from support.named_keys import keyed, made
from support.sockets import Close, ScriptedServer, Stall, answer, head, stream
from support.sockets import Send as SendBytes

CANARY = "canary-prompt-41c7"
CHAT = Dialect.CHAT
PLANNED = pytest.mark.parametrize("planned", [False, True], ids=["one attempt", "with attempts"])
JSON_REQUESTS: dict[str, dict[str, Any]] = {
    "embeddings": {"input": [CANARY, "Grüße"]},
    "completions": {"prompt": CANARY, "suffix": CANARY},
    "moderations": {"input": CANARY},
    "images/generations": {"prompt": CANARY},
    "rerank": {"query": CANARY, "documents": [CANARY, {CANARY: CANARY}]},
}


@asynccontextmanager
async def capturing(
    folder: Path, url: str | None = None, *, planned: bool = False, **options: Any
) -> AsyncIterator[Gate]:
    """A gateway that captures, before the upstream at `url` or the simulated one."""
    options = {"directory": str(folder / "captures"), "share": 1.0, **options}
    async with served(make_simulator()) as (simulated, _):
        config = replace(config_for(url or f"{simulated}/v1", CHAT), capture=CaptureOptions(**options))
        if planned:
            retries = RetryOptions(backoff=0.001, backoff_max=0.001)
            config = replace(config, routes=[Route("*", "up", attempts=2)], retries=retries)
        async with gate(config) as entrance:
            yield entrance


async def ask(
    entrance: Gate, endpoint: str, body: Any, *, content_type: str = "application/json", **headers: str
) -> tuple[str, int, bytes]:
    """Send a request. Returns the id of its capture, and the reply."""
    data = body if isinstance(body, bytes) else json.dumps({"model": "m", **body}).encode()
    url, sent = f"{entrance.url}/v1/{endpoint}", {"content-type": content_type, **headers}
    async with entrance.session.post(url, data=data, headers=sent) as reply:
        return reply.headers["x-dragoman-request-id"], reply.status, await reply.read()


async def captured(entrance: Gate, capture_id: str) -> Capture:
    """The capture, once it was written."""
    assert entrance.gateway.services.instruments.captures is not None
    store = entrance.gateway.services.instruments.captures.store
    await until(lambda: store.get(capture_id) is not None, 60)
    capture = store.get(capture_id)
    assert capture is not None
    return capture


def written(capture: Capture) -> str:
    return json.dumps([capture.summary, capture.exchange], ensure_ascii=False)


@PLANNED
@pytest.mark.parametrize("endpoint", JSON_REQUESTS)
async def test_json_is_kept_on_all_four_ways(endpoint: str, planned: bool, tmp_path: Path) -> None:
    async with capturing(tmp_path, texts=True, planned=planned) as entrance:
        sent = json.dumps({"model": "m", **JSON_REQUESTS[endpoint]}).encode()
        capture_id, status, body = await ask(entrance, endpoint, sent)
        capture = await captured(entrance, capture_id)
    assert status == 200
    summary, exchange = capture
    assert (summary["endpoint"], summary["ended"], summary["status"]) == (endpoint, "completed", 200)
    assert (summary["model"], summary["provider"], summary["attempts"]) == ("m", "up", 1)
    assert exchange["client"]["request"]["path"] == f"/v1/{endpoint}"
    assert body_of(exchange["client"]["request"]) == sent
    (attempt,) = exchange["attempts"]
    assert attempt["request"]["url"].endswith(f"/v1/{endpoint}")
    assert body_of(attempt["request"]) == sent
    assert body_of(attempt["reply"]) == body_of(exchange["client"]["reply"]) == body
    assert (attempt["reply"]["status"], exchange["client"]["reply"]["status"]) == (200, 200)
    assert exchange["replay"] is None
    assert exchange["receipt"]["endpoint"] == endpoint


@pytest.mark.parametrize("endpoint", JSON_REQUESTS)
async def test_texts_are_replaced_by_default(endpoint: str, tmp_path: Path) -> None:
    async with capturing(tmp_path) as entrance:
        capture_id, _, body = await ask(entrance, endpoint, JSON_REQUESTS[endpoint])
        capture = await captured(entrance, capture_id)
    assert CANARY not in written(capture)
    kept = body_of(capture.exchange["client"]["reply"])
    assert len(kept) == len(body)
    assert json.loads(kept).keys() == json.loads(body).keys()


@PLANNED
async def test_a_stream_of_events_is_kept(planned: bool, tmp_path: Path) -> None:
    async with capturing(tmp_path, texts=True, planned=planned) as entrance:
        capture_id, _, body = await ask(entrance, "completions", {"prompt": CANARY, "stream": True})
        capture = await captured(entrance, capture_id)
    reply = capture.exchange["client"]["reply"]
    assert body_of(reply) == body
    assert sum(length for _, length in reply["writes"]) == len(body)
    assert body_of(capture.exchange["attempts"][0]["reply"]) == body
    assert capture.summary["stream"] is True


@PLANNED
async def test_of_audio_only_the_type_and_the_size_are_kept(planned: bool, tmp_path: Path) -> None:
    async with capturing(tmp_path, texts=True, planned=planned) as entrance:
        capture_id, _, body = await ask(entrance, "audio/speech", {"input": CANARY, "voice": "alloy"})
        capture = await captured(entrance, capture_id)
    assert body == AUDIO
    for reply in (capture.exchange["attempts"][0]["reply"], capture.exchange["client"]["reply"]):
        assert (reply["omitted"], reply["bytes"], reply["text"]) == ("audio/mpeg", len(AUDIO), "")
        assert reply["truncated"]
        assert ["content-type", "audio/mpeg"] in reply["headers"]
    assert not capture.summary["truncated"]
    assert CANARY in capture.exchange["client"]["request"]["text"]


@PLANNED
async def test_of_a_form_only_the_type_and_the_size_are_kept(planned: bool, tmp_path: Path) -> None:
    async with capturing(tmp_path, texts=True, planned=planned) as entrance:
        data = form(
            part("prompt", CANARY.encode()), part("model", b"m"), part("file", CANARY.encode() * 9, filename="a")
        )
        capture_id, status, body = await ask(entrance, "audio/transcriptions", data, content_type=FORM_TYPE)
        capture = await captured(entrance, capture_id)
    assert status == 200
    assert CANARY not in written(capture)
    sent, (attempt,) = capture.exchange["client"]["request"], capture.exchange["attempts"]
    for request in (sent, attempt["request"]):
        assert (request["omitted"], request["bytes"]) == ("multipart/form-data", len(data))
        assert request["text"] == ""
    assert body_of(attempt["reply"]) == body_of(capture.exchange["client"]["reply"]) == body


async def test_a_long_form_and_a_long_reply_are_not_held(tmp_path: Path) -> None:
    """More than `exchange_bytes` passes in both directions, and none of it counts as kept or as cut."""
    size = 4 * 1024 * 1024
    long = SendBytes(head(200, [("content-type", "image/png"), ("content-length", str(size))]) + bytes(size))
    async with (
        ScriptedServer([long]) as server,
        capturing(tmp_path, server.url, texts=True, exchange_bytes=1000) as entrance,
    ):
        data = form(part("model", b"m"), part("image", bytes(size), filename="a"))
        url = f"{entrance.url}/v1/images/edits"
        async with entrance.session.post(url, data=BytesIO(data), headers={"content-type": FORM_TYPE}) as reply:
            assert len(await reply.read()) == size
        capture = await captured(entrance, reply.headers["x-dragoman-request-id"])
    sent, got = capture.exchange["client"]["request"], capture.exchange["client"]["reply"]
    assert (sent["bytes"], sent["text"], got["bytes"], got["text"]) == (len(data), "", size, "")
    assert not capture.summary["truncated"]
    assert len(written(capture)) < 20_000


async def test_a_transcript_is_a_text(tmp_path: Path) -> None:
    for texts in (True, False):
        async with capturing(tmp_path, texts=texts) as entrance:
            data = form(part("model", b"m"), part("response_format", b"text"), part("file", b"x", filename="a"))
            capture_id, _, body = await ask(entrance, "audio/transcriptions", data, content_type=FORM_TYPE)
            capture = await captured(entrance, capture_id)
        kept = body_of(capture.exchange["client"]["reply"])
        assert "omitted" not in capture.exchange["client"]["reply"]
        assert len(kept) == len(body)
        assert (kept == body) is texts


async def test_a_body_of_no_known_type_is_taken_for_binary(tmp_path: Path) -> None:
    async with (
        ScriptedServer([SendBytes(head(200, [("content-length", "8")]) + b"{" + b'"a": 1' + b"}")]) as server,
        capturing(tmp_path, server.url, texts=True) as entrance,
    ):
        capture_id, _, body = await ask(entrance, "rerank", JSON_REQUESTS["rerank"])
        capture = await captured(entrance, capture_id)
    assert body == b'{"a": 1}'
    assert capture.exchange["client"]["reply"]["omitted"] == "application/octet-stream"


async def test_what_is_too_long_is_cut(tmp_path: Path) -> None:
    async with capturing(tmp_path, texts=True, exchange_bytes=2000) as entrance:
        capture_id, _, body = await ask(entrance, "embeddings", {"input": ["x" * 5000]})
        capture = await captured(entrance, capture_id)
    assert capture.summary["truncated"]
    assert len(body_of(capture.exchange["client"]["request"])) == 2000
    assert capture.exchange["client"]["reply"]["bytes"] == len(body)


async def test_each_attempt_is_kept(tmp_path: Path) -> None:
    fine = answer(200, b'{"object":"list","data":[],"usage":{"prompt_tokens":1,"total_tokens":1}}')
    async with (
        ScriptedServer([Close()]) as one,
        ScriptedServer(answer(503, b'{"error":{"message":"busy"}}')) as two,
        ScriptedServer(fine) as three,
    ):
        providers = {f"up{n}": Provider(f"up{n}", CHAT, each.url) for n, each in enumerate((one, two, three))}
        targets = tuple(RouteTarget(name, priority=place) for place, name in enumerate(providers, 1))
        capture = CaptureOptions(str(tmp_path / "captures"), share=1.0, texts=True)
        async with gate(Config(providers=providers, routes=[Route("*", targets=targets)], capture=capture)) as entrance:
            capture_id, status, _ = await ask(entrance, "embeddings", {"input": CANARY})
            found = await captured(entrance, capture_id)
    assert status == 200
    first, second, third = found.exchange["attempts"]
    assert (first["provider"], first["reply"], first["error"]["reason"]) == ("up0", None, "unreachable")
    assert (second["provider"], second["reply"]["status"], second["error"]) == ("up1", 503, None)
    assert (third["provider"], third["reply"]["status"]) == ("up2", 200)
    assert first["request"]["text"] == third["request"]["text"]
    assert found.summary["provider"] == "up2"


@PLANNED
async def test_a_refusal_and_a_rejection_are_kept(planned: bool, tmp_path: Path) -> None:
    refused = answer(400, json.dumps({"error": {"message": CANARY, "type": "invalid_request_error"}}).encode())
    async with ScriptedServer(refused) as server, capturing(tmp_path, server.url, planned=planned) as entrance:
        capture_id, status, body = await ask(entrance, "embeddings", {"input": CANARY})
        capture = await captured(entrance, capture_id)
        assert (status, capture.summary["ended"]) == (400, "refused")
        assert CANARY.encode() in body
        assert CANARY not in written(capture)
        assert len(body_of(capture.exchange["client"]["reply"])) == len(body)
        capture_id, status, body = await ask(entrance, "embeddings", b'{"model": "m", "model": "n"}')
        capture = await captured(entrance, capture_id)
        assert (status, capture.summary["ended"], capture.exchange["attempts"]) == (400, "rejected", [])
        assert capture.exchange["client"]["reply"]["status"] == 400
        capture_id, status, _ = await ask(entrance, "embeddings", b"{")
        assert (status, (await captured(entrance, capture_id)).exchange["client"]["request"]["bytes"]) == (400, 1)


@PLANNED
async def test_a_reply_that_is_cut_is_kept_up_to_there(planned: bool, tmp_path: Path) -> None:
    begun = [b'data: {"choices":[]}\n\n', b'data: {"choices":[]}\n\n']
    script = [*stream(begun, end=False), Close()]
    async with ScriptedServer(script) as server, capturing(tmp_path, server.url, planned=planned) as entrance:
        capture_id, _, body = await ask(entrance, "completions", {"prompt": "x", "stream": True})
        capture = await captured(entrance, capture_id)
    assert capture.summary["ended"] == "failed"
    assert b"error" in body
    assert capture.exchange["client"]["reply"]["bytes"] == len(body)
    assert capture.exchange["attempts"][0]["error"]["reason"] == "truncated"


async def test_a_client_that_leaves_is_kept_up_to_there(tmp_path: Path) -> None:
    script = [*stream([b'data: {"choices":[]}\n\n'], end=False), Stall()]
    async with ScriptedServer(script) as server, capturing(tmp_path, server.url) as entrance:
        body = {"model": "m", "prompt": "x", "stream": True}
        async with entrance.session.post(f"{entrance.url}/v1/completions", json=body) as reply:
            await reply.content.readany()
            capture_id = reply.headers["x-dragoman-request-id"]
        capture = await captured(entrance, capture_id)
    assert capture.summary["ended"] == "abandoned"
    assert capture.exchange["client"]["reply"]["bytes"] > 0


async def test_secrets_are_masked(tmp_path: Path) -> None:
    secret = "canary-provider-9c1d"
    noted = json.dumps({"object": "list", "data": [], "note": f"key {secret}"}).encode()
    async with ScriptedServer(answer(200, noted)) as server:
        config = config_for(server.url, CHAT)
        provider = replace(config.providers["up"], api_key=Secret(secret))
        capture = CaptureOptions(str(tmp_path / "captures"), share=1.0, texts=True)
        async with gate(replace(config, providers={"up": provider}, capture=capture)) as entrance:
            own = "sk-canary-client-77aa55"
            capture_id, _, body = await ask(entrance, "embeddings", {"input": own}, authorization=f"Bearer {own}")
            found = await captured(entrance, capture_id)
    assert secret.encode() in body
    assert secret not in written(found)
    assert own not in written(found)


async def test_the_triggers_are_those_of_other_exchanges(tmp_path: Path) -> None:
    key, record = made(admin=True)
    other, plain = made("plain")
    watched, always = made("watched", capture=True)
    async with served(make_simulator()) as (url, _):
        config = keyed(f"{url}/v1", CHAT, record, plain, always)
        config = replace(config, capture=CaptureOptions(str(tmp_path / "captures")))
        async with gate(config) as entrance:
            reasons = []
            for used, header in ((key, "1"), (other, "1"), (watched, "0"), (key, "0")):
                headers = {"authorization": f"Bearer {used}", "x-dragoman-capture": header}
                capture_id, status, _ = await ask(entrance, "embeddings", {"input": "x"}, **headers)
                assert status == 200
                reasons.append(capture_id)
        found = {file.stem: file for file in (tmp_path / "captures").iterdir()}
    assert sorted(found) == sorted([reasons[0], reasons[2]])


async def test_without_a_capture_nothing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[object] = []
    monkeypatch.setattr("dragoman_server.observability.captures.captures.Recording", created.append)
    async with capturing(tmp_path, share=0.0) as entrance:
        for headers in ({}, {"x-dragoman-capture": "0"}):
            assert (await ask(entrance, "embeddings", {"input": "x"}, **headers))[1] == 200
        assert entrance.gateway.services.instruments.captures is not None
        assert entrance.gateway.services.instruments.captures.store.list() == []
    assert created == []


async def test_the_command_line_shows_it_and_replays_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with capturing(tmp_path) as entrance:
        capture_id, _, _ = await ask(entrance, "audio/speech", {"input": "x", "voice": "alloy"})
        capture = await captured(entrance, capture_id)
        async with entrance.session.get(f"{entrance.url}/v1/dragoman/captures/{capture_id}") as reply:
            assert (await reply.json())["endpoint"] == "audio/speech"
    directory = str(tmp_path / "captures")
    assert main(["capture", "list", "--directory", directory]) == 0
    assert f"{capture_id}  audio/speech  m  200 completed" in capsys.readouterr().out
    assert main(["capture", "show", capture_id, "--directory", directory]) == 0
    assert f"{len(AUDIO)} bytes of audio/mpeg (not kept)" in capsys.readouterr().out
    with pytest.raises(NotReplayable, match="forwarded untranslated"):
        await replay(capture, CHAT)

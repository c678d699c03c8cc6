"""Compressed bodies of clients and upstreams: what compression hides is read as if it had been sent plain."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import Dialect
from support.gateways import CHAT, MESSAGES, Gate, config_for, gate, with_limits
from support.packing import packed_br, packed_zstd, skippable
from support.paths import FIXTURES
from support.responses_frames import message, response, text_part
from support.samples import dump, reply
from support.sockets import ScriptedServer, Send, head

RESPONSES = Dialect.RESPONSES
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": packed_br,
    "zstd": packed_zstd,
    "gzip, zstd": lambda data: packed_zstd(gzip.compress(data)),
}
CODEX = json.loads((FIXTURES / "codex_lite-tool_2.json").read_bytes())["request"]
"""The second turn of a session of Codex, which compresses it with zstd for a login of ChatGPT."""


REPLIES = {
    CHAT: reply(CHAT),
    MESSAGES: reply(MESSAGES),
    RESPONSES: response("completed", [message(text_part("Done."))]),
}


def plain(body: bytes, *, status: int = 200, encoding: str | None = None) -> list[Any]:
    """The script of an upstream that sends this body, in this encoding."""
    data = body if encoding is None else PACKERS[encoding](body)
    lines = [("content-type", "application/json"), ("content-length", str(len(data)))]
    return [Send(head(status, lines if encoding is None else [*lines, ("content-encoding", encoding)]) + data)]


async def posted(entrance: Gate, body: bytes, encoding: str | None = None) -> tuple[int, Any]:
    """Send a request of Codex, and return the status and the answer."""
    sent = {name: value for name, value in CODEX["headers"].items() if name.lower() != "authorization"}
    if encoding is not None:
        sent["content-encoding"] = encoding
    async with entrance.session.post(f"{entrance.url}/v1/responses", data=body, headers=sent) as answered:
        return answered.status, json.loads(await answered.read())


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("embedded", [False, True], ids=["serve", "embedded"])
async def test_a_compressed_request_of_codex_is_the_plain_one(upstream: Dialect, embedded: bool) -> None:
    body = dump({**CODEX["body"], "stream": False})
    async with (
        ScriptedServer(plain(dump(REPLIES[upstream]))) as server,
        gate(config_for(server.url, upstream), handler_cancellation=not embedded) as entrance,
    ):
        assert (await posted(entrance, body))[0] == 200
        for encoding, pack in PACKERS.items():
            status, answered = await posted(entrance, pack(body), encoding)
            assert status == 200, (encoding, answered)
        first, *others = server.requests
        assert len(others) == len(PACKERS)
        assert {each.body for each in others} == {first.body}
        assert len(first.body) > 5000
        assert not any("content-encoding" in each.headers for each in server.requests)


@pytest.mark.parametrize(
    ("encoding", "body", "problem"),
    [
        ("zstd", b"no zstd at all", "its zstd body is corrupt"),
        ("zstd", packed_zstd(b"{}")[:-3], "its zstd body was cut short"),
        ("zstd", packed_zstd(b"{}") + b"\n", "its zstd body is corrupt"),
        ("zstd", packed_zstd(b"{}", window_log=24), "its zstd body has a window above 8 MiB"),
        ("br", packed_br(b"{}")[:-1], "its br body was cut short"),
        ("br", packed_br(b"{}") + b"\n", "its br body is corrupt"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-3], "its gzip body was cut short"),
        ("gzip, br", packed_br(b"no gzip at all"), "its gzip body is corrupt"),
    ],
)
async def test_a_body_that_is_not_in_its_encoding_is_a_400(encoding: str, body: bytes, problem: str) -> None:
    async with gate(config_for("http://127.0.0.1:9", CHAT)) as entrance:
        status, answered = await posted(entrance, body, encoding)
    assert (status, answered["error"]["message"]) == (400, f"the body cannot be read: {problem}")


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
async def test_a_bomb_is_refused_at_the_limit(encoding: str) -> None:
    async with gate(with_limits(config_for("http://127.0.0.1:9", CHAT), request_body=100_000)) as entrance:
        status, answered = await posted(entrance, PACKERS[encoding](bytes(50_000_000)), encoding)
    assert status == 413
    assert "request_body = 100000" in answered["error"]["message"]


async def test_a_bomb_inside_another_encoding_is_refused_at_the_limit() -> None:
    async with gate(with_limits(config_for("http://127.0.0.1:9", CHAT), request_body=100_000)) as entrance:
        status, answered = await posted(entrance, packed_zstd(skippable(bytes(1000)) * 1000), "zstd, zstd")
    assert (status, answered["error"]["message"]) == (
        400,
        "the body cannot be read: its zstd body expands to more than 100000 bytes for its next coding",
    )


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
@pytest.mark.parametrize("encoding", PACKERS)
async def test_compressed_errors_and_lists_of_an_upstream_are_read(encoding: str, transport: str) -> None:
    listed = dump({"object": "list", "data": [{"id": "qwen3", "object": "model", "created": 9}]})
    refused = dump({"error": {"message": "slow down, please", "type": "rate_limit_error", "code": None}})
    async with ScriptedServer(
        plain(listed, encoding=encoding), plain(refused, status=429, encoding=encoding)
    ) as server:
        config = config_for(server.url, CHAT, transport=transport)
        async with gate(replace(config, routes=[])) as entrance:
            async with entrance.session.get(f"{entrance.url}/v1/models") as answered:
                assert [model["id"] for model in (await answered.json())["data"]] == ["qwen3"]
            async with entrance.post(CHAT, model="qwen3") as answered:
                assert answered.status == 429
                assert "slow down, please" in (await answered.json())["error"]["message"]
    assert {each.headers["accept-encoding"] for each in server.requests} <= {"identity", "gzip, deflate, br, zstd"}


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
@pytest.mark.parametrize("encoding", PACKERS)
async def test_a_compressed_reply_of_a_forwarded_endpoint_comes_plain(encoding: str, transport: str) -> None:
    vectors = dump({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "m"})
    async with (
        ScriptedServer(plain(vectors, encoding=encoding)) as server,
        gate(config_for(server.url, CHAT, transport=transport)) as entrance,
        entrance.session.post(f"{entrance.url}/v1/embeddings", json={"model": "m", "input": "x"}) as answered,
    ):
        assert answered.status == 200
        assert "content-encoding" not in answered.headers
        assert (await answered.json())["data"][0]["embedding"] == [0.5]

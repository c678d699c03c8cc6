"""A client with a budget sends files in forms: each has a price, by what the upstream states or by its bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.price import Price
from support.gateways import gate
from support.named_keys import keyed, made, spent
from support.samples import dump
from support.sockets import ScriptedServer, Send, Step, answer

CHAT = Dialect.CHAT
AUDIO = b"\xff\xfb\x90\x00" * 60_000
"""A minute at 32 kbit/s."""
PRICES = {"whisper-1": Price(minute=0.006), "*": Price(input=10.0, output=20.0)}


HEADERS = {"content-type": "multipart/form-data; boundary=b"}


def form(model: str = "whisper-1") -> bytes:
    head = b'--b\r\ncontent-disposition: form-data; name="'
    field, file = b'model"\r\n\r\n%b\r\n' % model.encode(), b'file"; filename="a.mp3"\r\n\r\n%b\r\n' % AUDIO
    return head + field + head + file + b"--b--\r\n"


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    """The form without a length."""
    for at in range(0, len(data), 65_536):
        yield data[at : at + 65_536]


def stated(**usage: Any) -> list[Step]:
    return answer(200, dump({"text": "Hello", **usage}))


PLAIN: list[Step] = [Send(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nHi")]


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize(
    ("model", "script", "cost", "tokens"),
    [
        ("whisper-1", stated(usage={"type": "duration", "seconds": 90}), 0.009, 900),
        ("whisper-1", stated(duration="30.0"), 0.003, 300),
        ("whisper-1", stated(), 0.006, 600),
        ("whisper-1", PLAIN, 0.006, 600),
        ("gpt-4o", stated(usage={"type": "tokens", "input_tokens": 700, "output_tokens": 50}), 0.008, 750),
        ("gpt-4o", PLAIN, 0.006, 600),
        ("whisper-1", answer(400, b'{"error": {"message": "no"}}'), 0, 0),
    ],
    ids=["duration", "verbose", "silent", "text", "tokens", "tokens-text", "refused"],
)
async def test_a_form_has_a_price(model: str, script: list[Step], cost: float, tokens: int, chunked: bool) -> None:
    key, record = made(daily_cost=1.0, daily_tokens=10**6)
    async with (
        ScriptedServer(script) as upstream,
        gate(replace(keyed(upstream.url, CHAT, record), prices=PRICES)) as entrance,
    ):
        url, data = f"{entrance.url}/v1/audio/transcriptions", form(model)
        headers = {**HEADERS, "authorization": f"Bearer {key}"}
        async with entrance.session.post(url, data=pieces(data) if chunked else data, headers=headers) as response:
            assert response.status in (200, 400)
            await response.read()
        used = await spent(entrance, record)
    print(f"{len(AUDIO)} bytes: {used}")
    # The form has a few hundred bytes next to the audio.
    assert used["daily_tokens"] == pytest.approx(tokens, abs=2)
    assert used["daily_cost"] == pytest.approx(cost * UNITS, rel=0.005)


async def test_forms_end_with_the_budget() -> None:
    """The fourth form would cost more than is left: it is refused, and not one byte of it is sent upstream."""
    key, record = made(daily_cost=0.02)
    async with ScriptedServer(PLAIN) as upstream:
        async with gate(replace(keyed(upstream.url, CHAT, record), prices=PRICES)) as entrance:
            statuses = []
            for _ in range(6):
                url, headers = f"{entrance.url}/v1/audio/transcriptions", {**HEADERS, "authorization": f"Bearer {key}"}
                async with entrance.session.post(url, data=form(), headers=headers) as response:
                    statuses.append(response.status)
        assert statuses == [200] * 3 + [429] * 3
        assert len(upstream.requests) == 3

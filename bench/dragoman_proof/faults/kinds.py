"""The faults: what an upstream does behind the first bytes of a stream, and what a client does."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from dragoman import Dialect
from dragoman_proof.faults.line import Line
from dragoman_proof.faults.recording import Recording

FAILS: Final = "fails"
COMPLETE: Final = "complete"
LEGAL: Final = "legal"
"""The reply must end with an error unless the stream was whole; it must be complete; it must be one of both."""
SMALL: Final = 64 * 1024
"""The largest line of a stream at the gateways of the proof, in bytes."""
LAST_CHUNK: Final = b"0\r\n\r\n"
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED: Final = _HEAD + b"transfer-encoding: chunked\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A stream, a fault, and the byte before which it happens. `seed` is of what is random in it."""

    number: int
    recording: Recording
    kind: str
    at: int
    seed: int


Play = Callable[[Line, Case, random.Random], Awaitable[bool]]
"""Sends a reply with its fault. Returns True if the connection may be used again."""
ERRORS: Final = {
    Dialect.CHAT: (
        b'data: {"error":{"message":"too much","type":"server_error","param":null,"code":"overloaded"}}\n\n',
    ),
    Dialect.MESSAGES: (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"too much"}}\n\n',
    ),
    Dialect.RESPONSES: (
        b'event: error\ndata: {"type":"error","sequence_number":99,"code":"server_is_overloaded","message":"too much",'
        b'"param":null}\n\n',
    ),
    Dialect.GENERATE: (
        b'data: {"error":{"code":503,"message":"too much","status":"UNAVAILABLE"}}\r\n\r\n',
        b'{\n  "error": {\n    "code": 503,\n    "message": "too much",\n    "status": "UNAVAILABLE"\n  }\n}\n',
        b'[{"error":{"code":503,"message":"too much","status":"UNAVAILABLE"}}]',
    ),
}
"""In-band errors of upstreams, in each form that a dialect has."""


def chunk(data: bytes) -> bytes:
    """Return data as one chunk of a body; nothing for no data, which would end the body."""
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


async def _begin(line: Line, case: Case, chance: random.Random) -> bytes:
    """Send the head and the stream up to the fault. Returns the rest."""
    data, size = case.recording.data, chance.choice((50, 400, 100_000))
    await line.send(CHUNKED)
    for start in range(0, case.at, size):
        await line.send(chunk(data[start : min(start + size, case.at)]))
    return data[case.at :]


async def _cut(line: Line, case: Case, chance: random.Random) -> bool:
    await _begin(line, case, chance)
    return False


async def _reset(line: Line, case: Case, chance: random.Random) -> bool:
    await _begin(line, case, chance)
    line.reset()
    return False


async def _half_close(line: Line, case: Case, chance: random.Random) -> bool:
    await _begin(line, case, chance)
    line.half_close()
    await line.gone()
    return False


async def _stall(line: Line, case: Case, chance: random.Random) -> bool:
    await _begin(line, case, chance)
    await line.gone()
    return False


async def _early_end(line: Line, case: Case, chance: random.Random) -> bool:
    await _begin(line, case, chance)
    await line.send(LAST_CHUNK)
    return True


async def _bad_chunk(line: Line, case: Case, chance: random.Random) -> bool:
    await _begin(line, case, chance)
    await line.send(chance.choice((b"zz\r\n", b"-5\r\n", b"\r\n\r\n", b"5\r\nabcdefgh\r\n", b"ffffffffffffffffff\r\n")))
    await line.gone()
    return False


async def _long_chunk(line: Line, case: Case, chance: random.Random) -> bool:
    rest = await _begin(line, case, chance)
    held = rest[: max(0, case.recording.whole - case.at - 2)]
    await line.send(b"%x\r\n%s" % (len(held) + 100, held))
    return False


async def _long_length(line: Line, case: Case, chance: random.Random) -> bool:
    sent = case.recording.data[: case.at]
    await line.send(_HEAD + b"content-length: %d\r\n\r\n" % (len(sent) + 1 + chance.randrange(500)) + sent)
    return False


async def _short_length(line: Line, case: Case, chance: random.Random) -> bool:
    # The rest of the stream arrives outside any reply. Empty lines are left out: parsers ignore them.
    data, rest = case.recording.data[: case.at], case.recording.data[case.at :].strip()
    await line.send(_HEAD + b"content-length: %d\r\n\r\n" % len(data) + data + rest)
    if not rest:
        return True
    await line.gone()
    return False


async def _garbage(line: Line, case: Case, chance: random.Random) -> bool:
    await _begin(line, case, chance)
    page = b"<html><body>502 Bad Gateway</body></html>\n\n"
    await line.send(chunk(chance.choice((page, chance.randbytes(300) + b"\n\n", b"\0" * 50 + b"\n\n"))) + LAST_CHUNK)
    return True


async def _error_event(line: Line, case: Case, chance: random.Random) -> bool:
    await _begin(line, case, chance)
    await line.send(chunk(chance.choice(ERRORS[line.dialect])) + LAST_CHUNK)
    return True


async def _flood(line: Line, case: Case, chance: random.Random) -> bool:
    await _begin(line, case, chance)
    await line.send(chunk(b"data: " + b"x" * (2 * SMALL)))
    for _ in range(chance.randrange(40)):
        if line.is_gone():
            break
        await line.send(chunk(b"x" * SMALL))
    await line.gone()
    return False


async def _broken_json(line: Line, case: Case, chance: random.Random) -> bool:
    rest = await _begin(line, case, chance)
    broken = chance.choice(
        (b'data: {"id":\n\n', b"data: nan\n\n", b"data: [[[[\n\n", b'data: "\xff"\n\n', b"data: 7\n\n")
    )
    await line.send(chunk(broken + rest) + LAST_CHUNK)
    return True


async def _doubled(line: Line, case: Case, chance: random.Random) -> bool:
    rest = await _begin(line, case, chance)
    again = case.recording.data[max(0, case.at - chance.randint(1, 60)) : case.at]
    await line.send(chunk(again + rest) + LAST_CHUNK)
    return True


async def _lost_bytes(line: Line, case: Case, chance: random.Random) -> bool:
    rest = await _begin(line, case, chance)
    await line.send(chunk(rest[chance.randint(1, 60) :]) + LAST_CHUNK)
    return True


async def _drip(line: Line, case: Case, chance: random.Random) -> bool:
    rest, size = await _begin(line, case, chance), chance.choice((1, 7, 64))
    for at in range(0, min(len(rest), 60 * size), size):
        await line.send(chunk(rest[at : at + size]))
    await line.send(chunk(rest[60 * size :]) + LAST_CHUNK)
    return True


async def _comments(line: Line, case: Case, chance: random.Random) -> bool:
    rest = await _begin(line, case, chance)
    await line.send(chunk((b": keep-alive\n\n" if case.at in (0, *case.recording.ends) else b"") + rest) + LAST_CHUNK)
    return True


async def _trailers(line: Line, case: Case, chance: random.Random) -> bool:
    rest = await _begin(line, case, chance)
    await line.send(b"%x;name=value\r\n%s\r\n" % (len(rest), rest) if rest else b"")
    await line.send(b"0\r\nx-checksum: 1\r\n\r\n")
    return True


async def _early_hints(line: Line, case: Case, chance: random.Random) -> bool:
    await line.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")
    rest = await _begin(line, case, chance)
    await line.send(chunk(rest) + LAST_CHUNK)
    return True


async def _whole(line: Line, case: Case, chance: random.Random) -> bool:
    await line.send(CHUNKED + chunk(case.recording.data) + LAST_CHUNK)
    return True


async def _cut_head(line: Line, case: Case, chance: random.Random) -> bool:
    await line.send(CHUNKED[: case.at % len(CHUNKED)])
    return False


async def _bad_head(line: Line, case: Case, chance: random.Random) -> bool:
    length = b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!"
    await line.send(
        chance.choice(
            (b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", _HEAD + length, b"\x16\x03\x01" * 20)
        )
    )
    await line.gone()
    return False


async def _long_head(line: Line, case: Case, chance: random.Random) -> bool:
    await line.send(_HEAD)
    for number in range(1000):  # the raw transport takes 64 KiB, aiohttp's client a number of lines
        if line.is_gone():
            break
        await line.send(b"x-%d: %s\r\n" % (number, b"b" * 4000))
    await line.gone()
    return False


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault of an upstream: anywhere in a stream, only `between` its events, or in the `head` of the response."""

    play: Play
    verdict: Literal["fails", "complete", "legal"]
    between: bool = False
    head: bool = False
    body_ends: bool = False
    """True if the body ends as HTTP has it, so that a stream is whole from its stop reason on."""


UPSTREAM: Final = {
    "cut": Kind(_cut, FAILS),
    "reset": Kind(_reset, FAILS),
    "half close": Kind(_half_close, FAILS),
    "stall": Kind(_stall, FAILS),
    "early end": Kind(_early_end, FAILS, body_ends=True),
    "bad chunk": Kind(_bad_chunk, FAILS),
    "long chunk": Kind(_long_chunk, FAILS),
    "long length": Kind(_long_length, FAILS),
    "short length": Kind(_short_length, FAILS, body_ends=True),
    "garbage": Kind(_garbage, FAILS, body_ends=True),
    "error event": Kind(_error_event, FAILS, between=True, body_ends=True),
    "flood": Kind(_flood, FAILS, between=True),
    "broken JSON": Kind(_broken_json, LEGAL, between=True),
    "doubled bytes": Kind(_doubled, LEGAL),
    "lost bytes": Kind(_lost_bytes, LEGAL),
    "drip": Kind(_drip, COMPLETE),
    "comments": Kind(_comments, COMPLETE),
    "extensions and trailers": Kind(_trailers, COMPLETE),
    "early hints": Kind(_early_hints, COMPLETE),
    "cut head": Kind(_cut_head, FAILS, head=True),
    "bad head": Kind(_bad_head, FAILS, head=True),
    "long head": Kind(_long_head, FAILS, head=True),
    "none": Kind(_whole, COMPLETE, head=True),
}
"""The faults of upstreams, by name."""
CLIENT: Final = ("leaves", "resets", "half closes", "reads late")
"""The faults of clients, once so many bytes of a reply have arrived. Their upstream sends the whole stream."""
WEBSOCKET: Final = ("closes", "closes wrongly", "breaks a frame", "holds half a frame", "floods")
"""Further faults of clients with a WebSocket."""
CLIENTS: Final = frozenset((*CLIENT, *WEBSOCKET))

"""The clients of the soak: they send calls of the day and cases of the fault matrix, and keep what went wrong."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from dragoman import Dialect
from dragoman.gateway import CLIENT_DIALECTS
from dragoman_proof.faults.client import ask
from dragoman_proof.faults.judge import violation
from dragoman_proof.faults.kinds import Case
from dragoman_proof.faults.matrix import Part
from dragoman_proof.faults.reading import Reply, read
from dragoman_proof.soak.calls import LAST, Call

_SECONDS: Final = 180.0
"""The longest time for one call; a response in the background whose process was killed ends when its lease does."""
_POLL: Final = 0.25
_AGAIN: Final = (502, 503, 504)
"""Statuses of a poll that is repeated, as official SDKs do: an upstream on a busy machine may not answer in time."""
_ENDS: Final = frozenset(("response.completed", "response.incomplete", "response.failed", "error"))
_BETA: Final = {"openai-beta": "responses_websockets=2026-02-06"}


class CutReply(Exception):
    """A reply that did not end as its protocol has it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A call that has ended: its model, when it began and ended, and what went wrong; None if nothing did."""

    model: str
    begun: float
    ended: float
    problem: str | None


@dataclass(slots=True)
class Clients:
    """Clients of one gateway. A half of the calls over HTTP use connections that are kept."""

    url: str
    key: str
    kept: aiohttp.ClientSession
    fresh: aiohttp.ClientSession
    outcomes: list[Outcome] = field(default_factory=list)
    sound: dict[str, Reply] = field(default_factory=dict)
    """The replies to sound streams, by direction and recording."""
    _calls: int = 0

    @property
    def headers(self) -> dict[str, str]:
        """The key, as all clients send it."""
        return {"authorization": f"Bearer {self.key}"}

    async def play(self, call: Call) -> None:
        """Send a call of the day, and read its reply to its end, or leave its stream."""
        begun, problem = time.monotonic(), None
        self._calls += 1
        session = self.kept if self._calls % 2 else self.fresh
        body = {**call.body, "model": call.name}
        try:
            async with asyncio.timeout(_SECONDS):
                if call.over == "websocket":
                    await self._turn(call, body)
                elif call.over == "background":
                    await self._background(body)
                else:
                    await self._request(session, call, body)
        except TimeoutError:
            problem = f"no end within {_SECONDS:g} seconds"
        except (aiohttp.ClientError, ConnectionError, CutReply, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
        self.outcomes.append(Outcome(call.model, begun, time.monotonic(), problem))

    async def _request(self, session: aiohttp.ClientSession, call: Call, body: dict[str, object]) -> None:
        url = f"{self.url}/v1/{call.client.path}"
        async with session.post(url, json=body, headers=self.headers) as response:
            received = b""
            async for piece in response.content.iter_any():
                received += piece
                if call.leaves and LAST in received:
                    return
            if response.status == 401 or response.status == 404:
                raise CutReply(f"status {response.status}: {received[:200]!r}")

    async def _turn(self, call: Call, body: dict[str, object]) -> None:
        async with self.fresh.ws_connect(f"{self.url}/v1/responses", headers={**self.headers, **_BETA}) as socket:
            await socket.send_str(json.dumps({"type": "response.create", **body}))
            while True:
                message = await socket.receive()
                if message.type is not aiohttp.WSMsgType.TEXT:
                    raise CutReply(f"the connection ended: {message.type.name} {message.data}")
                event = json.loads(message.data)
                if event["type"] in _ENDS or (call.leaves and LAST.decode() in str(event.get("delta"))):
                    return

    async def _background(self, body: dict[str, object]) -> None:
        """Begin a response in the background, and poll it until it has ended, also while processes are killed."""
        url = f"{self.url}/v1/responses"
        body = {**body, "stream": False, "background": True, "store": True}
        async with self.fresh.post(url, json=body, headers=self.headers) as response:
            state = await response.json()
        while state.get("status") in ("queued", "in_progress"):
            await asyncio.sleep(_POLL)
            try:
                async with self.fresh.get(f"{url}/{state['id']}", headers=self.headers) as response:
                    found = await response.json()
                    if response.status in _AGAIN:
                        continue
                    if response.status != 200:
                        raise CutReply(f"status {response.status} of a response that is known: {found}")
                    state = found
            except aiohttp.ClientError:
                continue

    async def break_stream(self, part: Part, case: Case, model: str) -> None:
        """Send a case of the fault matrix, and judge its reply. `model` is its name for the gateway."""
        begun, problem = time.monotonic(), None
        stream = f"{part.client}-{part.upstream} {case.recording.name}"
        headers = f"authorization: Bearer {self.key}\r\n"
        try:
            received = await ask(
                int(self.url.rpartition(":")[2]), part.client, case, _SECONDS, model=model, headers=headers
            )
            problem = violation(part, case, received, self.sound.get(stream))
            if problem is None and case.kind == "none":
                self.sound.setdefault(stream, read(part.client, received.body))
        except TimeoutError:
            problem = f"no reply within {_SECONDS:g} seconds"
        except (ValueError, StopIteration) as error:
            problem = f"no response of HTTP: {error!r}"
        if problem is not None:
            problem = f"{part}: {case.kind} at {case.at} of {case.recording.name} (seed {case.seed}): {problem}"
        self.outcomes.append(Outcome(model.partition("/")[2], begun, time.monotonic(), problem))


@asynccontextmanager
async def clients(url: str, key: str) -> AsyncIterator[Clients]:
    """Clients of the gateway at `url`."""
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as kept,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True), timeout=timeout) as fresh,
    ):
        yield Clients(url, key, kept, fresh)


def parts() -> list[Part]:
    """Return the nine directions of the fault matrix."""
    return [Part(client, upstream) for client in CLIENT_DIALECTS for upstream in Dialect]

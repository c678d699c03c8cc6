"""Books the responses that upstreams run in the background by themselves: a client reads the end in a later request.

The request that begins one is booked as `running`, with its estimates. Its record is kept until a client reads the end:
then it has its row, the limits of its key count what it used, and its receipt, the counters and the hook `on_end` get
the counts. Rows and limits take an end once only, so the request that has begun it can read it too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial

from dragoman import LossCode, Usage
from dragoman.aio import UpstreamResponse
from dragoman.gateway import ResponseEnd, find_end, read_end
from dragoman.wire import Json, complete_frames, json_dumps, json_loads
from dragoman_server.accounts.limits.settlement import kept_claim
from dragoman_server.accounts.usage.begun import begun_entry, final_row
from dragoman_server.observability.metrics import RunEnding
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.run_reports import RunEnd
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services

_ENDS = {"completed": "completed", "incomplete": "completed", "failed": "failed", "cancelled": "abandoned"}
"""Status of a response → the end of its row."""
_CHARACTERS = 4
"""To a token of an output that was not counted, about."""


async def keep_run(scope: RequestScope, response_id: str, whole: bytes | None) -> None:
    """Keep what books the response of a request in the background, before its client learns the id.

    `whole` is a whole reply. One that has ended is booked as all others.
    """
    receipt, services = scope.receipt, scope.services
    if whole is not None and await compute(len(whole), partial(read_end, whole), receipt.owner) is not None:
        return
    receipt.runs_on = True
    translation = scope.translation
    record: Json = {
        "begun": receipt.created,
        "model": translation.upstream_model,
        "provider": receipt.provider,
        "input": translation.context.input_estimate,
        "losses": dict(translation.context.losses.counts) if translation.context.losses else {},
        "row": {**begun_entry(receipt), "attempts": len(receipt.attempts) or 1},
        "claim": kept_claim(scope.claim) if scope.claim is not None else None,
    }
    await services.routing.running.keep(receipt.owner, response_id, json_dumps(record))


async def book_end(services: Services, owner: bytes, response_id: str, end: ResponseEnd) -> None:
    """Book a response whose end a client reads, unless that has happened."""
    running = services.routing.running
    data = await running.take(owner, response_id)
    if data is None:
        return
    record = json_loads(data)
    usage, estimated = _counts(record, end)
    accounts = services.named_keys.accounts
    if record["claim"] is not None and accounts is not None:
        accounts.settle_end(record["claim"], usage, record["model"], provider=record["provider"], service=end.service)
    cost_of, seconds = services.instruments.usage.cost, max(0.0, services.now() - record["begun"])
    row = final_row(record["row"], _ENDS[end.status], usage, estimated, end.service, cost_of, seconds)
    if end.failure is not None and row.ended == "failed":
        row.error = end.failure.kind
    losses = {LossCode(code): number for code, number in record["losses"].items()}
    rest = services.runs.report(RunEnd(row, usage, end.service, end.failure, losses))

    async def booked() -> None:
        await services.instruments.usage.add_end(row)
        await running.end(owner, response_id)
        if rest is not None:
            await rest

    running.tasks.begin(booked())


def count_own_end(services: Services, receipt: Receipt, response_id: str) -> None:
    """Count a response whose end was read by the request that has begun it, unless that has happened."""
    running, facts = services.routing.running, receipt.facts
    ending = RunEnding(receipt.client, receipt.provider or "", receipt.route, receipt.ended, receipt.status or 500)

    async def counted() -> None:
        if await running.take(receipt.owner, response_id) is None:
            return
        usage, estimated = (facts.usage, facts.estimated) if facts is not None else (None, ())
        services.instruments.metrics.count_run(ending, usage, estimated)
        await running.end(receipt.owner, response_id)

    running.tasks.begin(counted())


def _counts(record: Json, end: ResponseEnd) -> tuple[Usage, list[str]]:
    """Return the counts of a response, and the names of those that are estimates, as a row has them."""
    usage, estimated = end.usage or Usage(), []
    guessed = Usage()
    if usage.input_total is None and record["input"]:
        guessed.input_total = record["input"]
        estimated.append("input")
    if usage.output_total is None and end.written:
        guessed.output_total = -(-end.written // _CHARACTERS)
        estimated.append("output")
    return usage.merged_onto(guessed), estimated


class WatchedEnd:
    """The upstream's response `inner` to a request about a stored response. `book` gets the end that is in it.

    It is awaited before the client gets the end. A frame of more than `limit` bytes is not searched. `owner` is the
    client.
    """

    def __init__(
        self, inner: UpstreamResponse, owner: bytes, book: Callable[[ResponseEnd], Awaitable[None]], limit: int
    ) -> None:
        self._inner = inner
        self._owner = owner
        self._book = book
        self._limit = limit
        self.status, self.headers = inner.status, inner.headers

    async def read(self, limit: int) -> bytes:
        """Return the whole body, as `UpstreamResponse.read` does."""
        body = await self._inner.read(limit)
        if 200 <= self.status < 300:
            end = await compute(len(body), partial(read_end, body), self._owner)
            if end is not None:
                await self._book(end)
        return body

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the body, as `UpstreamResponse.batches` does."""
        held: bytes | bytearray = b""
        async with aclosing(self._inner.batches()) as batches:
            async for data in batches:
                frames, held = complete_frames(held, data)
                if len(held) > self._limit:
                    held = b""
                await self._find_end(frames)
                yield data
        await self._find_end(bytes(held) + b"\n\n" if held else b"")

    async def _find_end(self, frames: bytes) -> None:
        if frames:
            end = await compute(len(frames), partial(find_end, frames), self._owner)
            if end is not None:
                await self._book(end)

    async def close(self) -> None:
        """Close the response."""
        await self._inner.close()

"""The stream of the live table: a snapshot of the newest exchanges, about once per second for each open page.

Rows are read from receipts when they are sent, so streams pay nothing for a viewer. Of a row that a page has, only what
changes is sent again. There is no queue: a page that reads slowly gets fewer snapshots. A stream ends after `LIFE`
seconds, and the page opens another one, so that a worker that is being replaced, or a key that was revoked, does not
have viewers for long.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web

from dragoman import DragomanError
from dragoman.errors import FailureKind
from dragoman.wire import Json, json_dumps
from dragoman_server.endpoints.console.row_notes import RowNotes
from dragoman_server.endpoints.console.rows import Known, RowFilter, known_rows, merged_rows, newest_rows, without_known
from dragoman_server.proxy.error_response import client_failure
from dragoman_server.proxy.gateway import Gateway

INTERVAL = 1.0
"""Seconds between two snapshots."""
LIFE = 60.0
"""Seconds after which a stream ends."""
SEND_SECONDS = 10.0
"""Seconds that a page may take to read a snapshot."""
VIEWERS_MAX = 8
"""Most open pages, per worker."""


class LiveTable:
    """The streams of one gateway's table."""

    def __init__(self, gateway: Gateway, notes: RowNotes, *, interval: float = INTERVAL, life: float = LIFE) -> None:
        self._gateway = gateway
        self._notes = notes
        self._interval = interval
        self._life = life
        self._viewers = 0
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End all streams."""
        self._closing.set()

    @property
    def viewers(self) -> int:
        """The number of open streams."""
        return self._viewers

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Send snapshots as server-sent events. Raises DragomanError (429) if too many pages are open."""
        if self._viewers >= VIEWERS_MAX:
            message = f"{VIEWERS_MAX} pages show live traffic already: close one, or pause it"
            raise DragomanError(client_failure(FailureKind.RATE_LIMIT, message, 429, code="too_many_viewers"))
        wanted = RowFilter.read(request.query)
        response = web.StreamResponse(
            headers={
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-store",
                "x-accel-buffering": "no",
                "x-content-type-options": "nosniff",
            }
        )
        self._viewers += 1
        try:
            await response.prepare(request)
            await self._send_snapshots(response, wanted)
        except (ConnectionError, TimeoutError):
            # The page was closed, or does not read.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._viewers -= 1
        return response

    async def _send_snapshots(self, response: web.StreamResponse, wanted: RowFilter) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._life
        known: Known = frozenset()
        while not (self._closing.is_set() or self._gateway.leaving or loop.time() >= end):
            snapshot = await self.snapshot(wanted, known)
            known = known_rows(snapshot["rows"])
            data = b"event: rows\ndata: " + json_dumps(snapshot) + b"\n\n"
            async with asyncio.timeout(SEND_SECONDS):
                await response.write(data)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._closing.wait()
        await response.write(b"event: end\ndata: {}\n\n")

    async def snapshot(self, wanted: RowFilter, known: Known = frozenset()) -> Json:
        """Return the newest rows of all workers, and of rows that the page has `known` only what changes."""
        answer = self.own_rows(wanted, known)
        siblings = self._gateway.siblings
        if siblings is not None:
            question = {"kind": "rows", **wanted.json()}
            try:
                answers = await siblings.console(question)
            except DragomanError:
                answers = []  # the next snapshot has their rows again
            answer["rows"] = without_known(merged_rows(answer["rows"], answers, wanted.rows), known)
            for name in ("open", "recording"):
                answer[name] += sum(int(other.get(name, 0)) for other in answers)
        if (hosts := self._gateway.hosts) is not None:
            await hosts.feed.follow()
            mine = {row["id"] for row in answer["rows"]}
            others = [row for row in hosts.feed.rows() if row["id"] not in mine and wanted.selects_row(row)]
            rows = merged_rows(answer["rows"], [{"rows": others}], wanted.rows)
            rows = [{name: value for name, value in row.items() if name != "process"} for row in rows]
            answer["rows"] = without_known(rows, known)
            answer["open"] += hosts.feed.open_requests
        return answer

    def own_rows(self, wanted: RowFilter, known: Known = frozenset()) -> Json:
        """Return the newest rows of this worker, the number of its open requests, and of those that it will record."""
        gateway = self._gateway
        rows = self._notes.add(newest_rows(gateway.receipts.newest(), wanted, gateway.metrics.seconds, known))
        for row in rows:
            if "state" in row:  # not one of which only the changes are sent
                row["host"] = gateway.host
        return {"open": gateway.metrics.open_requests, "recording": self._notes.remaining, "rows": rows}

"""The endpoints of the console, below `/ui`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Handler

from dragoman.gateway import CLIENT_DIALECTS, DEFAULT_DIALECT
from dragoman.wire import Json, json_dumps
from dragoman_server.endpoints.console.access import check_access
from dragoman_server.endpoints.console.exchange_view import exchange_view, own_view
from dragoman_server.endpoints.console.health import health, own_keys
from dragoman_server.endpoints.console.history import history, own_history
from dragoman_server.endpoints.console.live import LiveTable
from dragoman_server.endpoints.console.playground import Playground
from dragoman_server.endpoints.console.recorder import NEXT_MAX, Recorder
from dragoman_server.endpoints.console.row_notes import RowNotes
from dragoman_server.endpoints.console.rows import RowFilter
from dragoman_server.endpoints.console.static_files import StaticFiles
from dragoman_server.observability.installed_version import installed_version, revision
from dragoman_server.proxy.error_ladder import answer_without_receipt
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.request_body import handle_expect

PATH = "/ui"
_PRIVATE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Headers of data, which no cache may keep."""
_Data = Callable[[web.Request], Awaitable[Json]]


class Console:
    """The console of one gateway. `mount` adds it to an application."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._services = gateway.services
        self._files = StaticFiles()
        self._recorder = Recorder(gateway.services.instruments)
        self._playground = Playground(gateway, self._recorder)
        self.live = LiveTable(gateway, RowNotes(gateway, self._recorder))

    def recording(self, request_id: str) -> Json | None:
        """Return what was recorded of a request, or None."""
        recording = self._recorder.get(request_id)
        return recording.json() if recording is not None else None

    def mount(self, app: web.Application, prefix: str) -> None:
        """Add the page and its endpoints to `app` below `prefix`."""
        router, at = app.router, f"{prefix}{PATH}"
        router.add_get(at, self._files.redirect)
        router.add_get(f"{at}/", self._files.get)
        router.add_get(f"{at}/{{name:[a-z_]+[.][a-z]+}}", self._files.get)
        self._add(app, f"{at}/api/live", self._guarded(self.live.stream))
        self._add(app, f"{at}/api/about", self._data(self._about))
        self._add(app, f"{at}/api/health", self._data(self._health))
        self._add(app, f"{at}/api/history", self._data(self._history))
        self._add(app, f"{at}/api/exchanges", self._data(self._exchanges))
        self._add(app, f"{at}/api/exchanges/{{request_id}}", self._data(self._exchange))
        router.add_post(f"{at}/api/record", self._data(self._record))
        router.add_post(f"{at}/api/explain", self._data(self._playground.explain), expect_handler=handle_expect)
        for dialect in CLIENT_DIALECTS:
            send = self._guarded(self._playground.sender(dialect))
            router.add_post(f"{at}/api/send/{dialect.path}", send, expect_handler=handle_expect)
        self._gateway.console_answer = self.answer

        async def stop(_: web.Application) -> None:
            self.live.close()

        app.on_shutdown.append(stop)

    @staticmethod
    def _add(app: web.Application, path: str, endpoint: Handler) -> None:
        app.router.add_get(path, endpoint, allow_head=False)

    def answer(self, question: Json) -> Json:
        """Answer a question of another worker's console."""
        gateway, kind = self._gateway, question["kind"]
        if kind == "rows":
            return self.live.own_rows(RowFilter.read(question))
        if kind == "exchange":
            return {"view": own_view(gateway, self._recorder, question["id"])}
        if kind == "history":
            return own_history(gateway)
        if kind == "keys":
            return own_keys(gateway)
        if kind == "record":
            self._recorder.record_next(question["count"])
        return {}

    def _data(self, make: _Data) -> Handler:
        """Return the endpoint that sends the JSON that `make` returns."""

        async def endpoint(request: web.Request) -> web.Response:
            return web.Response(body=json_dumps(await make(request)), content_type="application/json", headers=_PRIVATE)

        return self._guarded(endpoint)

    def _guarded(self, endpoint: Handler) -> Handler:
        """Return the endpoint with a check of the client before it. Errors have OpenAI's form."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            try:
                await check_access(self._services, request)
                return await endpoint(request)
            except Exception as error:
                return answer_without_receipt(request, DEFAULT_DIALECT, error, self._services.new_id())

        return guarded

    async def _about(self, _: web.Request) -> Json:
        """Return what the page shows of the gateway itself. The page requests it first, to learn if it needs a key."""
        return {"version": installed_version(), "revision": revision()}

    async def _history(self, _: web.Request) -> Json:
        return await history(self._gateway)

    async def _health(self, _: web.Request) -> Json:
        return await health(self._gateway)

    async def _exchanges(self, request: web.Request) -> Json:
        return await self.live.snapshot(RowFilter.read(request.query))

    async def _exchange(self, request: web.Request) -> Json:
        captures = self._services.instruments.captures
        store = captures.store if captures is not None else None
        return await exchange_view(self._gateway, self._recorder, request.match_info["request_id"], store)

    async def _record(self, request: web.Request) -> Json:
        """Record the next requests of all workers; `?count=0` stops."""
        words = request.query.get("count", "1")
        count = min(NEXT_MAX, int(words)) if words.isascii() and words.isdigit() and len(words) < 5 else 1
        self._recorder.record_next(count)
        if (siblings := self._gateway.siblings) is not None:
            await siblings.console({"kind": "record", "count": count})
        return {"count": count, "most": NEXT_MAX}

"""The gateway: handles proxied requests, and owns everything that requests share (docs/explanation/how-it-works.md).

A failure before the response's headers raises a `DragomanError`, which one place turns into a response in the client's
dialect. Nothing is sent upstream before the whole request was read and translated.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from dragoman import Dialect, DragomanError
from dragoman.aio import (
    STOPPING,
    ClientGone,
    HijackableConnection,
    StreamTimers,
    Transport,
)
from dragoman.errors import FailureKind, FailureOrigin, UpstreamUnreachable
from dragoman.wire import Json, json_dumps
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.limits.prices import Prices
from dragoman_server.accounts.store.options import MEMORY
from dragoman_server.config.lint import remarks
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import MEMORY as STATE_MEMORY
from dragoman_server.config.state_options import OFF as STATE_OFF
from dragoman_server.observability.known_secrets import mask_logs
from dragoman_server.observability.metric_families import OPEN_WEBSOCKETS, Totals
from dragoman_server.observability.prompt_cache import PromptCacheDiagnostics
from dragoman_server.observability.receipts import Receipt, Receipts
from dragoman_server.observability.rejections import Rejections
from dragoman_server.proxy.auth import Caller
from dragoman_server.proxy.cors import Cors
from dragoman_server.proxy.error_response import CLIENT_GONE, new_request_id
from dragoman_server.proxy.exchange import OpenStream
from dragoman_server.proxy.hooks import NO_HOOKS, EndReporter, Hooks
from dragoman_server.proxy.instruments import Instruments
from dragoman_server.proxy.known_models import KnownModels
from dragoman_server.proxy.limits import counted
from dragoman_server.proxy.load_shedding import check_load
from dragoman_server.proxy.loaded_config import LoadedConfig, with_fixed
from dragoman_server.proxy.named_keys import NamedKeys
from dragoman_server.proxy.open_requests import OpenRequests
from dragoman_server.proxy.open_websockets import OpenWebSockets
from dragoman_server.proxy.prepare_request import prepare_request
from dragoman_server.proxy.request_body import RequestBodies
from dragoman_server.proxy.request_failure import answer_defect, answer_error, end_abandoned
from dragoman_server.proxy.resolve_request import RunInBackground, identify
from dragoman_server.proxy.stream_recorder import StreamRecorder
from dragoman_server.proxy.upstream_calls import UpstreamCalls
from dragoman_server.proxy.upstream_request import SENDER, UpstreamRequests
from dragoman_server.routing.router import Router
from dragoman_server.routing.routing_state import RoutingState
from dragoman_server.routing.upstream_models import UpstreamModels
from dragoman_server.workers.peer_workers import PeerWorkers

if TYPE_CHECKING:
    from dragoman_server.proxy.background import BackgroundRuns
    from dragoman_server.proxy.compaction import Compactions
    from dragoman_server.proxy.resumable.streams import ResumableStreams
    from dragoman_server.proxy.shared_pauses import SharedPauses
    from dragoman_server.proxy.stored_responses import StoredResponses

log = logging.getLogger("dragoman")
Endpoint = Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]
"""An aiohttp request handler."""

_ERROR_SECONDS = 1.0
"""Seconds that clients have to receive the errors that end their streams when the gateway stops."""
_END_HOOK = 5.0
"""Seconds that running `on_end` hooks have when the gateway closes."""


def _no_console(_: Json) -> Json:
    return {}


class Gateway:
    """One configured gateway. Call `open` in a running event loop before its first request, and `close` after the last.

    Args:
        config: The configuration; `reconfigure` replaces it. Raises `ConfigError` if it has problems.
        upstream: The transport; by default `open` creates the configured one.
        now: Returns Unix seconds.
        new_id: Returns a new request id.
        sender: The value by which the gateway recognises its own requests, the same in all workers of one gateway.
        siblings: The other workers of the gateway, if there are any.
        lines: True if the server is a `HijackServer`, whose connections long replies can take over.
        hooks: The hooks of the application that embeds the gateway.
        prices: The price table for budgets of cost, in place of that of the configuration.

    `receipts` has the receipts of the last requests, `rejections` records those that have none, `metrics` has the
    counters, `load` the load of the process, and `provider_health` the providers that are down. `captures` has the
    captured exchanges, if any are kept. `stopping` is True once `stop` was called, `leaving` once `leave` was, and
    `hurried` once `hurry` was. `stop` had to end `ended_by_stop` requests.
    """

    def __init__(
        self,
        config: Config,
        *,
        upstream: Transport | None = None,
        now: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_request_id,
        sender: str | None = None,
        siblings: PeerWorkers | None = None,
        lines: bool = False,
        hooks: Hooks[Any] = NO_HOOKS,
        prices: Prices | None = None,
    ) -> None:
        self.now = now
        """Returns Unix seconds."""
        self.loaded = LoadedConfig(config)
        output_limits = self.loaded.output_limits
        self.receipts = Receipts(config.server.receipts)
        self.prompt_cache = PromptCacheDiagnostics(config.server.prefix_diagnostics)
        self._instruments = instruments = Instruments(config, self._add_connections, now)
        self.metrics, self.load = instruments.metrics, instruments.load
        self.provider_health, self.usage = instruments.provider_health, instruments.usage
        self.captures = instruments.captures
        totals = self.metrics.totals
        self.rejections = Rejections(totals)
        self.routing = RoutingState(config, totals)
        self._shared_pauses: SharedPauses | None = None
        self._state, self._workers = config.state, config.server.workers
        self.stores = self._state.kind_with(self._workers) != STATE_OFF
        """True if responses are stored."""
        self._stored: StoredResponses | None = None
        self._background: BackgroundRuns | None = None
        if self.stores and self._state.kind != STATE_MEMORY:
            self._create_stored()
        self.named_keys = NamedKeys(config, totals, prices or self.usage, now)
        self.bodies = RequestBodies(config.server)
        self.cors = Cors(config.server.cors_origins)
        self.siblings = siblings
        self._open = OpenRequests()
        self.upstream, self.new_id = UpstreamCalls(upstream, self._open), new_id
        self.upstream_requests = UpstreamRequests(sender or new_id())
        self._upstream_models = UpstreamModels(self.upstream.fetch_list, output_limits.add_list)
        self.known_models = KnownModels(
            self._upstream_models, self.upstream_requests.get_headers, lambda: self.config.providers
        )
        mask_logs(config)
        self.websockets = OpenWebSockets()
        # Partials instead of methods that await `answer`: an open stream would keep the frame of such a method.
        answer = self._answer_detachable if lines else self._answer
        self.chat: Endpoint = partial(answer, client=Dialect.CHAT)
        """`POST /v1/chat/completions`."""
        self.messages: Endpoint = partial(answer, client=Dialect.MESSAGES)
        """`POST /v1/messages`, with or without `?beta=true`."""
        self.responses: Endpoint = partial(answer, client=Dialect.RESPONSES)
        """`POST /v1/responses`."""
        self.stopping = self.leaving = self.hurried = self._discovering = False
        self.ended_by_stop = 0
        self._finding: asyncio.Task[None] | None = None
        """Finds the only model of the upstream, if the configuration requests that."""
        self.recorder: StreamRecorder | None = None
        self.resumable: ResumableStreams | None = None
        self.console_answer: Callable[[Json], Json] = _no_console
        """Answers a question of another worker's console. A console that is mounted sets it."""
        self.hooks = hooks
        reports = hooks.on_end is not None or self.usage.writes
        self._end_reporter = EndReporter(hooks.on_end, self.usage) if reports else None
        self._report_end = self._end_reporter.report if self._end_reporter is not None else None

    @property
    def stored(self) -> StoredResponses | None:
        """The stored responses; None if none are kept. Those in memory begin at the first use."""
        if self._stored is None and self.stores:
            self._create_stored().begin()
        return self._stored

    @property
    def background(self) -> BackgroundRuns | None:
        """The responses that run in the background; None if none may."""
        return self._background if self.stored is not None else None

    @property
    def store_unavailable(self) -> bool:
        """True while the store of responses does not answer, or cannot write."""
        return self._stored is not None and self._stored.unavailable

    def _create_stored(self) -> StoredResponses:
        from dragoman_server.proxy.stored_responses import StoredResponses  # imported here: few clients need it

        self._stored = stored = StoredResponses(self._state, self.metrics.totals, self.now)
        if self._state.background and self._workers == 1:
            from dragoman_server.proxy.background import BackgroundRuns

            self._background = BackgroundRuns(self._state, self._heartbeat, stored, self.answer_into)
            stored.check_background = self._background.check_room
        return stored

    async def open_stored(self) -> None:
        """Open the store of responses. Raises ConfigError if it cannot be used."""
        if self._stored is not None:
            await self._stored.open()

    @property
    def config(self) -> Config:
        """The configuration of new requests."""
        return self.loaded.config

    @property
    def router(self) -> Router:
        """The router of new requests."""
        return self.loaded.router

    @cached_property
    def compactions(self) -> Compactions:
        """The compaction of conversations. Only requests of the Responses API need it."""
        from dragoman_server.proxy.compaction import Compactions

        return Compactions(self._state, self._answer)

    def reconfigure(self, config: Config) -> None:
        """Serve new requests by `config`. Open requests keep the configuration that they began with.

        Call it in the event loop that the gateway runs in. The hooks stay. The settings in `loaded_config.FIXED` keep
        their values; a warning in the log names those that differ. Raises `ConfigError` for a configuration with
        problems, and then changes nothing.
        """
        config.check()
        config, ignored = with_fixed(self.config, config)
        mask_logs(config)
        self.loaded = LoadedConfig(config, self.loaded.output_limits)
        self.routing.configure(config)
        server = config.server
        self.bodies.configure(server)
        self.receipts.resize(server.receipts)
        self.prompt_cache.resize(server.prefix_diagnostics)
        ignored += self._instruments.configure(config)
        if not self.named_keys.configure(config):
            ignored.append("store")
        if config.state != self._state:
            ignored.append("state")
        self._share_pauses()
        if ignored:
            log.warning("%s: the change takes effect after a restart", ", ".join(ignored))
        for remark in remarks(config):
            log.warning("%s", remark)
        if self._discovering:
            self.discover()

    def discover(self) -> None:
        """Fetch the upstreams' model lists in the background, now and after each reconfiguration.

        Without it they are fetched when a client first requests the list.
        """
        self._discovering = True
        self.known_models.refresh(self.loaded)
        if self.config.only_model and self._finding is None:
            from dragoman_server.proxy.only_model import find_only_model

            self._finding = asyncio.create_task(find_only_model(self))

    def open(self) -> None:
        """Create the transport, open the file of usage, and begin to measure the load. Call it in the event loop.

        Raises ConfigError if the file cannot be used.
        """
        self._instruments.open()
        self.upstream.open(self.config.server)
        self._share_pauses()

    def _share_pauses(self) -> None:
        """Share pauses of providers, if there are routes that make any, and a store that others may use."""
        if self.router.has_plans and self.named_keys.accounts is not None and self.config.store.kind != MEMORY:
            if self._shared_pauses is None:
                from dragoman_server.proxy.shared_pauses import SharedPauses

                self._shared_pauses = SharedPauses(self.routing, lambda: self.named_keys.accounts)
            self._shared_pauses.start()

    def leave(self) -> None:
        """Be no longer ready, and end each connection with its next reply; requests are answered as before."""
        self.leaving = True
        self.websockets.leave()

    async def stop(self, seconds: float) -> None:
        """Reject new requests, wait `seconds` for open ones, then end them with an in-band error (mapping §10.4)."""
        self.stopping = True
        self.leave()
        self.bodies.stop()
        if not await self._open.wait(0.0 if self.hurried else seconds):
            self.ended_by_stop = len(self._open)
            self._open.expire(STOPPING)
            # The server closes the connections of clients that do not read in this time.
            await self._open.wait(_ERROR_SECONDS)
        await self.websockets.close(_ERROR_SECONDS)

    def hurry(self) -> None:
        """Let `stop` end the open requests now."""
        self.hurried = True
        self._open.end_wait()

    @property
    def open_requests(self) -> int:
        """The number of requests that `stop` waits for, on whatever connection."""
        return len(self._open)

    async def close(self) -> None:
        """Close the transport and all its connections, and wait for the tasks of `on_end`."""
        if self._finding is not None:
            self._finding.cancel()
        await self._upstream_models.close()
        if self._shared_pauses is not None:
            await self._shared_pauses.close()
        if self._end_reporter is not None:
            await self._end_reporter.close(_END_HOOK)
        await self.named_keys.close()
        if self._background is not None:
            await self._background.close()
        if self._stored is not None:
            await self._stored.close()
        await self._instruments.close()
        await self.upstream.close()

    # --- endpoints -----------------------------------------------------------------------------------------------

    async def health(self, request: web.Request) -> web.Response:
        """Return a 200 to `GET /health` and `HEAD /`, which need no key. The body reports a store that is away."""
        body = {"status": "ok"}
        if self.named_keys.unavailable:
            body["store"] = "unavailable"
        return web.Response(body=json_dumps(body), content_type="application/json")

    # --- one request ---------------------------------------------------------------------------------------------

    async def _answer_detachable(self, request: web.Request, client: Dialect) -> web.StreamResponse:
        work = self._answer(request, client)
        line = HijackableConnection.of(request)
        return await (line.run_detachable(work) if line is not None else work)

    def answer_into(
        self,
        request: web.Request,
        open_stream: OpenStream,
        client: Dialect = Dialect.RESPONSES,
        receipt: Receipt | None = None,
    ) -> Coroutine[Any, Any, web.StreamResponse]:
        """Answer a request whose stream is sent to what `open_stream` returns.

        Returns the response to be sent if no stream was opened; else one to be ignored.
        """
        return self._answer(request, client, open_stream, receipt)

    async def _answer(
        self,
        request: web.Request,
        client: Dialect,
        open_stream: OpenStream | None = None,
        receipt: Receipt | None = None,
    ) -> web.StreamResponse:
        # One function with few local variables, as an open stream keeps its frame.
        if receipt is None:
            receipt = self.new_receipt(request, client=client)
        timers: StreamTimers | None = None
        try:
            call, exchange, send = await prepare_request(self, request, receipt, open_stream)
            if receipt.background is not None:
                receipt.background.accept(receipt)
            timers = self._open.add(request, call.timeouts)
            opening = send(call, timers)
            early = call.timeouts.early_reply if call.stream and open_stream is None else 0.0
            # Free the request's body, which may be large, for the duration of the reply.
            del call, send
            if early:
                return await exchange.answer_early(request, opening, timers, early)
            answer = await opening
            del opening
            exchange.translation.body = b""
            work = exchange.answer(request, answer, timers)
            del request, exchange
            try:
                return await work
            finally:
                await answer.close()
        except DragomanError as error:
            return answer_error(receipt, await self.count_rejected(receipt, error), self.loaded.upstream_warnings)
        except RunInBackground as wanted:
            assert self.background is not None
            return await self.background.begin(receipt, wanted)
        except (ClientGone, ConnectionError):
            # The client has disconnected. Errors of the upstream's connection are UpstreamErrors.
            return web.Response(status=CLIENT_GONE)
        except Exception:
            # A defect of Dragoman: the client gets an error in its dialect, without the details, which are logged.
            return answer_defect(receipt)
        finally:
            # The client has disconnected, which may have cancelled this. A run in the background ends later.
            if receipt.ended == "open" and (receipt.background is None or timers is not None):
                end_abandoned(receipt, "abandoned before the reply")
            if timers is not None:
                self._open.remove(timers)
            if receipt.capture is not None:
                receipt.capture.close(receipt)
                receipt.capture = None

    def _heartbeat(self) -> float:
        return self.config.server.timeouts.heartbeat

    def _add_connections(self, totals: Totals) -> None:
        self.upstream.add_pools(totals)
        totals.put(OPEN_WEBSOCKETS, (), len(self.websockets))

    async def identify(self, request: web.Request) -> Caller:
        """Return the client of a request. Raises DragomanError if it may not use the gateway."""
        return await identify(request, self.loaded, self.hooks, self.named_keys.accounts, self.now)

    def admit(self, request: web.Request) -> Coroutine[Any, Any, Caller]:
        """Identify the client of a request that may go upstream. Raises DragomanError."""
        if self.stopping:
            raise DragomanError(replace(STOPPING, headers={"retry-after": "1"}))
        if self.load.checked:
            check_load(self.load, self.metrics.totals)
        if request.headers.get(SENDER) == self.upstream_requests.sender:
            # A base URL exported for the gateway's clients and inherited by the gateway itself.
            raise UpstreamUnreachable("this gateway is configured as its own upstream; check the providers' base_url")
        return identify(request, self.loaded, self.hooks, self.named_keys.accounts, self.now)

    def learn_output_limit(self, name: str, model: str, limit: int) -> None:
        """Keep the largest output limit of a model at the provider `name`, in tokens."""
        provider = self.config.providers.get(name)
        if provider is not None:
            self.loaded.output_limits.add(provider, model, limit)

    async def count(self, key: KeyRecord | None, client: Dialect) -> None:
        """Count a request that is not sent upstream in the limits of its key. Raises DragomanError (429, 503).

        `client` is the dialect of the error.
        """
        if key is not None:
            async with counted(self.named_keys.accounts, key, self.new_id(), client, waits=False):
                pass

    async def count_rejected(self, receipt: Receipt, error: DragomanError) -> DragomanError:
        """Count a request that was rejected as wrong before its limits were checked. Returns the error for its client.

        Else a client could send any number of them.
        """
        wrong = error.failure.origin is FailureOrigin.CLIENT and error.failure.kind is not FailureKind.RATE_LIMIT
        if wrong and receipt.settle is None:
            try:
                await self.count(receipt.key, receipt.client)
            except DragomanError as limited:
                return limited.with_traceback(None)
        return error

    def begin_capture(self, request: web.Request, receipt: Receipt, caller: Caller) -> None:
        """Begin the recording of a request that was admitted, if it is to be captured. Its end must close it."""
        if self.captures is not None:
            from dragoman_server.proxy.captured_exchange import begin_recording

            receipt.capture = begin_recording(self.captures, request, receipt, caller)

    def capture_validated(self, request: web.Request, receipt: Receipt, caller: Caller, body: bytes) -> None:
        """Begin the recording of a stream that will be validated, if captures are on. `body` is the client's."""
        translation = receipt.translation
        if self.captures is None or receipt.capture is not None or translation is None or translation.passthrough:
            return
        if translation.stream and translation.context.validates():
            from dragoman_server.proxy.captured_exchange import record_validated

            receipt.capture = record_validated(self.captures, request, receipt, caller, body)

    def new_receipt(self, request: web.Request, endpoint: str = "", client: Dialect = Dialect.CHAT) -> Receipt:
        """Return the receipt of a request, which is counted as open. `endpoint` is that of a forwarded one."""
        receipt = Receipt(self.new_id(), client, int(self.now()), endpoint=endpoint)
        receipt.on_end = self._report_end
        if (tracer := self._instruments.tracer) is not None:
            receipt.trace = tracer.begin(request.headers, endpoint)
        self.metrics.opened(receipt)
        return receipt

"""The gateway: it makes, opens, reconfigures and closes what requests share (docs/explanation/how-it-works.md).

`request_handler.py` handles the requests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.typedefs import Handler

from dragoman import Dialect
from dragoman.aio import STOPPING, Timeouts, Transport
from dragoman.gateway import CLIENT_DIALECTS, DEFAULT_DIALECT, STORED_DIALECT
from dragoman.wire import Json, json_dumps
from dragoman_server.accounts.store.options import MEMORY
from dragoman_server.config.forwarded_endpoints import FORWARDED
from dragoman_server.config.lint import remarks
from dragoman_server.config.schema import Config
from dragoman_server.draft import Draft
from dragoman_server.observability.installed_version import installed_version, revision
from dragoman_server.observability.known_secrets import mask_logs
from dragoman_server.observability.metric_families import HOST, OPEN_WEBSOCKETS, Totals
from dragoman_server.observability.metrics import Metrics
from dragoman_server.observability.prompt_cache import PromptCacheDiagnostics
from dragoman_server.observability.receipts import Receipts
from dragoman_server.observability.rejections import Rejections
from dragoman_server.proxy.cors import Cors
from dragoman_server.proxy.error_response import new_request_id
from dragoman_server.proxy.hooks import NO_HOOKS, EndReporter, Hooks
from dragoman_server.proxy.instruments import Instruments
from dragoman_server.proxy.known_models import KnownModels
from dragoman_server.proxy.loaded_config import CurrentConfig, LoadedConfig, with_fixed
from dragoman_server.proxy.named_keys import NamedKeys
from dragoman_server.proxy.only_model import find_only_model
from dragoman_server.proxy.open_requests import OpenRequests
from dragoman_server.proxy.open_websockets import OpenWebSockets
from dragoman_server.proxy.request_body import RequestBodies
from dragoman_server.proxy.response_state import ResponseState
from dragoman_server.proxy.run_reports import RunReports
from dragoman_server.proxy.upstream_calls import UpstreamCalls
from dragoman_server.proxy.upstream_request import UpstreamRequests
from dragoman_server.receipt import Ending
from dragoman_server.routing.routing_state import RoutingState
from dragoman_server.routing.upstream_models import UpstreamModels
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services
from dragoman_server.workers.peer_workers import PeerWorkers

if TYPE_CHECKING:
    from dragoman_server.proxy.background import BackgroundRuns  # 0.1 MB of memory, needed with a store only
    from dragoman_server.proxy.hosts.shared_hosts import SharedHosts  # 0.1 MB of memory
    from dragoman_server.proxy.resumable.streams import ResumableStreams  # 0.2 MB of memory
    from dragoman_server.proxy.shared_pauses import SharedPauses  # 0.1 MB of memory
    from dragoman_server.proxy.shared_routing.shared_routing import SharedRouting  # with a store only
    from dragoman_server.proxy.stored_responses import StoredResponses

log = logging.getLogger("dragoman")
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
        now: A function that returns Unix seconds.
        new_id: A function that returns a new request id.
        sender: The value by which the gateway recognises its own requests, the same in all workers of one gateway.
        siblings: The other workers of the gateway, if there are any.
        lines: True if the server is a `HijackServer`, whose connections long replies can take over.
        hooks: The hooks of the application that embeds the gateway.

    `services` has what all requests share, and `handler` handles those that go upstream. `leaving` is True once `leave`
    was called, and `hurried` once `hurry` was. `stop` had to end `ended_by_stop` requests.
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
    ) -> None:
        self._version = {"version": installed_version(), "revision": revision()}
        self.host = config.server.host_name
        """The name of this host."""
        self.id = sender = sender or new_id()
        """The id of the gateway, the same in all its workers."""
        instruments = Instruments(config, self._add_connections, now)
        totals, open_requests = instruments.metrics.totals, OpenRequests()
        current = CurrentConfig(LoadedConfig(config))
        calls = UpstreamCalls(upstream, open_requests, any_provider=hooks.choose is not None)
        requests = UpstreamRequests(sender, current)
        self._upstream_models = UpstreamModels(calls.fetch_list, current.loaded.output_limits.add_list)
        reports = hooks.on_end is not None or instruments.usage.writes
        self._end_reporter = EndReporter(hooks.on_end, instruments.usage) if reports else None
        endings = [self._end_reporter.report] if self._end_reporter is not None else []
        endings += [instruments.reasons.ended] if instruments.reasons is not None else []
        self.hosts: SharedHosts | None = None
        """The receipts and states that the processes of a store share; None without one."""
        sharing: tuple[Ending, ...] = ()
        if (store := config.store.for_limits()).is_shared:
            from dragoman_server.proxy.hosts.create import create_hosts

            self.hosts = create_hosts(store, self.host, self.id, totals, shares_receipts=config.server.receipts > 0)
            sharing = (self.hosts.ended,)
        self.background: BackgroundRuns | None = None
        """The responses that run in the background; None if none may, or as long as none is stored."""
        responses = ResponseState(
            config.state,
            config.server.workers,
            totals,
            now,
            self._answer,
            self._stores,
            resumes=config.server.resume.seconds > 0,
        )
        receipts = Receipts(config.server.receipts, self.host)
        self.services = Services(
            now=now,
            new_id=new_id,
            current=current,
            hooks=hooks,
            instruments=instruments,
            receipts=receipts,
            rejections=Rejections(totals),
            prompt_cache=PromptCacheDiagnostics(config.server.prefix_diagnostics),
            routing=RoutingState(config, totals),
            named_keys=NamedKeys(config, totals, hooks.prices or instruments.usage, now),
            responses=responses,
            bodies=RequestBodies(config.server),
            upstream=calls,
            upstream_requests=requests,
            known_models=KnownModels(self._upstream_models, requests.get_headers, lambda: self.config.providers),
            open_requests=open_requests,
            websockets=OpenWebSockets(),
            endings=(*endings, instruments.metrics.ended, *sharing),
            runs=RunReports(receipts, instruments.metrics, self._end_reporter, self.hosts),
        )
        """The parts that all requests share."""
        self._shared_pauses: SharedPauses | None = None
        self._shared_routing: SharedRouting | None = None
        self.cors = Cors(config.server.cors_origins)
        self.siblings = siblings
        mask_logs(config)
        from dragoman_server.proxy.request_handler import RequestHandler  # 20 ms, which most commands do not need

        self.handler = handler = RequestHandler(self.services, self._begin_background)
        # Partials instead of methods that await `answer`: an open stream would keep the frame of such a method.
        answer = handler.answer_detachable if lines else handler.answer
        self.endpoints: Mapping[Dialect, Handler] = {each: partial(answer, client=each) for each in CLIENT_DIALECTS}
        """The endpoint of each dialect, such as `POST /v1/chat/completions`."""
        self.forwarded: Mapping[str, Handler] = {
            path: partial(handler.answer, client=DEFAULT_DIALECT, endpoint=path) for path in FORWARDED
        }
        """The forwarded endpoints, by path below `/v1`."""
        self.leaving = self.hurried = self._discovering = False
        self.ended_by_stop = 0
        self._finding: asyncio.Task[None] | None = None
        """Finds the only model of the upstream, if the configuration requests that."""
        self.resumable: ResumableStreams | None = None
        """The streams that clients may resume; None if they may resume none."""
        if config.server.resume.seconds:
            from dragoman_server.proxy.resumable.streams import ResumableStreams

            self.resumable = ResumableStreams(self.services, handler)
        self.console_answer: Callable[[Json], Json] = _no_console
        """Answers a question of another worker's console. A console that is mounted sets it."""
        self.state: Callable[[], Json] = dict
        """Returns the state of this process. The application sets it."""

    @property
    def config(self) -> Config:
        """The configuration of new requests."""
        return self.services.config

    @property
    def metrics(self) -> Metrics:
        """The counters."""
        return self.services.instruments.metrics

    @property
    def receipts(self) -> Receipts:
        """The receipts of the last requests."""
        return self.services.receipts

    @property
    def stopping(self) -> bool:
        """True once `stop` was called."""
        return self.services.open_requests.stopping

    def _answer(self, request: web.Request, client: Dialect) -> Coroutine[Any, Any, web.StreamResponse]:
        """Handle a request of the gateway to itself."""
        return self.handler.answer(request, client)

    def _stores(self, stored: StoredResponses) -> None:
        """Let stored responses run in the background, unless none may."""
        responses = self.services.responses
        if responses.options.most_background:
            from dragoman_server.proxy.background import BackgroundRuns

            self.background = BackgroundRuns(
                responses.options,
                self._timeouts,
                stored,
                self._answer_in,
                responses.runs,
                self.services,
            )
            stored.check_background = self.background.check_room

    def _timeouts(self) -> Timeouts:
        return self.config.server.timeouts

    def _answer_in(self, request: web.Request, scope: RequestScope) -> Coroutine[Any, Any, web.StreamResponse]:
        """Handle a request that runs in the background."""
        return self.handler.answer(request, STORED_DIALECT, scope)

    def _begin_background(self, scope: RequestScope, draft: Draft) -> Coroutine[Any, Any, web.StreamResponse]:
        assert self.background is not None
        return self.background.begin(scope, draft)

    def reconfigure(self, config: Config) -> None:
        """Serve new requests by `config`. Open requests keep the configuration that they began with.

        Call it in the event loop that the gateway runs in. The hooks stay. The settings in `loaded_config.FIXED` keep
        their values; a warning in the log names those that differ. Raises `ConfigError` for a configuration with
        problems, and then changes nothing.
        """
        config.check()
        config, ignored = with_fixed(self.config, config)
        mask_logs(config)
        services, server = self.services, config.server
        services.current.loaded = LoadedConfig(config, services.loaded.output_limits)
        services.routing.configure(config)
        services.upstream.configure(config)
        services.bodies.configure(server)
        services.receipts.resize(server.receipts)
        services.prompt_cache.resize(server.prefix_diagnostics)
        ignored += services.instruments.configure(config)
        if not services.named_keys.configure(config):
            ignored.append("store")
        if config.state != services.responses.options:
            ignored.append("state")
        self.handler.configure()
        self._share_pauses()
        self._share_routing()
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
        self.services.known_models.refresh(self.services.loaded)
        if self.config.only_model and self._finding is None:
            self._finding = asyncio.create_task(find_only_model(self.services, self.reconfigure))

    def open(self) -> None:
        """Create the transport, open the file of usage, and begin to measure the load. Call it in the event loop.

        Raises ConfigError if the file cannot be used.
        """
        self.services.instruments.open()
        self.services.upstream.open(self.config)
        self._share_pauses()
        self._share_routing()

    async def open_stores(self) -> None:
        """Open the stores of limits and of responses. Raises ConfigError if one cannot be used."""
        await self.services.named_keys.open()
        if self.hosts is not None:
            await self.hosts.open()
        await self.services.responses.open()
        if self.resumable is not None and (runs := self.services.responses.runs) is not None:
            self.resumable.share(runs)

    def _share_pauses(self) -> None:
        """Share pauses of providers, if there are routes that make any, and a store that others may use."""
        services, store = self.services, self.config.store.for_limits()
        if services.router.has_plans and services.named_keys.accounts is not None and store.kind != MEMORY:
            if self._shared_pauses is None:
                from dragoman_server.proxy.shared_pauses import SharedPauses

                self._shared_pauses = SharedPauses(services.routing, lambda: services.named_keys.accounts)
            self._shared_pauses.start()

    def _share_routing(self) -> None:
        """Share bounds and issuers of providers, if there are any, and a store that others may use."""
        services, store = self.services, self.config.store.for_limits()
        if store.kind == MEMORY or self._shared_routing is not None:
            return
        if services.router.has_plans or any(each.dialect is STORED_DIALECT for each in self.config.providers.values()):
            from dragoman_server.proxy.shared_routing.create import create_routing_store
            from dragoman_server.proxy.shared_routing.shared_routing import SharedRouting

            shared = create_routing_store(store)
            if shared is not None:
                totals = services.instruments.metrics.totals
                self._shared_routing = SharedRouting(services.routing, shared, lambda: self.config.providers, totals)
                self._shared_routing.start()

    @property
    def bounds_apart(self) -> bool:
        """True while a store that processes share fails, so that each uses its part of the bounds of providers."""
        return self._shared_routing is not None and self._shared_routing.failing

    def leave(self) -> None:
        """Be no longer ready, and end each connection with its next reply; requests are answered as before."""
        self.leaving = True
        self.services.websockets.leave()

    async def stop(self, seconds: float) -> None:
        """Reject new requests, wait `seconds` for open ones, then end them with an in-band error (mapping §10.4)."""
        if self.background is not None:
            self.background.stop()
        if self.resumable is not None:
            self.resumable.stop()
        requests = self.services.open_requests
        requests.stopping = True
        self.leave()
        self.services.bodies.stop()
        if not await requests.wait(0.0 if self.hurried else seconds):
            if self.resumable is not None:
                self.resumable.pass_on()
            self.ended_by_stop = len(requests)
            requests.expire(STOPPING)
            # The server closes the connections of clients that do not read in this time.
            await requests.wait(_ERROR_SECONDS)
        await self.services.websockets.close(_ERROR_SECONDS)

    def hurry(self) -> None:
        """Let `stop` end the open requests now."""
        self.hurried = True
        self.services.open_requests.end_wait()

    @property
    def open_requests(self) -> int:
        """The number of requests that `stop` waits for, on whatever connection."""
        return len(self.services.open_requests)

    async def close(self) -> None:
        """Close the transport and all its connections, and wait for the tasks of `on_end`."""
        if self.resumable is not None:
            await self.resumable.close()
        if self._finding is not None:
            self._finding.cancel()
        await self._upstream_models.close()
        if self._shared_pauses is not None:
            await self._shared_pauses.close()
        if self._shared_routing is not None:
            await self._shared_routing.close()
        if self._end_reporter is not None:
            await self._end_reporter.close(_END_HOOK)
        await self.services.named_keys.close()
        if self.background is not None:
            await self.background.close()
        if self.hosts is not None:
            await self.hosts.close()
        await self.services.responses.close()
        await self.services.instruments.close()
        await self.services.upstream.close()

    async def health(self, request: web.Request) -> web.Response:
        """Return a 200 to `GET /health` and `HEAD /`, which need no key. The body reports a store that is away."""
        body = {"status": "ok", **self._version}
        if self.services.named_keys.unavailable:
            body["store"] = "unavailable"
        return web.Response(body=json_dumps(body), content_type="application/json")

    def _add_connections(self, totals: Totals) -> None:
        self.services.upstream.add_pools(totals)
        totals.put(OPEN_WEBSOCKETS, (), len(self.services.websockets))
        totals.put(HOST, (self.host,))

"""The way of one request: key, body, route, translate, call, and the reply back (docs/explanation/how-it-works.md).

Everything that can fail before the reply's headers raises a `DragomanError`, and one place turns it into a response of
the client's dialect. Nothing is sent upstream before the whole request was understood.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import web

from dragoman.aio.downstream.hijack import HijackableConnection
from dragoman.aio.proxy_stream import DEFECT, STOPPING
from dragoman.aio.stream_timers import ClientGone, StreamTimers
from dragoman.aio.upstream.aiohttp_transport import AiohttpTransport
from dragoman.aio.upstream.http11.transport import Http11Transport
from dragoman.aio.upstream.interface import Transport, UpstreamRequest
from dragoman.dialects import Dialect
from dragoman.dialects.errors.context_overflow import add_sizes
from dragoman.dialects.errors.read import redact_failure
from dragoman.dialects.errors.redact import quote
from dragoman.directions import DIRECTIONS
from dragoman.errors import DragomanError, Failure, UpstreamUnreachable
from dragoman.translate import Translation, parse_body, translate
from dragoman.wire.json_codec import dumps
from dragoman_server.config.lint import remarks
from dragoman_server.config.providers import Auth, Provider
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.models import anthropic_model, anthropic_models, openai_model, openai_models
from dragoman_server.observability.access_log import OUR_WORDS, before_reply, reason, request_line
from dragoman_server.observability.known_secrets import mask_logs
from dragoman_server.observability.metrics import Metrics
from dragoman_server.observability.prompt_cache import Prefixes
from dragoman_server.observability.receipts import Receipt, Receipts
from dragoman_server.observability.upstream_warnings import Outages
from dragoman_server.proxy.auth import check_inbound, outbound_headers
from dragoman_server.proxy.cors import Cors
from dragoman_server.proxy.error_response import OWN_ID, asked_in, error_response, new_request_id
from dragoman_server.proxy.exchange import Exchange, tell_losses
from dragoman_server.proxy.loaded_config import LoadedConfig, with_fixed
from dragoman_server.proxy.request_body import Bodies, read_model, wished
from dragoman_server.routing.client_profiles import Clients
from dragoman_server.routing.known_models import KnownModels
from dragoman_server.routing.router import Router
from dragoman_server.routing.upstream_models import BODY_MAX, UpstreamModels
from dragoman_server.workers.peer_workers import Siblings

log = logging.getLogger("dragoman")
_SENDER = "x-dragoman-sender"
"""Sent upstream with a random value of this process, so that a gateway recognises itself."""

Endpoint = Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]
"""A handler of aiohttp's."""

_LAST_WORDS = 1.0
CLIENT_GONE = 499
"""nginx's word for it. Nobody reads it but middlewares and access logs."""


def _gone() -> bool:
    return True


class Gateway:
    """One configured gateway. `open` and `close` bracket its life inside a running loop.

    `now` gives Unix seconds and `new_id` request ids; both are arguments so that tests are exact. `receipts` tells what
    became of the last requests, `metrics` what was counted. Where several workers are one gateway, `siblings` are the
    others, and `sender` is the same in all of them. `lines`: its server's connections are lines. `stopping` says that
    it was told to stop.
    """

    def __init__(
        self,
        config: Config,
        *,
        upstream: Transport | None = None,
        now: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_request_id,
        sender: str | None = None,
        siblings: Siblings | None = None,
        lines: bool = False,
    ) -> None:
        self.loaded = LoadedConfig(config)
        self.receipts = Receipts(config.server.receipts)
        self.prefixes = Prefixes(config.server.prefix_diagnostics)
        self.metrics = Metrics(now=now, validate=config.server.validate)
        self.bodies = Bodies(config.server)
        self.cors = Cors(config.server.cors_origins)
        self.siblings = siblings
        self._upstream = upstream
        self._now = now
        self.new_id = new_id
        self._sender = sender or new_id()
        self._upstream_models = UpstreamModels(self._get)
        self._known_models = KnownModels(self._upstream_models, self._get_headers)
        self._discovering = False
        mask_logs(config)
        self._open: set[StreamTimers] = set()
        # Not methods that await one: an open stream would keep a frame of each.
        answer = self._attended if lines else self._answer
        self.chat: Endpoint = partial(answer, client=Dialect.CHAT)
        """`POST /v1/chat/completions`."""
        self.messages: Endpoint = partial(answer, client=Dialect.MESSAGES)
        """`POST /v1/messages`, with or without `?beta=true`."""
        self.responses: Endpoint = partial(answer, client=Dialect.RESPONSES)
        """`POST /v1/responses`."""
        self._idle = asyncio.Event()
        self.stopping = False

    @property
    def config(self) -> Config:
        """The configuration of new requests."""
        return self.loaded.config

    @property
    def router(self) -> Router:
        """The routes of new requests."""
        return self.loaded.router

    @property
    def clients(self) -> Clients:
        """The client profiles of new requests."""
        return self.loaded.clients

    @property
    def outages(self) -> Outages:
        """The failures of the current providers."""
        return self.loaded.outages

    def reload(self, config: Config) -> None:
        """Serve new requests by `config`. Open requests keep the configuration that they were admitted by.

        The settings in `loaded_config.FIXED` keep their values; a warning names those that differ. Raises
        `ConfigError`, and then nothing changes.
        """
        config.check()
        config, ignored = with_fixed(self.config, config)
        mask_logs(config)
        self.loaded = LoadedConfig(config)
        server = config.server
        self.bodies.configure(server)
        self.receipts.resize(server.receipts)
        self.prefixes.resize(server.prefix_diagnostics)
        self.metrics.count_violations(server.validate)
        if ignored:
            log.warning("%s: the change takes effect after a restart", ", ".join(ignored))
        for remark in remarks(config):
            log.warning("%s", remark)
        if self._discovering:
            self.discover()

    def discover(self) -> None:
        """Ask the upstreams for their models in the background, now and after each reload.

        Without it they are asked when a client first asks for the list.
        """
        self._discovering = True
        self._known_models.refresh(self.loaded)

    def open(self) -> None:
        """Make the transport. Must run inside the event loop."""
        if self._upstream is None:
            server = self.config.server
            if server.transport == "aiohttp":
                self._upstream = AiohttpTransport(server.connections, trust_env=True)
            else:
                self._upstream = Http11Transport(server.connections)

    async def stop(self, seconds: float) -> None:
        """Refuse new requests, give open ones `seconds`, then end them with an in-band error (mapping §10.4)."""
        self.stopping = True
        self.bodies.stop()
        if await self._finished(seconds):
            return
        for watch in tuple(self._open):
            watch.expire(DragomanError(replace(STOPPING)))
        # Time for the errors to leave; clients that do not read are left to the server, which closes their connections.
        await self._finished(_LAST_WORDS)

    async def _finished(self, seconds: float) -> bool:
        if self._open:
            self._idle.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._idle.wait()
            except TimeoutError:
                return False
        return True

    def _leave(self, watch: StreamTimers) -> None:
        watch.stop()
        self._open.discard(watch)
        if not self._open:
            self._idle.set()

    async def close(self) -> None:
        """Close the transport and all its connections."""
        await self._upstream_models.close()
        if self._upstream is not None:
            await self._upstream.close()
            self._upstream = None

    # --- endpoints -----------------------------------------------------------------------------------------------

    async def models(self, request: web.Request) -> web.Response:
        """`GET /v1/models`, and `GET /v1/models/{name}` of a name that would be answered."""
        client, name = asked_in(request), request.match_info.get("name")
        headers, loaded, messages = request.headers, self.loaded, client is Dialect.MESSAGES
        try:
            self.admit(request)
            if name:
                model = self._known_models.one(loaded, name, client, headers)
                body = anthropic_model(model) if messages else openai_model(model)
            else:
                models = await self._known_models.all(loaded, client, headers)
                body = anthropic_models(models, request.query) if messages else openai_models(models)
        except DragomanError as error:
            return error_response(client, error.failure, self.new_id())
        return web.Response(body=dumps(body), content_type="application/json", headers={OWN_ID: self.new_id()})

    async def health(self, request: web.Request) -> web.Response:
        """`GET /health` and `HEAD /`: alive, without a key and without a word about the configuration."""
        return web.Response(body=b'{"status":"ok"}', content_type="application/json")

    # --- one request ---------------------------------------------------------------------------------------------

    async def _attended(self, request: web.Request, client: Dialect) -> web.StreamResponse:
        work = self._answer(request, client)
        line = HijackableConnection.of(request)
        return await (line.run_detachable(work) if line is not None else work)

    async def _answer(self, request: web.Request, client: Dialect) -> web.StreamResponse:
        # One frame, and as few locals as can be: an open stream keeps them.
        receipt = Receipt(self.new_id(), client, int(self._now()))
        self.metrics.opened(receipt)
        watch: StreamTimers | None = None
        try:
            call, exchange = await self._understood(request, receipt)
            watch = self._watched(request, call)
            upstream = self._upstream
            assert upstream is not None, "the gateway is not open"
            opening = upstream.open(call, watch)
            early = call.timeouts.early_reply if call.stream else 0.0
            # Nothing asks for the request again: a long one must not be kept for the length of its reply.
            del call
            if early:
                return await exchange.answer_early(request, opening, watch, early)
            answer = await opening
            del opening
            exchange.translation.body = b""
            work = exchange.answer(request, answer, watch)
            del request, exchange
            try:
                return await work
            finally:
                await answer.close()
        except DragomanError as error:
            failure = error.failure
            if receipt.translation is not None:
                context = receipt.translation.context
                failure = error.failure = add_sizes(redact_failure(failure, context.secrets), context)
            # Whatever failed before there was anything to send is the gateway's own refusal.
            ended = "rejected" if receipt.translation is None else "failed"
            response = self._failure_response(receipt, failure)
            level, note = self.outages.level(receipt.provider, failure)
            if log.isEnabledFor(level):
                words, because = before_reply(receipt, ended), reason(receipt, error, failure)
                status = response.status
                log.log(level, request_line(receipt, words, ended, status, error=failure, because=because, note=note))
            receipt.end(ended, response.status, failure, ours=isinstance(error, OUR_WORDS))
            return response
        except (ClientGone, ConnectionError):
            # The client's connection: the transport makes errors of its own of the upstream's.
            return web.Response(status=CLIENT_GONE)
        except Exception:
            # A defect of ours: the client still gets an error of its dialect, the details go to the log only.
            failure = replace(DEFECT)
            response = self._failure_response(receipt, failure)
            words = before_reply(receipt, "failed by a defect")
            log.exception(request_line(receipt, words, "failed", response.status, error=failure))
            receipt.end("failed", response.status, failure, ours=True)
            return response
        finally:
            if receipt.ended == "open":  # its client left, which may also have cancelled this
                if log.isEnabledFor(logging.INFO):
                    words = before_reply(receipt, "abandoned before the reply")
                    log.info(request_line(receipt, words, "abandoned", CLIENT_GONE))
                receipt.end("abandoned", CLIENT_GONE)
            if watch is not None:
                self._leave(watch)

    def _watched(self, request: web.Request, call: UpstreamRequest) -> StreamTimers:
        transport = request.transport
        watch = StreamTimers(call.timeouts, transport.is_closing if transport is not None else _gone)
        self._open.add(watch)
        return watch

    def _failure_response(self, receipt: Receipt, failure: Failure) -> web.Response:
        response = error_response(receipt.client, failure, receipt.request_id)
        tell_losses(response.headers, receipt.losses)
        return response

    async def _understood(self, request: web.Request, receipt: Receipt) -> tuple[UpstreamRequest, Exchange]:
        """What to send upstream, and what to make of the answer."""
        headers = request.headers
        client = receipt.client
        receipt.owner = self.admit(request)
        loaded = self.loaded  # a reload may replace it while the body comes
        server = loaded.config.server
        if (known := loaded.clients.recognise(headers)) is not None:
            receipt.client_profile = known.name
        self.receipts.file(receipt)
        limits = server.limits
        body = await self.bodies.read(request)
        payload = parse_body(body, limits)
        receipt.model = model = read_model(payload)
        target = loaded.router.resolve(model, client)
        if target.warning:
            log.warning("%s %s", receipt.request_id, target.warning)
        provider = target.provider
        receipt.provider, receipt.route = provider.name, target.route
        receipt.translation = translation = translate(
            DIRECTIONS[client, provider.dialect],
            body,
            payload=payload,
            upstream_model=target.upstream_model,
            profile=provider.profile,
            knobs=wished(target.knobs_for(receipt.client_profile), headers),
            limits=limits,
            created=receipt.created,
            request_id=receipt.request_id,
            validate=server.validate,
        )
        translation.context.clock = self._now
        translation.context.secrets = loaded.secrets_of(provider, headers)
        if self.prefixes:
            receipt.cache = self.prefixes.compare(translation, payload, headers, receipt.owner, receipt.request_id)
        exchange = Exchange(client, translation, provider.name, receipt, self._now, loaded.outages)
        call = self._call(request, translation, provider, loaded)
        if log.isEnabledFor(logging.DEBUG):
            log.debug(
                "%s %s %s of %d bytes, client profile %s; model %s by route %s to %s at %s, %d bytes, profile %s",
                *(receipt.request_id, client, "stream" if translation.stream else "request", len(body)),
                *(receipt.client_profile or "none", quote(model), quote(target.route), provider.name),
                *(provider.place(), len(call.body), provider.profile_name or "of its own"),
            )
        return call, exchange

    def owner(self, request: web.Request) -> bytes:
        """The digest of the client's key. Raises DragomanError for a client that may not use the gateway."""
        loaded = self.loaded
        if loaded.websites is not None:
            loaded.websites.check(request)
        return check_inbound(loaded.config, request.headers)

    def admit(self, request: web.Request) -> bytes:
        """The digest of the client's key, if its request may be answered at all. Raises DragomanError."""
        if self.stopping:
            raise DragomanError(replace(STOPPING, headers={"retry-after": "1"}))
        if request.headers.get(_SENDER) == self._sender:
            # A base URL exported for the gateway's clients and inherited by the gateway itself.
            raise UpstreamUnreachable("this gateway is configured as its own upstream; check the providers' base_url")
        return self.owner(request)

    async def fetch(self, request: web.Request, call: UpstreamRequest) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of a short answer, asked for on behalf of a client. Raises UpstreamError."""
        watch = self._watched(request, call)
        assert self._upstream is not None, "the gateway is not open"
        try:
            answer = await self._upstream.open(call, watch)
            try:
                return answer.status, answer.headers, await answer.read(self.config.server.limits.reply_body)
            finally:
                await answer.close()
        finally:
            self._leave(watch)

    async def _get(self, call: UpstreamRequest) -> tuple[int, bytes]:
        """Status and body of a short answer that no request waits for. Raises UpstreamError, LimitExceeded."""
        if self._upstream is None:
            raise UpstreamUnreachable("the gateway is not open")
        watch = StreamTimers(call.timeouts)
        try:
            answer = await self._upstream.open(call, watch)
            try:
                return answer.status, await answer.read(BODY_MAX)
            finally:
                await answer.close()
        finally:
            watch.stop()

    def _get_headers(
        self, provider: Provider, client_headers: Mapping[str, str], client: Dialect | None
    ) -> dict[str, str]:
        # Nothing of the client's that does not matter: what does is part of what a list is remembered by.
        same_dialect = provider.auth is Auth.PASSTHROUGH and provider.dialect is client
        headers = outbound_headers(provider, client_headers, same_dialect=same_dialect)
        return {_SENDER: self._sender, "accept": "application/json", **headers}

    def _call(
        self, request: web.Request, translation: Translation, provider: Provider, loaded: LoadedConfig
    ) -> UpstreamRequest:
        timeouts = loaded.config.server.timeouts
        same = translation.direction.passthrough and not translation.rewritten
        if not same and provider.auth is Auth.CONFIGURED:
            # Nothing of the client's goes along: the same for each request.
            known = loaded.upstreams.get(provider.name)
            if known is None:
                url = provider.endpoint(translation.direction.upstream.path)
                known = loaded.upstreams[provider.name] = url, self.headers(provider, {})
            return UpstreamRequest(*known, translation.body, translation.stream, timeouts)
        # `?beta=true` belongs to the body's dialect: it goes on with it, and nowhere else.
        query = "beta=true" if same and request.query.get("beta") == "true" else ""
        url = provider.endpoint(translation.direction.upstream.path, query)
        headers = self.headers(provider, request.headers, same_dialect=same)
        return UpstreamRequest(url, headers, translation.body, translation.stream, timeouts)

    def headers(
        self, provider: Provider, client_headers: Mapping[str, str], *, same_dialect: bool = False
    ) -> dict[str, str]:
        """All headers of a request to a provider."""
        return {
            "content-type": "application/json",
            _SENDER: self._sender,
            **outbound_headers(provider, client_headers, same_dialect=same_dialect),
        }

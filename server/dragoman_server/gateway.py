"""The way of one request: key, body, route, translate, call, and the reply back (design §3).

Everything that can fail before the reply's headers raises a `DragomanError`, and one place turns it into a response of
the client's dialect. Nothing is sent upstream before the whole request was understood.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from uuid import uuid4

from aiohttp import web

from dragoman.aio.relay import STOPPING, open_stream, send_stream
from dragoman.aio.upstream import AiohttpUpstream, Answer, Call, Upstream
from dragoman.aio.watch import ClientGone, Watch
from dragoman.directions import CODECS, direction
from dragoman.errors import (
    ClientRequestError,
    DragomanError,
    Failure,
    FailureKind,
    LimitExceeded,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamUnreachable,
)
from dragoman.jsontext import dumps
from dragoman.protocols import Dialect
from dragoman.protocols.failures import named
from dragoman.protocols.headers import reply_headers
from dragoman.translate import Translation, parse_body, translate

from .catalogue import anthropic_models, openai_models
from .credentials import check_inbound, outbound_headers
from .rescue import REQUEST_ID, error_response
from .routing import Router, Target
from .settings import Config

log = logging.getLogger("dragoman")
LOSS_HEADER = "x-dragoman-loss"
_SENDER = "x-dragoman-sender"
"""Sent upstream with a random value of this process, so that a gateway recognises itself."""


_LAST_WORDS = 1.0
_CLIENT_GONE = 499
"""nginx's word for it. Nobody reads it but middlewares and access logs."""


def new_request_id() -> str:
    """A fresh request id in the form both vendors use."""
    return f"req_{uuid4().hex}"


class Gateway:
    """One configured gateway. `open` and `close` bracket its life inside a running loop.

    `now` gives Unix seconds and `new_id` request ids; both are arguments so that tests are exact.
    """

    def __init__(
        self,
        config: Config,
        *,
        upstream: Upstream | None = None,
        now: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_request_id,
    ) -> None:
        self.config = config
        self.router = Router(config)
        self._upstream = upstream
        self._now = now
        self._new_id = new_id
        self._sender = new_id()
        self._open: set[Watch] = set()
        self._idle = asyncio.Event()
        self._stopping = False

    def open(self) -> None:
        """Make the transport. Must run inside the event loop."""
        if self._upstream is None:
            self._upstream = AiohttpUpstream()

    async def stop(self, seconds: float) -> None:
        """Refuse new requests, give open ones `seconds`, then end them with an error of their dialect (design §7)."""
        self._stopping = True
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

    def _leave(self, watch: Watch) -> None:
        watch.stop()
        self._open.discard(watch)
        if not self._open:
            self._idle.set()

    async def close(self) -> None:
        """Close the transport and all its connections."""
        if self._upstream is not None:
            await self._upstream.close()
            self._upstream = None

    # --- endpoints -----------------------------------------------------------------------------------------------

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/chat/completions`."""
        return await self._answer(request, Dialect.CHAT)

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/messages`, with or without `?beta=true`."""
        return await self._answer(request, Dialect.MESSAGES)

    async def models(self, request: web.Request) -> web.Response:
        """`GET /v1/models`."""
        client = Dialect.MESSAGES if "anthropic-version" in request.headers else Dialect.CHAT
        try:
            check_inbound(self.config, request.headers)
        except DragomanError as error:
            return error_response(client, error.failure, self._new_id())
        known = self.router.known_models()
        body = anthropic_models(known) if client is Dialect.MESSAGES else openai_models(known)
        return web.Response(body=dumps(body), content_type="application/json")

    async def health(self, request: web.Request) -> web.Response:
        """`GET /health` and `HEAD /`: alive, without a key and without a word about the configuration."""
        return web.Response(body=b'{"status":"ok"}', content_type="application/json")

    # --- one request ---------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request, client: Dialect) -> web.StreamResponse:
        request_id = self._new_id()
        try:
            return await self._relay(request, client, request_id)
        except DragomanError as error:
            failure = error.failure
            log.info("%s %s failed: %s %s", request_id, client, failure.status, failure.kind)
            return error_response(client, failure, request_id)
        except (ClientGone, ConnectionError):
            # The client's connection: the transport makes errors of its own of the upstream's.
            log.info("%s %s abandoned before the reply", request_id, client)
            return web.Response(status=_CLIENT_GONE)
        except Exception:
            # A defect of ours: the client still gets an error of its dialect, the details go to the log only.
            log.exception("%s %s failed by a defect", request_id, client)
            return error_response(client, Failure(FailureKind.API, "internal error of the gateway", 500), request_id)

    async def _relay(self, request: web.Request, client: Dialect, request_id: str) -> web.StreamResponse:
        if self._stopping:
            raise DragomanError(replace(STOPPING, headers={"retry-after": "1"}))
        if request.headers.get(_SENDER) == self._sender:
            # A base URL exported for the gateway's clients and inherited by the gateway itself.
            raise UpstreamUnreachable("this gateway is configured as its own upstream; check the providers' base_url")
        check_inbound(self.config, request.headers)
        limits = self.config.server.limits
        body = await _read_body(request, limits.request_body)
        payload = parse_body(body, limits)
        model = payload.get("model")
        if type(model) is not str or not model:
            raise ClientRequestError(("model",), "is required (a string)")
        target = self.router.resolve(model, client)
        if target.warning:
            log.warning("%s %s", request_id, target.warning)
        if target.provider.dialect not in CODECS:
            raise UpstreamProtocolError(f"provider {target.provider.name} speaks a dialect that is not yet supported")
        translation = translate(
            direction(client, target.provider.dialect),
            body,
            payload=payload,
            upstream_model=target.upstream_model,
            profile=target.provider.profile,
            knobs=target.knobs,
            limits=limits,
            created=int(self._now()),
            request_id=request_id,
        )
        return await self._exchange(request, client, translation, target)

    async def _exchange(
        self, request: web.Request, client: Dialect, translation: Translation, target: Target
    ) -> web.StreamResponse:
        assert self._upstream is not None, "the gateway is not open"
        provider, timeouts = target.provider, self.config.server.timeouts
        same = translation.direction.passthrough
        call = Call(
            provider.endpoint(translation.direction.upstream.path, _query(request, same)),
            {
                "content-type": "application/json",
                _SENDER: self._sender,
                **outbound_headers(provider, request.headers, same_dialect=same),
            },
            translation.body,
            translation.stream,
            timeouts,
        )
        async with AsyncExitStack() as stack:
            watch = Watch(timeouts, lambda: request.transport is None or request.transport.is_closing())
            self._open.add(watch)
            stack.callback(self._leave, watch)
            answer = await self._upstream.open(call, watch)
            stack.push_async_callback(answer.close)
            if not 200 <= answer.status < 300:
                return await self._refused(client, translation, answer, provider.name)
            headers = self._headers(client, translation, answer)
            if translation.stream:
                return await self._stream(request, client, translation, answer, watch, target, headers)
            body = await answer.read(translation.context.limits.reply_body)
            try:
                written = translation.reply(body, answer.headers)
            except UpstreamStatusError as error:
                raise UpstreamStatusError(named(error.failure, provider.name)) from None
            self._account(translation, client, "completed")
            _tell_losses(headers, translation)
            return web.Response(status=answer.status, body=written, content_type="application/json", headers=headers)

    async def _refused(
        self, client: Dialect, translation: Translation, answer: Answer, provider: str
    ) -> web.StreamResponse:
        """An error status: passed through in the same dialect, else in the client's envelope."""
        try:
            body = await answer.read(translation.context.limits.reply_body)
        except UpstreamError:
            body = b""  # the status says enough, and a retry hangs on it
        headers = self._headers(client, translation, answer)
        self._account(translation, client, f"refused with {answer.status}")
        if translation.direction.passthrough and body:
            kind = answer.headers.get("content-type", "application/json")
            headers["content-type"] = kind
            return web.Response(status=answer.status, body=body, headers=headers)
        failure = named(translation.direction.upstream.read_failure(answer.status, body, answer.headers), provider)
        failure.headers = headers
        return error_response(client, failure, translation.context.request_id)

    async def _stream(
        self,
        request: web.Request,
        client: Dialect,
        translation: Translation,
        answer: Answer,
        watch: Watch,
        target: Target,
        headers: dict[str, str],
    ) -> web.StreamResponse:
        if "json" in answer.headers.get("content-type", ""):
            return await self._not_streamed(request, client, translation, answer, target, headers)
        batches = await open_stream(translation, answer, watch)
        _tell_losses(headers, translation)
        response = _event_stream(headers)
        how = "abandoned"  # a client that leaves cancels this, and is accounted for all the same (T-75)
        try:
            how = await send_stream(request, response, batches, watch, client)
        finally:
            self._account(translation, client, how)
        return response

    async def _not_streamed(
        self,
        request: web.Request,
        client: Dialect,
        translation: Translation,
        answer: Answer,
        target: Target,
        headers: dict[str, str],
    ) -> web.StreamResponse:
        """An upstream that answers a stream request with JSON: an error, or a whole reply that is then replayed."""
        body = await answer.read(translation.context.limits.reply_body)
        self._account(translation, client, "answered without a stream")
        if translation.direction.passthrough:
            return web.Response(
                status=answer.status, body=translation.reply(body), content_type="application/json", headers=headers
            )
        try:
            written = translation.replay(body, answer.headers)
        except UpstreamStatusError as error:
            raise UpstreamStatusError(named(error.failure, target.provider.name)) from None
        _tell_losses(headers, translation)
        response = _event_stream(headers)
        await response.prepare(request)
        await response.write(written)
        await response.write_eof()
        return response

    def _headers(self, client: Dialect, translation: Translation, answer: Answer) -> dict[str, str]:
        source = translation.direction.upstream.dialect
        headers = reply_headers(source, client, answer.headers, now=self._now())
        headers.setdefault(REQUEST_ID[client], translation.context.request_id)
        return headers

    def _account(self, translation: Translation, client: Dialect, how: str) -> None:
        context = translation.context
        if context.failure is not None:
            how = f"failed in the stream ({context.failure.kind})"
        losses = f"; losses: {context.losses.summary()}" if context.losses else ""
        log.info("%s %s %s → %s %s%s", context.request_id, translation.direction, context.model,
                 translation.upstream_model, how, losses)  # fmt: skip


def _event_stream(headers: dict[str, str]) -> web.StreamResponse:
    # x-accel-buffering: nginx would otherwise collect the stream before passing it on.
    response = web.StreamResponse(headers={**headers, "cache-control": "no-cache", "x-accel-buffering": "no"})
    response.content_type = "text/event-stream"
    response.charset = "utf-8"
    return response


async def _read_body(request: web.Request, limit: int) -> bytes:
    """The request's body. Raises LimitExceeded as soon as it is known to be too long."""
    length = request.content_length
    if length is not None and length > limit:
        raise LimitExceeded("request_body", limit, upstream=False)
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := await request.content.readany():
            size += len(piece)
            if size > limit:
                raise LimitExceeded("request_body", limit, upstream=False)
            pieces.append(piece)
    except web.RequestPayloadError as error:
        raise ClientRequestError("", f"the body cannot be read: {error}") from None
    return b"".join(pieces)


def _query(request: web.Request, same_dialect: bool) -> str:
    """`?beta=true` belongs to the body's dialect: it goes on with it, and nowhere else."""
    return "beta=true" if same_dialect and request.query.get("beta") == "true" else ""


def _tell_losses(headers: dict[str, str], translation: Translation) -> None:
    if summary := translation.losses.summary():
        headers[LOSS_HEADER] = summary

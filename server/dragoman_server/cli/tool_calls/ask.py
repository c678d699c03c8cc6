"""Asking: the requests go through a gateway of this process, one for each provider, that listens on a loopback port."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp

from dragoman import Dialect, DragomanError
from dragoman.aio import CallObserver, ObservedTransport, UpstreamRequest, UpstreamResponse
from dragoman.gateway import CLIENT_DIALECTS, redact
from dragoman.wire import Json, SSEFrame, SSEParser, json_dumps, json_loads
from dragoman_server.app import make_app
from dragoman_server.cli.tool_calls.question import Model, request_for
from dragoman_server.cli.tool_calls.read_reply import SeenReply, error_message, read_reply
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models, Server
from dragoman_server.observability.known_secrets import RenewedSecrets, provider_secrets
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.upstream_calls import create_transport
from dragoman_server.workers.serve import listening, with_simulator

SECONDS = 60.0
"""Longest time for one reply, in seconds."""
BODY_MAX = 4 << 20
"""Longest reply that is read, in bytes."""
_AT_ONCE = 8
_STREAM = "text/event-stream"
_REQUEST_ID = "x-dragoman-request-id"
_FAILURES = (aiohttp.ClientError, OSError)


@dataclass(slots=True)
class Answer:
    """A reply to a request of a client. Without one, `problem` is the reason.

    `error` is the message that the client got, in which keys are masked. The fields of the upstream are unset if its
    request was not seen: nothing was sent, or it went by a proxy of the provider's own.
    """

    model: Model
    client: Dialect
    seconds: float = 0.0
    problem: str = ""
    """A sentence on why there is no reply."""
    status: int | None = None
    streamed: bool = False
    error: str = ""
    reply: SeenReply | None = None
    """The client's stream."""
    upstream_status: int | None = None
    upstream_failed: bool = False
    """True if the upstream could not be reached, or closed the connection without a response."""
    upstream_streamed: bool = True
    upstream_sent: Json = field(default_factory=dict)
    """The body of the upstream request."""
    upstream_reply: SeenReply | None = None
    """The upstream's stream."""
    losses: Sequence[Json] = ()
    """The rows of the receipt that do not follow from the request and the profile alone."""
    violations: Sequence[Json] = ()


async def ask(config: Config, models: Sequence[Model], *, seconds: float = SECONDS) -> list[Answer]:
    """Ask each model in each dialect. The answers are in the order of the models.

    The providers are asked side by side, and the models of one provider one after the other. A reply has `seconds`.
    """
    slots = asyncio.Semaphore(_AT_ONCE)

    async def of_provider(name: str) -> list[Answer]:
        own = [model for model in models if model.provider.name == name]
        async with slots, _Asker.listening(config, own, seconds) as asker:
            return [await asker.ask(number, client) for number in range(len(own)) for client in CLIENT_DIALECTS]

    async with with_simulator(config) as (config, _):
        names = dict.fromkeys(model.provider.name for model in models)
        found = await asyncio.gather(*map(of_provider, names))
    places = {id(model): place for place, model in enumerate(models)}
    return sorted((answer for answers in found for answer in answers), key=lambda each: places[id(each.model)])


class _Observer(CallObserver):
    """The upstream's side of one request. Of several requests, it keeps the last one."""

    def __init__(self) -> None:
        self.request: UpstreamRequest | None = None
        self.response: UpstreamResponse | None = None
        self.broken = False
        self.size = 0
        self.frames: list[SSEFrame] = []
        self._parser = SSEParser()

    def sent(self, request: UpstreamRequest) -> CallObserver:
        """Begin a request, and return its observer."""
        self.request, self.response, self.broken = request, None, False
        self.size, self.frames, self._parser = 0, [], SSEParser()
        return self

    def answered(self, response: UpstreamResponse) -> None:
        """Keep the response, for its status and its headers."""
        self.response = response

    def failed(self, _: DragomanError) -> None:
        """Record that there is no response, or not all of it."""
        self.broken = True

    def received(self, data: bytes) -> None:
        """Read a part of the body."""
        self.size += len(data)
        if self.size <= BODY_MAX:
            self.frames += self._parser.parse(data)


class _Asker:
    """Asks the models of one provider."""

    def __init__(self, models: Sequence[Model], seconds: float, session: aiohttp.ClientSession, url: str) -> None:
        self._models = models
        self._seconds = seconds
        self._session = session
        self._url = url
        self.observer = _Observer()

    @classmethod
    @asynccontextmanager
    async def listening(cls, config: Config, models: Sequence[Model], seconds: float) -> AsyncIterator[_Asker]:
        """Run the gateway. Its key is new and known to the asker alone."""
        key = secrets.token_urlsafe(32)
        reduced = _reduced(config, models, key)
        async with aiohttp.ClientSession(headers={"authorization": f"Bearer {key}"}, trust_env=False) as session:
            asker = cls(models, seconds, session, "")
            transport = ObservedTransport(create_transport(reduced.server), lambda sent: asker.observer.sent(sent))
            app = make_app(reduced, gateway=Gateway(reduced, upstream=transport, lines=True), drain=0.0)
            async with listening(app, reduced.server.host, 0, drain=0.0, server=reduced.server) as asker._url:
                yield asker

    async def ask(self, number: int, client: Dialect) -> Answer:
        """Ask the model with this number as a client of this dialect."""
        model = self._models[number]
        answer = Answer(model, client)
        body = json_dumps(request_for(client, _name(number), model.provider))
        self.observer = _Observer()
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                await self._ask(answer, body)
        except TimeoutError:
            answer.problem = f"no whole reply within {self._seconds:g} s"
        except (*_FAILURES, DragomanError) as error:
            answer.problem = f"the reply breaks off: {error}"
        answer.seconds = time.monotonic() - started
        self._observe(answer)
        return answer

    async def _ask(self, answer: Answer, body: bytes) -> None:
        headers = {"content-type": "application/json"}
        explain = f"{self._url}/v1/dragoman/explain?from={answer.client.value}"
        async with self._session.post(explain, data=body, headers=headers) as response:
            expected = json_loads(await response.read()).get("losses", [])
        async with self._session.post(f"{self._url}/v1/{answer.client.path}", data=body, headers=headers) as response:
            data = await _read(response)
            answer.status, answer.streamed = response.status, response.content_type == _STREAM
            request_id = response.headers.get(_REQUEST_ID, "")
        secrets = _secrets(answer.model.provider)
        if answer.status >= 400:
            answer.error = redact(error_message(data), secrets)
            return
        parser = SSEParser()
        answer.reply = read_reply(answer.client, parser.parse(data) if answer.streamed else [])
        answer.reply.mask(secrets)
        async with self._session.get(f"{self._url}/v1/dragoman/receipts/{request_id}") as response:
            receipt = json_loads(await response.read())
        answer.losses = list(_more(receipt.get("losses", []), expected))
        answer.violations = receipt.get("violations", [])

    def _observe(self, answer: Answer) -> None:
        """Add what the upstream got and sent."""
        observer = self.observer
        if observer.request is not None:
            answer.upstream_sent = json_loads(observer.request.body)
        answer.upstream_failed = observer.broken and observer.response is None
        if (response := observer.response) is not None:
            kind = response.headers.get("content-type", "")
            answer.upstream_status, answer.upstream_streamed = response.status, kind.startswith(_STREAM)
            if answer.upstream_streamed:
                provider = answer.model.provider
                answer.upstream_reply = read_reply(provider.dialect, observer.frames)
                answer.upstream_reply.mask(_secrets(provider))


def _secrets(provider: Provider) -> Sequence[str]:
    """Return the keys of a provider, and its last credentials."""
    return RenewedSecrets(provider.name, provider_secrets(provider))


def _reduced(config: Config, models: Sequence[Model], key: str) -> Config:
    """Return the configuration of a gateway that has these models only, and keeps nothing."""
    old = config.server
    server = Server(
        keys=(key,),  # type: ignore[arg-type]  # becomes a Secret
        port=0,
        receipts=len(models) * len(CLIENT_DIALECTS),
        transport=old.transport,
        client_profiles=False,
        validate=1.0,
        timeouts=replace(old.timeouts, early_reply=0.0),
        limits=old.limits,
        connections=old.connections,
    )
    routes = [
        Route(_name(number), model.provider.name, model.name, knobs=model.knobs, attempts=1)
        for number, model in enumerate(models)
    ]
    providers = {model.provider.name: config.providers[model.provider.name] for model in models}
    return Config(
        providers=providers,
        routes=routes,
        models=Models(unknown="reject", discover=False),
        server=server,
        knobs=config.knobs,
        directory=config.directory,
    )


def _name(number: int) -> str:
    """Return the name by which a request names a model."""
    return f"model-{number}"


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the body, up to `BODY_MAX` bytes."""
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > BODY_MAX:
            break
    return bytes(data[:BODY_MAX])


def _more(rows: Iterable[Json], expected: Iterable[Json]) -> Iterable[Json]:
    """Yield the rows that were not expected."""
    left = Counter(json_dumps(row) for row in expected)
    for row in rows:
        form = json_dumps(row)
        if left[form]:
            left[form] -= 1
        else:
            yield row

"""The `repr` of every public object is one short line without texts, keys, headers or bodies.

The classes are those of the `__all__` lists, so a new one fails here until it can be built with texts in it.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Callable
from enum import Enum
from types import ModuleType
from typing import Any, cast, get_args

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

import dragoman
import dragoman.aio
import dragoman.errors
import dragoman.gateway
import dragoman.threads
import dragoman.wire
import dragoman_server
import dragoman_server.asgi
import dragoman_server.config
from dragoman import (
    Dialect,
    Direction,
    DragomanError,
    ErrorResponse,
    Failure,
    Knobs,
    Limits,
    Loss,
    LossCode,
    Losses,
    Profile,
    StreamMachine,
    Translation,
    Usage,
    direction,
    translate,
)
from dragoman.aio import (
    AiohttpTransport,
    AsgiServer,
    BadVersion,
    CallObserver,
    ClientGone,
    ConnectionLimits,
    CorruptBody,
    Decompressor,
    DownstreamResponse,
    EventLog,
    EventStream,
    FewPerTurn,
    HeadTimeout,
    HijackableConnection,
    HijackRunner,
    HijackServer,
    Http11Transport,
    LogBudget,
    LoggedStream,
    LogSink,
    LogTail,
    LongJobs,
    MaskedWebSocketResponse,
    NumberedStream,
    ObservedTransport,
    PlainResponse,
    PoolOptions,
    ProxyStream,
    SlicedResponse,
    StreamTimers,
    Timeouts,
    TooManyConnections,
    TranslatedStream,
    UnsupportedEncoding,
    Upload,
    UpstreamRequest,
    WebSocketStream,
    open_proxy_stream,
    stream,
)
from dragoman.canonical import events
from dragoman.dialects import COUNT_ENDPOINTS
from dragoman.dialects.count_endpoint import CountEndpoint
from dragoman.dialects.directions import DIRECTIONS
from dragoman.dialects.facts import WireFacts
from dragoman.errors import (
    ClientRequestError,
    FailureKind,
    LimitExceeded,
    StreamTruncated,
    TooMany,
    Unsupported,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from dragoman.gateway import (
    ClientFrame,
    FormField,
    ForwardedEvents,
    ListedModel,
    ModelPage,
    ModelSizes,
    OutputItems,
    PromptAgreement,
    PromptDigest,
    ReplyOptions,
    ReplyPipeline,
    ResponseEnd,
    ServiceReport,
    StoredReply,
    TokenCounter,
    TokenEstimate,
    ValidationSample,
    Violation,
    changed_fields,
    short_repr,
)
from dragoman.threads import (
    Compaction,
    Conversation,
    ConversationHead,
    HistoryCipher,
    ItemPage,
    Lineage,
    MemoryStore,
    Node,
    NodeCipher,
    NotStored,
    Outline,
    PostgresConnection,
    PostgresStore,
    RedisConnection,
    RedisStore,
    SchemaPart,
    Section,
    SqliteStore,
    SqliteThread,
    StoredItems,
    StoredRequest,
    StoreError,
    Thread,
    ThreadLimits,
    Unreadable,
)
from dragoman.wire import SSEFrame, SSEParser
from dragoman_server import (
    Config,
    ConfigError,
    ExchangeRecord,
    Gateway,
    Hooks,
    Principal,
    Provider,
    Route,
    Secret,
    Server,
    Target,
)
from dragoman_server.asgi import AsgiApplication
from dragoman_server.config import (
    CredentialOptions,
    Door,
    KeyHash,
    KeyLimits,
    KeyRecord,
    Overload,
    RetryOptions,
    RouteTarget,
    StoreOptions,
    Telemetry,
    WebSocketOptions,
)
from dragoman_server.observability.ended_exchange import EndedExchange
from dragoman_server.receipt import Receipt
from support.samples import dump, error_frame, request, text_stream, tool_stream

CANARY = "canary"
KEY = f"{CANARY}-key-of-no-known-form"
TEXT = f"a {CANARY}\nof several lines"
JSON = {"text": TEXT}
BODY = dump(JSON)
HEADERS = {"authorization": f"Bearer {KEY}"}
URL = f"http://ada:{CANARY}@127.0.0.1:9/v1?key={KEY}"
LONGEST = 200
OUTLINE = Outline(f"resp_{'0' * 32}", f"conv_{'0' * 32}", None, 7, 100)
MODULES: tuple[ModuleType, ...] = (
    dragoman,
    dragoman.errors,
    dragoman.wire,
    dragoman.gateway,
    dragoman.aio,
    dragoman.threads,
    dragoman_server,
    dragoman_server.asgi,
    dragoman_server.config,
)


def public_classes() -> dict[type, str]:
    """The classes of the `__all__` lists that have instances of their own, and those of the events."""
    found = {}
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and not issubclass(value, Enum) and not getattr(value, "_is_protocol", False):
                found[value] = f"{module.__name__}.{name}"
    return found | {kind: f"dragoman.gateway.Event: {kind.__name__}" for kind in get_args(dragoman.gateway.Event)}


def translation(way: str = "messages→chat", **fields: Any) -> Translation:
    client, _, upstream = way.partition("→")
    body = request(Dialect(client), stream=True, **fields)
    body["messages" if client != "responses" else "input"] = [{"role": "user", "content": TEXT}]
    return translate(direction(client, upstream), dump(body), options=ReplyOptions(request_id="req_1", secrets=[KEY]))


def failure() -> Failure:
    headers = {"set-cookie": CANARY}
    return Failure(FailureKind.API, TEXT, 502, CANARY, CANARY, CANARY, CANARY, headers, reason="protocol")


async def nothing() -> AsyncIterator[bytes]:
    yield BODY


def losses() -> Losses:
    found = Losses()
    for code in LossCode:
        found.add(code, f"metadata.{CANARY}", TEXT)
    return found


def config() -> Config:
    secrets = (Secret(KEY),)
    provider = Provider("p", Dialect.CHAT, "http://127.0.0.1:9/v1", Secret(KEY), headers=HEADERS)
    return Config({"p": provider}, [Route("*", "p", knobs={"on_loss": "reject"})], server=Server(keys=secrets))


def a_request() -> web.Request:
    return make_mocked_request("POST", f"/v1/messages?key={KEY}", HEADERS)


def web_server() -> web.Server:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=TEXT)

    return web.Server(handler, handler_cancellation=True)


def record() -> ExchangeRecord[Any]:
    facts: dict[str, Any] = dict.fromkeys(
        ("model", "provider", "upstream", "upstream_model", "client_profile", "stream", "first_event", "usage")
    )
    facts |= dict.fromkeys(("error_kind", "error_origin"))
    facts |= {"created": 7, "duration": 1.0, "estimated": (), "losses": {}, "error_code": CANARY, "route": "*"}
    return ExchangeRecord("req_1", Dialect.CHAT, "completed", 200, Principal(KEY, TEXT), **facts)


def receipt() -> Receipt:
    error = {"message": TEXT}
    return Receipt("req_1", Dialect.CHAT, 7, KEY.encode(), "m", "p", translation(), "failed", 502, error)


BUILDERS: dict[type, Callable[[], object]] = {
    # dragoman
    ClientRequestError: lambda: ClientRequestError("messages[0]", TEXT),
    Direction: lambda: direction("messages", "chat"),
    DragomanError: lambda: DragomanError(failure()),
    ErrorResponse: lambda: ErrorResponse(502, HEADERS, BODY, failure()),
    Failure: failure,
    Knobs: lambda: Knobs(on_loss="reject", tool_prefixes=("a=b",) * 500),
    Limits: lambda: Limits(**dict.fromkeys(Limits.__dataclass_fields__, 1)),
    Loss: lambda: Loss(LossCode.TOP_K, f"metadata.{CANARY}", TEXT),
    Losses: losses,
    Profile: Profile,
    StreamMachine: lambda: translation().stream_machine(),
    Translation: translation,
    UpstreamError: lambda: UpstreamError(failure()),
    Usage: lambda: Usage(*[1_000_000] * 6),
    # dragoman.errors
    LimitExceeded: lambda: LimitExceeded("reply_body", 1, upstream=True),
    StreamTruncated: lambda: StreamTruncated(TEXT),
    TooMany: lambda: TooMany("messages", TEXT, "messages", 1),
    Unsupported: lambda: Unsupported("tools", TEXT),
    UpstreamProtocolError: lambda: UpstreamProtocolError(TEXT),
    UpstreamStatusError: lambda: UpstreamStatusError(failure()),
    UpstreamTimeout: lambda: UpstreamTimeout("idle", 1.0),
    UpstreamUnreachable: lambda: UpstreamUnreachable(TEXT),
    # dragoman.wire
    SSEFrame: lambda: SSEFrame(TEXT, BODY),
    SSEParser: SSEParser,
    # dragoman.gateway
    ValidationSample: lambda: ValidationSample(0.02, lambda: 0.5),
    ClientFrame: lambda: ClientFrame(TEXT, TEXT, JSON),
    WireFacts: lambda: Dialect.MESSAGES.facts,
    CountEndpoint: lambda: max(COUNT_ENDPOINTS.values(), key=lambda each: len(repr(each))),
    FormField: lambda: FormField(BODY, TEXT),
    ForwardedEvents: lambda: ForwardedEvents(secrets=[KEY]),
    ListedModel: lambda: ListedModel("m" * 500, 7, TEXT),
    ModelSizes: lambda: ModelSizes(1_000_000, 128_000),
    ModelPage: lambda: ModelPage([ListedModel("m", 7, TEXT)] * 500, TEXT),
    OutputItems: lambda: OutputItems(100),
    PromptAgreement: lambda: PromptAgreement(500, 0.5, "tools"),
    PromptDigest: lambda: PromptDigest(Dialect.CHAT, TEXT, (1, 2), (1, 2), array("I", range(500)), array("I", [1])),
    ReplyOptions: lambda: ReplyOptions(request_id="req_1", secrets=[KEY]),
    ReplyPipeline: lambda: translation().stages(),
    ServiceReport: lambda: ServiceReport(
        "t" * 32, "standard", 123456789.123, 10**10, {"code_interpreter": 10**10}, [{"a": TEXT}], [{"b": TEXT}]
    ),
    ResponseEnd: lambda: ResponseEnd("failed", Usage(1), failure=failure()),
    StoredReply: lambda: StoredReply(JSON, None, BODY, losses(), TEXT, evicted=[(LossCode.TOP_K, (CANARY,), TEXT)]),
    TokenCounter: TokenCounter,
    TokenEstimate: lambda: TokenEstimate(7, "characters"),
    Violation: lambda: Violation("a rule", TEXT, 7, TEXT),
    events.Start: lambda: events.Start(TEXT, TEXT, Usage(1)),
    events.BlockStart: lambda: events.BlockStart(0, "tool", TEXT, TEXT, namespace=TEXT),
    events.Delta: lambda: events.Delta(0, TEXT),
    events.TextRun: lambda: events.text_run(0, TEXT, [TEXT], [BODY]),
    events.Opaque: lambda: events.Opaque(0, "chat", "block", JSON, JSON),
    events.Annotation: lambda: events.Annotation(0, events.Citation("chat", JSON, TEXT, TEXT)),
    events.Logprobs: lambda: events.Logprobs(0, [JSON]),
    events.BlockEnd: lambda: events.BlockEnd(0),
    events.Finish: lambda: events.Finish(
        events.Stop(events.StopReason.END, TEXT, TEXT), Usage(1), events.RefusalInfo(TEXT, TEXT)
    ),
    events.End: lambda: events.End(Usage(1)),
    events.Error: lambda: events.Error(failure()),
    events.Ping: events.Ping,
    # dragoman.aio
    AiohttpTransport: AiohttpTransport,
    AsgiServer: lambda: AsgiServer(HijackServer(web_server())),
    BadVersion: lambda: BadVersion(message="a version"),
    CallObserver: CallObserver,
    ClientGone: ClientGone,
    ConnectionLimits: lambda: ConnectionLimits(1.0, 1.0, 1.0, 1, 1),
    CorruptBody: lambda: CorruptBody("gzip", "is corrupt"),
    Decompressor: lambda: Decompressor(("gzip",)),
    DownstreamResponse: lambda: DownstreamResponse(
        a_request(), EventStream(headers=HEADERS), StreamTimers(Timeouts()), BODY
    ),
    EventLog: lambda: EventLog(100),
    EventStream: lambda: EventStream(headers=HEADERS),
    FewPerTurn: lambda: FewPerTurn(1),
    HeadTimeout: HeadTimeout,
    HijackRunner: lambda: HijackRunner(web.Application(), shutdown_timeout=1.0),
    HijackServer: lambda: HijackServer(web_server()),
    HijackableConnection: lambda: HijackableConnection(HijackServer(web_server())),
    Http11Transport: Http11Transport,
    LogBudget: lambda: LogBudget(100),
    LogTail: lambda: LogTail(EventLog(100)),
    LogSink: lambda: LogSink(EventLog(100), StreamTimers(Timeouts())),
    LoggedStream: lambda: LoggedStream(EventLog(100), StreamTimers(Timeouts()), lambda *_: None),
    LongJobs: LongJobs,
    MaskedWebSocketResponse: MaskedWebSocketResponse,
    NumberedStream: lambda: NumberedStream(EventLog(100), StreamTimers(Timeouts()), BODY, cast("Any", None)),
    ObservedTransport: lambda: ObservedTransport(Http11Transport(), lambda _: None),
    PlainResponse: lambda: PlainResponse(200, HEADERS, BODY),
    PoolOptions: lambda: PoolOptions(*range(1, 7)),
    ProxyStream: lambda: ProxyStream(nothing(), translation().stages().writer, lambda _: BODY, None),  # type: ignore[union-attr,arg-type]
    SlicedResponse: lambda: SlicedResponse(body=BODY, headers=HEADERS),
    StreamTimers: lambda: StreamTimers(Timeouts()),
    Timeouts: lambda: Timeouts(*[1.5] * 10),
    TooManyConnections: lambda: TooManyConnections("max_connections"),
    TranslatedStream: lambda: stream(translation(), URL, HEADERS),
    UnsupportedEncoding: lambda: UnsupportedEncoding("compress", "gzip", ""),
    Upload: lambda: Upload(nothing(), 7),
    UpstreamRequest: lambda: UpstreamRequest(URL, HEADERS, BODY, True, Timeouts()),
    WebSocketStream: lambda: WebSocketStream(
        web.WebSocketResponse(), a_request(), StreamTimers(Timeouts()), BODY, lambda *_: None
    ),
    # dragoman.threads
    Compaction: lambda: Compaction([JSON], [JSON], [JSON], 1, TEXT, covered=frozenset([TEXT])),
    Conversation: lambda: Conversation(
        [Node(KEY, "conv_1", None, 7, b"[]", dump(JSON | {"object": "conversation", "metadata": JSON, "output": []}))]
    ),
    ConversationHead: lambda: ConversationHead("conv_1", 7, JSON),
    HistoryCipher: lambda: HistoryCipher("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
    ItemPage: lambda: ItemPage(7, "asc", "msg_1"),
    Lineage: lambda: Lineage([OUTLINE]),
    MemoryStore: MemoryStore,
    Node: lambda: Node(KEY, "resp_1", None, 7, BODY, BODY, BODY),
    NodeCipher: lambda: NodeCipher("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
    NotStored: NotStored,
    Outline: lambda: OUTLINE,
    PostgresConnection: lambda: PostgresConnection(
        f"postgresql://u:{KEY}@127.0.0.1:9/d", SchemaPart("things", ("SELECT 1",)), 1.0
    ),
    PostgresStore: lambda: PostgresStore(f"postgresql://u:{KEY}@127.0.0.1:9/d"),
    RedisConnection: lambda: RedisConnection(f"redis://:{KEY}@127.0.0.1:9/0", 1.0),
    RedisStore: lambda: RedisStore(f"redis://:{KEY}@127.0.0.1:9/0"),
    SchemaPart: lambda: SchemaPart("things", ("SELECT 1",)),
    Section: lambda: Section(OUTLINE, output=True),
    SqliteStore: lambda: SqliteStore("threads.db"),
    SqliteThread: lambda: SqliteThread("threads.db", []),
    StoreError: StoreError,
    StoredItems: lambda: StoredItems(cast("Any", None), [Section(OUTLINE, output=True)]),
    StoredRequest: lambda: StoredRequest(TEXT, TEXT, True, BODY),
    Thread: lambda: Thread(MemoryStore(), KEY),
    ThreadLimits: lambda: ThreadLimits(1.0, 1, 1, 1, 1),
    Unreadable: Unreadable,
    # dragoman_server
    Config: config,
    ConfigError: lambda: ConfigError.of([("providers.p", TEXT)] * 9),
    ExchangeRecord: record,
    Gateway: lambda: Gateway(config()),
    Hooks: lambda: Hooks(on_end=lambda _: None),
    Principal: lambda: Principal(KEY, TEXT, admin=True),
    Provider: lambda: Provider("p", Dialect.CHAT, URL, Secret(KEY), headers=HEADERS, api_keys=(Secret(KEY),)),
    Route: lambda: config().routes[0],
    Secret: lambda: Secret(KEY),
    Server: lambda: config().server,
    Target: lambda: Target(config().providers["p"], "m", Knobs()),
    # dragoman_server.asgi
    AsgiApplication: lambda: AsgiApplication(config(), Hooks(), 1.0),
    # dragoman_server.config
    CredentialOptions: lambda: CredentialOptions((KEY,) * 9, 60.0),
    Door: lambda: Door("bearer", "m/{model}", body={"a": KEY}, proxy=f"http://u:{KEY}@h:1"),
    KeyHash: lambda: KeyHash("ab12", KEY.encode(), KEY.encode()),
    KeyLimits: lambda: KeyLimits(*[1_000_000] * 7),
    KeyRecord: lambda: KeyRecord("ada", KeyHash("ab12", KEY.encode(), KEY.encode()), ("m",) * 500),
    Overload: lambda: Overload(1.0, 1, 1),
    RetryOptions: lambda: RetryOptions(1, 1.5, 1.5, 1.5, 0.5, 1, 1, 1.5, 1.5),
    RouteTarget: lambda: RouteTarget("p", "m", 2.0, 1),
    StoreOptions: lambda: StoreOptions("redis", url=f"redis://:{KEY}@127.0.0.1:9/0"),
    Telemetry: lambda: Telemetry(True, True, URL, HEADERS),
    WebSocketOptions: lambda: WebSocketOptions(False, 1.5, 1, 1, 1, 1, 1),
    # results that no list names
    Receipt: receipt,
    EndedExchange: lambda: EndedExchange(receipt(), failure(), Usage(1), (), None, 1.0, None, 1),
}


def assert_short(value: object) -> None:
    shown = repr(value)
    assert CANARY not in shown
    assert "\n" not in shown
    assert shown.isprintable()
    assert len(shown) <= LONGEST, shown


async def close(value: object) -> None:
    if isinstance(value, DownstreamResponse | TranslatedStream | AiohttpTransport):
        closing = value.aclose() if isinstance(value, TranslatedStream) else value.close()
        if closing is not None:
            await closing
    elif isinstance(value, StreamTimers):
        value.stop()


@pytest.mark.parametrize("kind", [*public_classes(), Receipt, EndedExchange], ids=lambda kind: kind.__name__)
async def test_a_public_object_shows_no_content(kind: type) -> None:
    assert kind in BUILDERS, "add how to build one, with texts in it"
    value = BUILDERS[kind]()
    assert isinstance(value, kind)
    assert_short(value)
    await close(value)


@pytest.mark.parametrize("way", [str(each) for each in DIRECTIONS.values()])
@pytest.mark.parametrize("make", [text_stream, tool_stream])
def test_the_results_of_a_translation_show_no_content(way: str, make: Callable[[Dialect], list[bytes]]) -> None:
    found = translation(way)
    context = found.context
    machine = found.stream_machine()
    frames = [frame.replace("東京".encode(), CANARY.encode()) for frame in make(found.direction.upstream.dialect)]
    for frame in frames[:3]:
        machine.feed(frame)
    stages = found.stages()
    parts = [stages.reader, stages.writer, stages.parser] if isinstance(stages, ReplyPipeline) else [stages]
    canonical = list(translation(way).events(frames))
    assert canonical
    error = found.error(429, dump({"error": {"message": f"{TEXT} {KEY}"}}), HEADERS)
    codec = found.direction.client
    for value in (found, context, machine, stages, *parts, *canonical, error, error.failure, codec, context.profile):
        assert_short(value)
        assert KEY not in str(value)


@pytest.mark.parametrize("way", [str(each) for each in DIRECTIONS.values()])
def test_errors_that_are_raised_mask_the_secrets(way: str) -> None:
    """`str(error)` is in tracebacks."""
    found = translation(way)
    upstream = found.direction.upstream.dialect
    with pytest.raises(UpstreamStatusError) as caught:
        found.replay(error_frame(upstream, f"no {KEY}").split(b"data: ")[1])
    assert KEY not in str(caught.value) + repr(caught.value)
    assert "no ***" in str(caught.value)


@pytest.mark.parametrize("way", [str(each) for each in DIRECTIONS.values() if not each.passthrough])
async def test_the_error_of_a_stream_s_first_event_masks_the_secrets(way: str) -> None:
    class Response:
        """An upstream's response that begins with an error."""

        status = 200

        async def batches(self) -> AsyncIterator[bytes]:
            yield error_frame(found.direction.upstream.dialect, f"no {KEY}")

    found = translation(way)
    with StreamTimers(Timeouts()) as timers, pytest.raises(UpstreamStatusError) as caught:
        await open_proxy_stream(found, Response(), timers)  # type: ignore[arg-type]
    assert KEY not in str(caught.value)
    assert "no ***" in str(caught.value)


def test_a_short_repr_is_cut_and_printable() -> None:
    class Thing:
        pass

    assert short_repr(Thing(), "", None, 0, "a\nb\x1b") == "<Thing 0 a?b?>"
    assert short_repr(Thing(), "x" * 500) == f"<Thing {'x' * 151}…>"
    assert len(short_repr(Thing(), "x" * 500)) == 160


def test_the_repr_of_settings_has_those_that_were_changed() -> None:
    assert repr(Timeouts()) == "<Timeouts>"
    assert repr(Timeouts(idle=7.0)) == changed_fields(Timeouts(idle=7.0)) == "<Timeouts idle=7.0>"
    assert repr(Server(keys=(Secret(KEY),), limits=Limits(tools=1))) == "<Server keys=1 items limits=Limits>"

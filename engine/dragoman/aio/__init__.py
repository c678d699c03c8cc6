"""The asyncio side of the engine: upstream transports, streams to clients, and their timers.

For an application that has a server of its own, `stream` is all that it needs. It sends a translated request and yields
the client's bytes:

    async with Http11Transport() as transport:            # one for the application; AiohttpTransport for egress proxies
        ...
        async with stream(translation, url, headers, transport=transport) as reply:
            async for data in reply: ...                  # also reply.headers
    # a DragomanError before the first event: translation.error_of(error.failure) is the client's response

The same in single steps, for other orders of them:

    request = UpstreamRequest(url, headers, translation.body, stream=True, timeouts=Timeouts())
    with StreamTimers(request.timeouts) as timers:
        async with await transport.open(request, timers) as response:
            reply = await open_proxy_stream(translation, response, timers)
            async for data in reply.batches: ...

Under aiohttp's server, `DownstreamResponse` and `send_proxy_stream` send the stream; `HijackRunner` runs an application
whose long streams need less memory, and `AsgiServer` serves it as an ASGI application. The other names are for
gateways, such as the server of this project, which imports only the names below. Importing this package does not import
aiohttp: names that need it are loaded when they are used.

May import all of `dragoman`; the rest of the engine does not import it. Start with `proxy_stream.py`, then
`upstream/interface.py` and `downstream/response.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.aio.batch_slices import write_slices
from dragoman.aio.decompress import CorruptBody, Decompressor, UnsupportedEncoding, decompressor
from dragoman.aio.keep_reply import keep_reply
from dragoman.aio.long_jobs import LongJobs, off_loop
from dragoman.aio.long_work import next_turn
from dragoman.aio.proxy_stream import (
    DEFECT,
    STOPPING,
    Downstream,
    ProxyStream,
    first_failure,
    open_proxy_stream,
    ping_of,
    send_proxy_stream,
)
from dragoman.aio.stream_timers import ClientGone, HeartbeatSink, StreamTimers
from dragoman.aio.timeouts import PoolOptions, Timeouts
from dragoman.aio.translated_stream import TranslatedStream, stream
from dragoman.aio.unsent import limit_unsent, unsent
from dragoman.aio.upstream.descriptors import descriptor_failure, descriptors_exhausted
from dragoman.aio.upstream.http11.transport import Http11Transport
from dragoman.aio.upstream.interface import PushedResponse, Transport, Upload, UpstreamRequest, UpstreamResponse
from dragoman.aio.upstream.observed_transport import CallObserver, ObservedTransport
from dragoman.lazy_names import lazy_names

if TYPE_CHECKING:
    from dragoman.aio.downstream.aiohttp_internals import (
        MaskedWebSocketResponse,
        abandon_body,
        detached_request,
        is_decompressed,
        send_continue,
        with_body,
        without_connection,
    )
    from dragoman.aio.downstream.asgi_server import AsgiServer
    from dragoman.aio.downstream.connection_limits import (
        ConnectionLimits,
        HeadTimeout,
        PlainResponse,
        TooManyConnections,
    )
    from dragoman.aio.downstream.event_log import EventLog, LogBudget, LoggedStream, LogSink, LogTail
    from dragoman.aio.downstream.hijack import HijackableConnection, HijackServer
    from dragoman.aio.downstream.hijack_runner import HijackRunner
    from dragoman.aio.downstream.log_response import send_log
    from dragoman.aio.downstream.numbered_stream import NumberedStream, numbered_ping_of
    from dragoman.aio.downstream.request_handler import BadVersion
    from dragoman.aio.downstream.response import DownstreamResponse, EventStream
    from dragoman.aio.downstream.sliced_response import SlicedResponse
    from dragoman.aio.downstream.websocket import WebSocketStream
    from dragoman.aio.few_per_turn import FewPerTurn
    from dragoman.aio.upstream.aiohttp_transport import AiohttpTransport
else:
    __getattr__ = lazy_names(
        globals(),
        {
            "downstream.aiohttp_internals": (
                "MaskedWebSocketResponse abandon_body detached_request is_decompressed send_continue with_body "
                "without_connection"
            ),
            "downstream.asgi_server": "AsgiServer",
            "downstream.connection_limits": "ConnectionLimits HeadTimeout PlainResponse TooManyConnections",
            "downstream.event_log": "EventLog LogBudget LogSink LogTail LoggedStream",
            "downstream.hijack": "HijackServer HijackableConnection",
            "downstream.hijack_runner": "HijackRunner",
            "downstream.log_response": "send_log",
            "downstream.numbered_stream": "NumberedStream numbered_ping_of",
            "downstream.request_handler": "BadVersion",
            "downstream.response": "DownstreamResponse EventStream",
            "downstream.sliced_response": "SlicedResponse",
            "downstream.websocket": "WebSocketStream",
            "few_per_turn": "FewPerTurn",
            "upstream.aiohttp_transport": "AiohttpTransport",
        },
    )

__all__ = (
    "DEFECT",
    "STOPPING",
    "AiohttpTransport",
    "AsgiServer",
    "BadVersion",
    "CallObserver",
    "ClientGone",
    "ConnectionLimits",
    "CorruptBody",
    "Decompressor",
    "Downstream",
    "DownstreamResponse",
    "EventLog",
    "EventStream",
    "FewPerTurn",
    "HeadTimeout",
    "HeartbeatSink",
    "HijackRunner",
    "HijackServer",
    "HijackableConnection",
    "Http11Transport",
    "LogBudget",
    "LogSink",
    "LogTail",
    "LoggedStream",
    "LongJobs",
    "MaskedWebSocketResponse",
    "NumberedStream",
    "ObservedTransport",
    "PlainResponse",
    "PoolOptions",
    "ProxyStream",
    "PushedResponse",
    "SlicedResponse",
    "StreamTimers",
    "Timeouts",
    "TooManyConnections",
    "TranslatedStream",
    "Transport",
    "UnsupportedEncoding",
    "Upload",
    "UpstreamRequest",
    "UpstreamResponse",
    "WebSocketStream",
    "abandon_body",
    "decompressor",
    "descriptor_failure",
    "descriptors_exhausted",
    "detached_request",
    "first_failure",
    "is_decompressed",
    "keep_reply",
    "limit_unsent",
    "next_turn",
    "numbered_ping_of",
    "off_loop",
    "open_proxy_stream",
    "ping_of",
    "send_continue",
    "send_log",
    "send_proxy_stream",
    "stream",
    "unsent",
    "with_body",
    "without_connection",
    "write_slices",
)

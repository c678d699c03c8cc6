"""Dragoman translates between OpenAI Chat Completions, Anthropic Messages and OpenAI Responses.

    from dragoman import direction, translate

    translation = translate(direction("messages", "chat"), body)  # a Messages client, a Chat upstream
    translation.body                       # the request to send upstream
    print(translation.losses)              # what could not be translated
    translation.reply(upstream_body)       # a complete reply, as the client's response body
    translation.error(status, body, headers)  # an upstream's error, as the client's response
    translation.stream_machine()           # a streamed reply: feed(bytes) -> bytes, finish() -> bytes

Importing this package imports neither aiohttp nor uvloop, and nothing here does I/O; that is in `dragoman.aio`. The
names in `__all__` are public; those of the submodules may change. Some are imported when they are first used, as most
gateways do not use them:

    translation    translate forward parse_body Translation StreamMachine Dialect Direction direction DIRECTIONS
    its options    Knobs KNOBS DEFAULT_KNOBS Limits DEFAULT_LIMITS Profile PROFILE_FIELDS builtin_profile
                   BUILTIN_PROFILES VENDOR_PROFILES StoredReply
    its results    Loss LossCode Losses Usage Violation ErrorResponse
    errors         DragomanError and its subclasses, Failure FailureKind FailureOrigin error_response read_error
    token counts   TokenCounter TokenEstimate vocabulary_installed CountEndpoint COUNT_ENDPOINTS AUDIO_TOKENS
    model lists    ListedModel ModelPage MODEL_LIST_PATH model_list_query read_model_list
    prompt caches  PromptDigest PromptAgreement conversation_digest
    stages         Stage ReplyPipeline Event
    forwarding     ForwardedEvents FormField boundary_of
    WebSocket      ClientFrame RESPONSE_CREATE RESPONSE_STEER OutputItems join_items stream_id_tail error_frame
                   warm_up_frames steer_failed_frame
    data, texts    Json json_dumps json_loads SSEFrame SSEParser EFFORTS redact quote tidy is_secret
    this package   BUILD
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from dragoman.canonical.events import Event, Usage
from dragoman.canonical.request import EFFORTS, Json
from dragoman.dialects import Dialect
from dragoman.dialects.directions import DIRECTIONS, Direction, direction
from dragoman.dialects.errors.redact import is_secret, quote, redact, tidy
from dragoman.dialects.http_errors import ErrorResponse, error_response, read_error
from dragoman.dialects.openai.endpoint_usage import AUDIO_TOKENS
from dragoman.dialects.shared.model_lists import (
    MODEL_LIST_PATH,
    ListedModel,
    ModelPage,
    model_list_query,
    read_model_list,
)
from dragoman.dialects.shared.token_count_endpoints import COUNT_ENDPOINTS, CountEndpoint
from dragoman.errors import (
    ClientRequestError,
    DragomanError,
    Failure,
    FailureKind,
    FailureOrigin,
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
from dragoman.knobs import DEFAULT_KNOBS, KNOBS, Knobs
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.losses import Loss, LossCode, Losses
from dragoman.profiles.profile import BUILTIN_PROFILES, PROFILE_FIELDS, VENDOR_PROFILES, Profile, builtin_profile
from dragoman.reply_context import StoredReply
from dragoman.stages.base import ReplyPipeline, Stage
from dragoman.stages.stream_machine import StreamMachine
from dragoman.stages.violation import Violation
from dragoman.translate_request import forward, parse_body, translate
from dragoman.translation import Translation
from dragoman.wire import sse as _sse
from dragoman.wire.json_codec import dumps as json_dumps
from dragoman.wire.json_codec import loads as json_loads
from dragoman.wire.sse import Frame as SSEFrame
from dragoman.wire.sse import Parser as SSEParser

if TYPE_CHECKING:
    from dragoman.dialects.common_prompt_prefix import PromptAgreement, PromptDigest, conversation_digest
    from dragoman.dialects.count_tokens import TokenCounter, TokenEstimate
    from dragoman.dialects.openai.forwarded_events import ForwardedEvents
    from dragoman.dialects.responses.websocket.client_frame import (
        RESPONSE_CREATE,
        RESPONSE_STEER,
        ClientFrame,
        join_items,
    )
    from dragoman.dialects.responses.websocket.output_items import OutputItems
    from dragoman.dialects.responses.websocket.server_frames import (
        error_frame,
        steer_failed_frame,
        stream_id_tail,
        warm_up_frames,
    )
    from dragoman.tokens.by_vocabulary import vocabulary_installed
    from dragoman.wire.multipart import FormField, boundary_of

__version__: str
"""The version of the installed package."""

BUILD = "compiled" if _sse.__file__.endswith((".so", ".pyd")) else "pure"
"""`compiled` if the engine's modules are compiled to C extensions, else `pure`."""

__all__ = (
    "AUDIO_TOKENS",
    "BUILD",
    "BUILTIN_PROFILES",
    "COUNT_ENDPOINTS",
    "DEFAULT_KNOBS",
    "DEFAULT_LIMITS",
    "DIRECTIONS",
    "EFFORTS",
    "KNOBS",
    "MODEL_LIST_PATH",
    "PROFILE_FIELDS",
    "RESPONSE_CREATE",
    "RESPONSE_STEER",
    "VENDOR_PROFILES",
    "ClientFrame",
    "ClientRequestError",
    "CountEndpoint",
    "Dialect",
    "Direction",
    "DragomanError",
    "ErrorResponse",
    "Event",
    "Failure",
    "FailureKind",
    "FailureOrigin",
    "FormField",
    "ForwardedEvents",
    "Json",
    "Knobs",
    "LimitExceeded",
    "Limits",
    "ListedModel",
    "Loss",
    "LossCode",
    "Losses",
    "ModelPage",
    "OutputItems",
    "Profile",
    "PromptAgreement",
    "PromptDigest",
    "ReplyPipeline",
    "SSEFrame",
    "SSEParser",
    "Stage",
    "StoredReply",
    "StreamMachine",
    "StreamTruncated",
    "TokenCounter",
    "TokenEstimate",
    "TooMany",
    "Translation",
    "Unsupported",
    "UpstreamError",
    "UpstreamProtocolError",
    "UpstreamStatusError",
    "UpstreamTimeout",
    "UpstreamUnreachable",
    "Usage",
    "Violation",
    "boundary_of",
    "builtin_profile",
    "conversation_digest",
    "direction",
    "error_frame",
    "error_response",
    "forward",
    "is_secret",
    "join_items",
    "json_dumps",
    "json_loads",
    "model_list_query",
    "parse_body",
    "quote",
    "read_error",
    "read_model_list",
    "redact",
    "steer_failed_frame",
    "stream_id_tail",
    "tidy",
    "translate",
    "vocabulary_installed",
    "warm_up_frames",
)

_MODULES: Final = {
    "RESPONSE_CREATE": "dialects.responses.websocket.client_frame",
    "RESPONSE_STEER": "dialects.responses.websocket.client_frame",
    "ClientFrame": "dialects.responses.websocket.client_frame",
    "FormField": "wire.multipart",
    "ForwardedEvents": "dialects.openai.forwarded_events",
    "OutputItems": "dialects.responses.websocket.output_items",
    "PromptAgreement": "dialects.common_prompt_prefix",
    "PromptDigest": "dialects.common_prompt_prefix",
    "TokenCounter": "dialects.count_tokens",
    "TokenEstimate": "dialects.count_tokens",
    "boundary_of": "wire.multipart",
    "conversation_digest": "dialects.common_prompt_prefix",
    "error_frame": "dialects.responses.websocket.server_frames",
    "join_items": "dialects.responses.websocket.client_frame",
    "steer_failed_frame": "dialects.responses.websocket.server_frames",
    "stream_id_tail": "dialects.responses.websocket.server_frames",
    "vocabulary_installed": "tokens.by_vocabulary",
    "warm_up_frames": "dialects.responses.websocket.server_frames",
}
"""The modules of the names that most gateways do not use. Each is imported when one of its names is first used."""


def __getattr__(name: str) -> Any:
    """Import a name of `_MODULES`, or read the version (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version  # 0.6 MB, needed only here

        value = globals()[name] = version("dragoman")
        return value
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value

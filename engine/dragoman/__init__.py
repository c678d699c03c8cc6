"""Dragoman translates between OpenAI Chat Completions, Anthropic Messages and OpenAI Responses.

    from dragoman import direction, translate

    translation = translate(direction("messages", "chat"), body)  # a Messages client, a Chat upstream
    translation.body                       # the request to send upstream
    print(translation.losses)              # what could not be translated
    translation.reply(upstream_body)       # a complete reply, as the client's response body
    translation.error(status, body, headers)  # an upstream's error, as the client's response
    translation.stream_machine()           # a streamed reply: feed(bytes) -> bytes, finish() -> bytes

Importing this package imports neither aiohttp nor uvloop, and nothing here does I/O. The names in `__all__` are public,
and those of these packages and modules; all others may change:

    dragoman.errors    all exceptions, and the kinds of failures
    dragoman.aio       asyncio: `stream(translation, url, headers)`, transports, timers
    dragoman.threads   conversations that are kept
    dragoman.wire      JSON and server-sent events
    dragoman.gateway   what programs need that are gateways: model lists, token counts, tables of knobs and profiles, …
"""

from typing import TYPE_CHECKING, Any

from dragoman.canonical.events import Usage
from dragoman.dialects import Dialect
from dragoman.dialects.directions import Direction, direction
from dragoman.dialects.http_errors import ErrorResponse, error_response
from dragoman.errors import ClientRequestError, DragomanError, Failure, UpstreamError
from dragoman.knobs import Knobs
from dragoman.limits import Limits
from dragoman.losses import Loss, LossCode, Losses
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.stages.stream_machine import StreamMachine
from dragoman.translate_request import translate
from dragoman.translation import Translation

__version__: str
"""The version of the installed package."""

__all__ = (
    "ClientRequestError",
    "Dialect",
    "Direction",
    "DragomanError",
    "ErrorResponse",
    "Failure",
    "Knobs",
    "Limits",
    "Loss",
    "LossCode",
    "Losses",
    "Profile",
    "StreamMachine",
    "Translation",
    "UpstreamError",
    "Usage",
    "builtin_profile",
    "direction",
    "error_response",
    "translate",
)

if not TYPE_CHECKING:  # a type checker reports the names that do not exist

    def __getattr__(name: str) -> Any:
        """Read the version when it is first used (PEP 562)."""
        if name == "__version__":
            from importlib.metadata import version  # 1.4 MB, needed only here

            value = globals()[name] = version("dragoman")
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

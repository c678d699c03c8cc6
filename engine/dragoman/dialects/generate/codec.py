"""The codec of Gemini's `generateContent`. Only upstreams have this dialect, so it has no half for clients."""

from __future__ import annotations

from typing import Any, NoReturn

from dragoman.dialects import Dialect
from dragoman.dialects.codec import Codec
from dragoman.dialects.generate.reply.read import read_reply
from dragoman.dialects.generate.reply_fields import note_service
from dragoman.dialects.generate.request.read_prompt import read_prompt
from dragoman.dialects.generate.request.write import write_request
from dragoman.dialects.generate.stop_and_usage import check_end
from dragoman.dialects.generate.stream.reader import GenerateReader


def _no_client(*_: Any, **__: Any) -> NoReturn:
    """Raise TypeError. `WireFacts.client` is False, so no direction has this dialect as the client's."""
    raise TypeError("no client has Gemini's API")


CODEC = Codec(
    Dialect.GENERATE,
    read_prompt,
    write_request,
    read_reply,
    _no_client,
    note_service,
    _no_client,
    GenerateReader,
    _no_client,
    _no_client,
    _no_client,
    _no_client,
    model_paths=(("modelVersion",),),
    check_end=check_end,
)

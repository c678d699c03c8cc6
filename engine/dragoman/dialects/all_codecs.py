"""The codec of each dialect.

Its package is imported at the first use: few gateways serve all dialects, and each takes up to a megabyte of memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dragoman.dialects import Dialect
from dragoman.dialects.lazy_mapping import LazyMapping

if TYPE_CHECKING:
    from dragoman.dialects.codec import Codec


def _codec_of(dialect: Dialect) -> Codec:
    if dialect is Dialect.CHAT:
        from dragoman.dialects.chat.codec import CODEC
    elif dialect is Dialect.MESSAGES:
        from dragoman.dialects.messages.codec import CODEC
    else:
        from dragoman.dialects.responses.codec import CODEC
    return CODEC


CODECS: Final[Mapping[Dialect, Codec]] = LazyMapping(Dialect, _codec_of)

"""The codec of each dialect.

Its package is imported at the first use: few gateways serve all dialects, and each takes up to a megabyte of memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from dragoman.dialects import Dialect
from dragoman.dialects.lazy_mapping import LazyMapping

if TYPE_CHECKING:
    from dragoman.dialects.codec import Codec


def _codec_of(dialect: Dialect) -> Codec:
    codec: Codec = import_module(f"dragoman.dialects.{dialect}.codec").CODEC
    return codec


CODECS: Final[Mapping[Dialect, Codec]] = LazyMapping(Dialect, _codec_of)

"""The load shapes by mode."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any

from dragoman_bench.load import Load
from dragoman_bench.load_shapes import arrivals, closed, counted, hold, storm
from dragoman_bench.mixed_day import day
from dragoman_bench.plan import Mode

SHAPES: Mapping[Mode, Callable[[Load], Coroutine[Any, Any, None]]] = MappingProxyType(
    {"hold": hold, "closed": closed, "counted": counted, "open": arrivals, "storm": storm, "day": day}
)

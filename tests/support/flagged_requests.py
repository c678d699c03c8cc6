"""Requests translated for an upstream whose profile has certain flags."""

from __future__ import annotations

import json
from typing import Any

from dragoman import LossCode, direction, translate
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from dragoman.profiles.profile import builtin_profile
from support import samples

Json = dict[str, Any]


def ask(
    upstream: Dialect = Dialect.CHAT,
    base: str = "compatible",
    knobs: Knobs | None = None,
    *,
    flags: Json,
    **fields: Any,
) -> tuple[Json, dict[LossCode, int]]:
    """The body that a Messages client's request becomes with these flags, and its losses."""
    return ask_of(Dialect.MESSAGES, upstream, base, knobs, flags=flags, **fields)


def ask_of(
    client: Dialect, upstream: Dialect, base: str, knobs: Knobs | None = None, *, flags: Json, **fields: Any
) -> tuple[Json, dict[LossCode, int]]:
    """The body that a request of any dialect becomes with these flags, and its losses."""
    translation = translate(
        direction(client, upstream),
        json.dumps(samples.request(client, **fields)).encode(),
        profile=builtin_profile(upstream, base).replace(flags),
        knobs=knobs or Knobs(),
    )
    return json.loads(translation.body), translation.losses.counts

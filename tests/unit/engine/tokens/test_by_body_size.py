"""The estimate from the size of a body."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.request import Request
from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.directions import DIRECTIONS
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.losses import Losses
from dragoman.tokens.by_body_size import by_body
from dragoman.tokens.by_characters import by_characters
from dragoman.tokens.counter import Counter
from dragoman.translate_request import translate
from dragoman.wire.json_codec import dumps, loads
from support.paths import FIXTURES

EXACT = json.loads((Path(__file__).parent / "exact.json").read_text("utf-8"))
DIALECTS = {"anthropic": Dialect.MESSAGES, "chat": Dialect.CHAT, "responses": Dialect.RESPONSES}


@cache
def recorded(name: str) -> tuple[Dialect, Any]:
    """A recorded request: its dialect and body."""
    record = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))
    body: Any = record["request"]["body"]
    dialect = DIALECTS[record["dialect"]]
    if dialect is Dialect.MESSAGES:
        body.setdefault("max_tokens", 1)
    return dialect, body


def read(dialect: Dialect, body: Any) -> Request:
    request: Request = CODECS[dialect].read_request(body, Losses(), DEFAULT_KNOBS)
    return request


@pytest.mark.parametrize("upstream", [Dialect.CHAT, Dialect.RESPONSES])
def test_the_guess_from_the_body_is_within_a_sixth_of_the_estimate_for_agents(upstream: Dialect) -> None:
    """Those for whom it is shown: clients of Messages before another upstream."""
    counter, seen = Counter(by_characters), 0
    for name, exact in EXACT["requests"].items():
        dialect, body = recorded(name)
        if dialect is not Dialect.MESSAGES or exact < 500:
            continue
        sent = translate(DIRECTIONS[dialect, upstream], dumps(body)).body
        request = read(upstream, loads(sent))
        assert 0.83 < by_body(request, sent, upstream) / counter.request(request, upstream) < 1.17, name
        seen += 1
    assert seen > 20

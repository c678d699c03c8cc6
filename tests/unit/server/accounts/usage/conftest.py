"""Records of exchanges for the tests of usage."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from dragoman import Dialect, LossCode, Usage
from dragoman_server.observability.exchange_record import ExchangeRecord

MakeRecord = Callable[..., ExchangeRecord]


@pytest.fixture
def record() -> MakeRecord:
    """Makes the record of an exchange; fields may be given."""

    def make(number: int = 1, **fields: Any) -> ExchangeRecord:
        given: dict[str, Any] = {
            "request_id": f"req_{number}",
            "client": Dialect.CHAT,
            "ended": "completed",
            "status": 200,
            "principal": None,
            "model": "m",
            "provider": "p",
            "upstream": Dialect.MESSAGES,
            "upstream_model": "claude",
            "route": "*",
            "client_profile": None,
            "stream": True,
            "created": 1_790_000_000 + number,
            "duration": 1.23456,
            "first_event": 0.5,
            "usage": Usage(input_total=100, cache_read=10, cache_write=None, output_total=7, reasoning=3),
            "estimated": (),
            "losses": {LossCode.CITATIONS: 1},
            "error_kind": None,
            "error_origin": None,
            "error_code": None,
            "key": "team",
            "cost": Decimal("0.000123"),
        }
        return ExchangeRecord(**given | fields)

    return make

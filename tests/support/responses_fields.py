"""Fields of a Responses request, and the result of reading them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.request import Request
from dragoman.dialects.responses.request.read import read_request
from dragoman.errors import ClientRequestError
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses


def read(**fields: Any) -> tuple[Request, list[tuple[LossCode, str]]]:
    losses = Losses()
    request = read_request({"model": "m", "input": "hi", **fields}, losses, Knobs())
    return request, [(row.code, row.path) for row in losses.rows]


def refused(**fields: Any) -> ClientRequestError:
    with pytest.raises(ClientRequestError) as caught:
        read(**fields)
    return caught.value


def param(**fields: Any) -> str | None:
    return refused(**fields).failure.param

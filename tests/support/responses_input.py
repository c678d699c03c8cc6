"""Items of a Responses request, and the parts that the reader makes of them."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json, Request
from dragoman.dialects.responses.request.read import read_request
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses

USER: Json = {"role": "user", "content": "hi"}
ASSISTANT: Json = {"role": "assistant", "content": "said"}
REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "blob"}


def call(call_id: str, **more: Any) -> Json:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "f", "arguments": "{}", **more}


def output(call_id: str, content: Any = "ok", **more: Any) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": content, **more}


def read(*items: Any, **fields: Any) -> tuple[Request, list[tuple[LossCode, str]]]:
    losses = Losses()
    request = read_request({"model": "m", "input": list(items), **fields}, losses, Knobs())
    return request, [(row.code, row.path) for row in losses.rows]


def part(item: Json) -> Any:
    request, rows = read(item)
    assert rows == []
    (turn,) = request.turns
    (only,) = turn.parts
    return only


def shape(request: Request) -> list[tuple[str, list[str]]]:
    return [(turn.role, [type(part).__name__ for part in turn.parts]) for turn in request.turns]

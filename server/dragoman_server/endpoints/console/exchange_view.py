"""One exchange in detail: its row, its receipt, its cost, and the recording of its stream if there is one."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from dragoman import DragomanError
from dragoman.errors import FailureKind
from dragoman.wire import Json
from dragoman_server.endpoints.console.captured import CaptureReader, captured_view
from dragoman_server.endpoints.console.recorder import Recorder
from dragoman_server.endpoints.console.rows import row_of
from dragoman_server.proxy.error_response import client_failure
from dragoman_server.proxy.gateway import Gateway


async def exchange_view(
    gateway: Gateway, recorder: Recorder, request_id: str, captures: CaptureReader | None = None
) -> Json:
    """Return an exchange of any worker, with its capture if there is one, which all workers can read.

    Raises DragomanError (404) if no worker has its receipt.
    """
    view = own_view(gateway, recorder, request_id)
    if view is None and (siblings := gateway.siblings) is not None:
        answers = await siblings.console({"kind": "exchange", "id": request_id})
        view = next((answer["view"] for answer in answers if answer.get("view")), None)
    if view is None:
        kept = gateway.config.server.receipts
        message = f"there is no exchange {request_id[:100]!a}; those of the last {kept} requests are kept"
        raise DragomanError(client_failure(FailureKind.NOT_FOUND, message, 404))
    captured = None
    if captures is not None:
        captured = await asyncio.to_thread(captured_view, captures, request_id)  # it reads a file
    return {**view, "capture": captured}


def own_view(gateway: Gateway, recorder: Recorder, request_id: str) -> Json | None:
    """Return an exchange of this worker, or None."""
    receipt = gateway.receipts.of_any_client(request_id)
    if receipt is None:
        return None
    facts = receipt.facts
    cost_of = gateway.services.instruments.usage.cost
    cost = cost_of(facts.usage, facts.upstream_model, receipt.provider, facts.service) if facts is not None else None
    recording = recorder.get(request_id)
    view: dict[str, Any] = {
        "row": row_of(receipt, gateway.metrics.seconds),
        "receipt": orjson.Fragment(receipt.json()),
        "cost": str(cost) if cost is not None else None,
        "recording": recording.json() if recording is not None else None,
    }
    return view

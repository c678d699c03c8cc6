"""One exchange in detail: its row, its receipt, its cost, and the recording of its stream if there is one."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from dragoman import DragomanError
from dragoman.errors import FailureKind
from dragoman.threads import StoreError
from dragoman.wire import Json
from dragoman_server.endpoints.console.captured import captured_view
from dragoman_server.endpoints.console.recorder import Recorder
from dragoman_server.endpoints.console.row_notes import RowNotes
from dragoman_server.endpoints.console.rows import row_of
from dragoman_server.endpoints.hosts.stored_receipts import unavailable
from dragoman_server.observability.captures.store import CaptureStore
from dragoman_server.proxy.error_response import client_failure
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.hosts.shared_hosts import SharedHosts
from dragoman_server.receipt import Receipt


async def exchange_view(
    gateway: Gateway, recorder: Recorder, request_id: str, captures: CaptureStore | None = None
) -> Json:
    """Return an exchange of any worker, with its capture if there is one, which all workers can read.

    Raises DragomanError (404) if no worker and no other host has its receipt, and (503) if the store does not answer.
    """
    view = own_view(gateway, recorder, request_id)
    if view is None and (siblings := gateway.siblings) is not None:
        answers = await siblings.console({"kind": "exchange", "id": request_id})
        view = next((answer["view"] for answer in answers if answer.get("view")), None)
    if view is None and gateway.hosts is not None:
        view = await _at_other_host(gateway.hosts, request_id)
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
    recording = recorder.get(request_id)
    row = {**row_of(receipt, gateway.metrics.seconds), "host": gateway.host}
    RowNotes(gateway, recorder).add([row])
    view = receipt_view(gateway, receipt, row, orjson.Fragment(receipt.json(gateway.host)))
    return {**view, "recording": recording.json() if recording is not None else None}


async def _at_other_host(hosts: SharedHosts, request_id: str) -> Json | None:
    """Return an exchange of another host, or None. One that is open there is written by that host first."""
    try:
        view = await hosts.receipt(request_id)
        if (view is None or view["row"]["state"] == "open") and await hosts.feed.ask(request_id):
            view = await hosts.receipt(request_id)
    except StoreError as error:
        raise unavailable(error) from None
    return view


def receipt_view(gateway: Gateway, receipt: Receipt, row: Json, shown: Any) -> Json:
    """Return what is shown of an exchange of this worker, without the recording of its stream.

    `row` is its row, and `shown` its receipt.
    """
    facts = receipt.facts
    cost_of = gateway.services.instruments.usage.cost
    cost = cost_of(facts.usage, facts.upstream_model, receipt.provider, facts.service) if facts is not None else None
    view: dict[str, Any] = {"row": row, "receipt": shown, "cost": str(cost) if cost is not None else None}
    return view

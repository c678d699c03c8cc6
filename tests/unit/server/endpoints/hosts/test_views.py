"""The views that a process stores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.endpoints.hosts.views import OPEN_MAX, VIEW_BYTES, HostViews
from dragoman_server.receipt import Receipt
from support.gateways import CHAT, MESSAGES, config_for, gate, served
from support.model_server import model_server


async def test_a_receipt_is_stored_with_its_row(tmp_path: Path) -> None:
    options = StoreOptions("sqlite", path=str(tmp_path / "x.db"), keys=False, timeout=10.0)
    async with served(model_server("m")) as (upstream, _):
        config = replace(config_for(upstream, CHAT, name="gw-1"), store=options)
        async with gate(config) as up:
            async with up.post(MESSAGES, model="m", top_k=3) as response:
                await response.read()
            hosts = up.gateway.hosts
            assert hosts is not None
            (receipt,) = up.gateway.receipts.newest()
            views = HostViews(up.gateway, hosts, lambda request_id: {"of": request_id})
            stored, row_of_it = views.stored(receipt)
            view, summary = json.loads(stored.view), json.loads(stored.summary)
            assert (stored.id, stored.owner) == (receipt.request_id, "")
            assert view["receipt"]["losses"][0]["code"] == "top_k"
            assert "losses" not in summary
            assert {view["row"]["host"], view["receipt"]["host"], summary["host"]} == {"gw-1"}
            assert view["recording"] == {"of": receipt.request_id}
            assert "process" not in view["row"]
            row = json.loads(row_of_it)
            assert (row["id"], row["process"], row["tokens_out"]) == (receipt.request_id, hosts.process, 9)
            assert json.loads(views.state())["host"] == "gw-1"
            assert views.find(receipt.request_id) is receipt
            assert views.find("req_x") is None


async def test_a_long_receipt_is_shortened(tmp_path: Path) -> None:
    options = StoreOptions("sqlite", path=str(tmp_path / "x.db"), keys=False, timeout=10.0)
    async with gate(replace(config_for("http://127.0.0.1:9/v1", CHAT), store=options)) as up:
        hosts = up.gateway.hosts
        assert hosts is not None
        receipt = Receipt("req_1", CHAT, 0, ended="completed")
        long = {"frames": "x" * VIEW_BYTES}
        stored = json.loads(HostViews(up.gateway, hosts, lambda _: long).stored(receipt)[0].view)
        assert stored["recording"] is None
        assert "shortened" not in stored["receipt"]
        receipt.cache = {"x": "y" * VIEW_BYTES}
        data = HostViews(up.gateway, hosts, lambda _: long).stored(receipt)[0].view
        assert len(data) < VIEW_BYTES
        assert json.loads(data)["receipt"]["shortened"] is True


async def test_the_newest_open_requests(tmp_path: Path) -> None:
    options = StoreOptions("sqlite", path=str(tmp_path / "x.db"), keys=False, timeout=10.0)
    async with gate(replace(config_for("http://127.0.0.1:9/v1", CHAT), store=options)) as up:
        hosts = up.gateway.hosts
        assert hosts is not None
        for number in range(2 * OPEN_MAX + 10):
            ended = "open" if number % 2 else "completed"
            up.gateway.receipts.file(Receipt(f"req_{number}", CHAT, number, ended=ended))
        rows = json.loads(HostViews(up.gateway, hosts, lambda _: None).open_rows())
        assert len(rows) == OPEN_MAX
        assert rows[0]["id"] == f"req_{2 * OPEN_MAX + 9}"
        assert {row["state"] for row in rows} == {"open"}

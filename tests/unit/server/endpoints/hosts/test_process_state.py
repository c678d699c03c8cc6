"""The state of one process."""

from __future__ import annotations

import json
from dataclasses import replace

from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.endpoints.hosts.process_state import ProcessStates
from support.gateways import CHAT, MESSAGES, config_for, gate, served
from support.model_server import model_server
from support.named_keys import made, with_keys


async def test_the_state_of_a_gateway() -> None:
    key, alice = made("alice", admin=True)
    async with served(model_server("m")) as (upstream, _):
        config = with_keys(config_for(upstream, CHAT, name="gw-1", keys=("secret-key",)), alice)
        async with gate(config) as up:
            async with up.post(MESSAGES, model="m", headers={"x-api-key": key}) as response:
                await response.read()
            states = ProcessStates(up.gateway)
            state = states.state()
            assert (state["host"], state["requests"], state["errors"], state["open_requests"]) == ("gw-1", 1, 0, 0)
            assert state["tokens"] == 14
            assert [(each["name"], each["state"]) for each in state["providers"]] == [("up", "working")]
            assert state["stores"]["limits"] == {"kind": "memory", "state": "ok"}
            text = json.dumps(state)
            assert key not in text
            assert "secret-key" not in text
            up.gateway.reconfigure(replace(config, models=replace(config.models, small="m")))
            assert states.state()["configuration"] != state["configuration"]
            up.gateway.leave()
            assert (states.state()["leaving"], states.state()["reasons"]) == (True, ["draining"])


async def test_stores_that_are_shared(tmp_path: object) -> None:
    options = StoreOptions("sqlite", path=f"{tmp_path}/dragoman.db", timeout=10.0)
    async with gate(replace(config_for("http://127.0.0.1:9/v1", CHAT), store=options)) as up:
        stores = ProcessStates(up.gateway).state()["stores"]
        assert stores["limits"] == stores["hosts"] == {"kind": "sqlite", "state": "ok"}

"""`GET /ready`: when a balancer should send requests elsewhere."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from typing import Any

import pytest

from dragoman import DragomanError, Failure
from dragoman.errors import FailureKind
from dragoman.threads import StoreError
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.config.overload import Overload
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.state_options import StateOptions
from dragoman_server.endpoints.readiness import Readiness
from dragoman_server.observability.metric_families import REQUESTS, UPSTREAM_ERRORS
from dragoman_server.routing.outcomes import ANSWERED, AttemptOutcome, outcome_of_error, outcome_of_status
from dragoman_server.routing.plan import Candidate
from support.exposed import read_exposition, total
from support.fleet import fleet
from support.gateways import CHAT, Gate, config_for, gate, until
from support.named_keys import made, with_keys
from support.samples import text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, Wait, chunk, sse_head

CONFIG = config_for("http://127.0.0.1:9/v1", CHAT)
READY: dict[str, Any] = {"ready": True, "reasons": [], "warnings": []}


async def asked(entrance: Gate, query: str = "", **headers: str) -> tuple[int, Any, dict[str, str]]:
    """Status, body and headers."""
    async with entrance.session.get(f"{entrance.url}/ready{query}", headers=headers) as response:
        assert response.content_type == "application/json"
        return response.status, json.loads(await response.read()), {k.lower(): v for k, v in response.headers.items()}


async def test_a_gateway_that_serves_is_ready() -> None:
    config = replace(CONFIG, server=replace(CONFIG.server, keys=(Secret("key-of-the-gateway"),), allowed_hosts=()))
    async with gate(config) as entrance:
        status, body, headers = await asked(entrance, origin="https://evil.example", host="evil.example")
        assert (status, body) == (200, READY)
        assert headers["cache-control"] == "no-store"
        async with entrance.session.head(f"{entrance.url}/ready") as response:
            assert response.status == 200


async def test_a_gateway_without_free_descriptors_is_not_ready() -> None:
    async with gate(CONFIG) as entrance:
        descriptors = entrance.gateway.services.instruments.descriptors
        descriptors.exhausted = True
        assert Readiness(entrance.gateway).state() == (["no_descriptors"], [])


async def test_a_gateway_that_stops_is_not_ready_while_its_streams_end() -> None:
    resume = asyncio.Event()
    frames = [Send(chunk(frame)) for frame in text_stream(CHAT)]
    script: list[Step] = [Send(sse_head()), *frames[:3], Wait(resume), *frames[3:], Send(LAST_CHUNK)]
    async with ScriptedServer(script) as server, gate(config_for(server.url, CHAT)) as entrance:
        reply = await entrance.post(CHAT, stream=True)
        stopping = asyncio.create_task(entrance.gateway.stop(30))
        await until(lambda: entrance.gateway.stopping)
        status, body, headers = await asked(entrance)
        assert (status, body) == (503, {"ready": False, "reasons": ["draining"], "warnings": []})
        assert headers["retry-after"] == "5"
        resume.set()
        assert (await reply.read()).endswith(b"data: [DONE]\n\n")
        await stopping


@pytest.mark.parametrize("bound", ["memory", "open_requests"])
async def test_a_gateway_at_a_bound_is_not_ready(bound: str) -> None:
    overload = Overload(memory=1) if bound == "memory" else Overload(open_requests=1)
    async with gate(replace(CONFIG, server=replace(CONFIG.server, overload=overload))) as entrance:
        load = entrance.gateway.services.instruments.load
        load.stop()
        load.measure()
        if bound == "open_requests":
            assert (await asked(entrance))[0] == 200
            load._open_requests = lambda: 1
        assert (await asked(entrance))[:2] == (503, {"ready": False, "reasons": [bound], "warnings": []})


@pytest.mark.parametrize(("policy", "status"), [("open", 200), ("closed", 503)])
async def test_a_store_that_is_away(policy: str, status: int) -> None:
    _, record = made(requests_per_minute=5)
    async with gate(with_keys(CONFIG, record, store=StoreOptions(on_failure=policy))) as entrance:
        accounts = entrance.gateway.services.named_keys.accounts
        assert accounts is not None
        assert (await asked(entrance))[1] == READY
        for task in accounts._tasks:
            task.cancel()
        accounts._guard.healthy = False
        where = "warnings" if policy == "open" else "reasons"
        assert (await asked(entrance))[:2] == (
            status,
            {**READY, "ready": status == 200, where: ["store_unavailable"]},
        )
        assert (await asked(entrance, "?strict"))[:2] == (
            503,
            {"ready": False, "reasons": ["store_unavailable"], "warnings": []},
        )
        accounts._guard.healthy = True


async def test_a_store_of_responses_that_fails_is_a_warning() -> None:
    async with gate(replace(CONFIG, state=StateOptions(kind="memory"))) as entrance:
        stored = entrance.gateway.services.responses.stored
        assert stored is not None
        assert (await asked(entrance))[1] == READY

        async def away(*_: object) -> int:
            raise StoreError("Redis did not answer")

        store: Any = stored._store
        expire, store.expire, store.get = store.expire, away, away
        with pytest.raises(DragomanError):
            await stored.get("k", "a")
        assert (await asked(entrance))[:2] == (200, {**READY, "warnings": ["state_unavailable"]})
        strict = {"ready": False, "reasons": ["state_unavailable"], "warnings": []}
        assert (await asked(entrance, "?strict"))[:2] == (503, strict)
        async with entrance.session.get(f"{entrance.url}/metrics") as response:
            found = read_exposition(await response.read())
        assert total(found, "dragoman_state_up") == 0
        assert total(found, "dragoman_state_errors_total", operation="get") == 1
        store.expire = expire  # it finds out by itself that the store answers
        await until(lambda: not stored.unavailable)
        assert (await asked(entrance))[1] == READY


async def test_keys_that_could_not_be_read_make_it_unready() -> None:
    _, record = made()
    async with gate(with_keys(CONFIG, record)) as entrance:
        accounts = entrance.gateway.services.named_keys.accounts
        assert accounts is not None
        accounts._guard.healthy = False
        accounts.keys._reader.known = False
        assert (await asked(entrance))[0] == 503
        accounts.keys._reader.known = True
        assert (await asked(entrance))[0] == 200
        accounts._guard.healthy = True


async def test_providers_that_are_down_are_warnings() -> None:
    other = Provider("secret-name", CHAT, "http://127.0.0.1:9/v1")
    async with gate(replace(CONFIG, providers={**CONFIG.providers, "secret-name": other})) as entrance:
        gateway = entrance.gateway
        totals, health = gateway.metrics.totals, gateway.services.instruments.provider_health

        def fail(provider: str) -> None:
            totals.add(UPSTREAM_ERRORS, (provider, "upstream_unreachable"), 3)
            health.compare(health._clock())

        fail("of an older configuration")
        assert (await asked(entrance))[1] == READY
        fail("secret-name")
        for query in ("", "?strict"):
            assert (await asked(entrance, query))[:2] == (200, {**READY, "warnings": ["some_providers_down"]})
        fail("up")
        assert (await asked(entrance))[:2] == (200, {**READY, "warnings": ["all_providers_down"]})
        assert (await asked(entrance, "?strict"))[:2] == (
            503,
            {"ready": False, "reasons": ["all_providers_down"], "warnings": []},
        )
        totals.add(REQUESTS, ("chat", "up", "*", "completed", "2xx"))
        health.compare(health._clock())
        assert Readiness(gateway).state() == ([], ["some_providers_down"])


OUT_OF_CREDIT = Failure(FailureKind.BILLING, "the account is empty", 400)


async def test_providers_that_pause_are_warnings() -> None:
    """It stays ready, also if a route has no provider left: another gateway would have the same ones."""
    other = Provider("secret-name", CHAT, "http://127.0.0.1:9/v1")
    routes = [Route("a", "up"), Route("*", targets=(RouteTarget("up"), RouteTarget("secret-name")))]
    async with gate(replace(CONFIG, providers={**CONFIG.providers, "secret-name": other}, routes=routes)) as entrance:
        routing, providers = entrance.gateway.services.routing, entrance.gateway.config.providers

        def end(name: str, outcome: AttemptOutcome, times: int = 1) -> None:
            candidate = Candidate(providers[name], "m")
            for _ in range(times):
                routing.begin(candidate)
                routing.end(candidate, outcome)

        async def expect(*warnings: str) -> None:
            for query in ("", "?strict"):
                assert (await asked(entrance, query))[:2] == (200, {**READY, "warnings": list(warnings)})

        end("secret-name", outcome_of_status(500), 5)
        await expect("some_providers_paused")
        end("secret-name", ANSWERED)
        await expect()
        end("up", outcome_of_status(500), 5)
        await expect("some_providers_paused", "route_without_provider")
        end("secret-name", outcome_of_status(500), 5)
        await expect("all_providers_paused", "route_without_provider")
        end("up", ANSWERED)
        end("secret-name", ANSWERED)
        end("up", outcome_of_error(OUT_OF_CREDIT))
        await expect("provider_without_credit")
        end("secret-name", outcome_of_status(401))
        await expect("provider_without_credit", "provider_key_refused")
        end("up", outcome_of_status(400))
        await expect("provider_key_refused")
        end("secret-name", outcome_of_status(429))
        await expect("provider_key_refused")
        end("secret-name", ANSWERED)
        await expect()


async def test_errors_that_one_client_may_cause_are_no_reason() -> None:
    async with gate(CONFIG) as entrance:
        gateway = entrance.gateway
        totals, health = gateway.metrics.totals, gateway.services.instruments.provider_health
        for kind in ("api", "timeout", "overloaded"):
            totals.add(UPSTREAM_ERRORS, ("up", kind), 3)
        health.compare(health._clock())
        for query in ("", "?strict"):
            assert (await asked(entrance, query))[:2] == (200, {**READY, "warnings": ["all_providers_down"]})
        totals.add(UPSTREAM_ERRORS, ("up", "upstream_unreachable"), 3)
        health.compare(health._clock())
        assert (await asked(entrance, "?strict"))[0] == 503


async def test_workers_answer_without_a_key_until_they_stop() -> None:
    async with fleet("--simulate") as up:
        for _ in range(6):
            assert await up.get("/ready") == (200, b'{"ready":true,"reasons":[],"warnings":[]}')
        up.signal(signal.SIGTERM)
        assert await up.command.ends() == 0

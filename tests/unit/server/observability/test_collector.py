"""The metrics in the registry of an application that embeds the gateway."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dragoman_server.observability.collector import GatewayCollector
from dragoman_server.observability.metric_families import FAMILIES, Kind
from dragoman_server.observability.prometheus import exposition
from support.gateways import CHAT, config_for, gate
from support.samples import dump, reply, text_stream
from support.sockets import ScriptedServer, answer, stream

MOVING = {"dragoman_process_cpu_seconds_total", "dragoman_process_resident_memory_bytes", "dragoman_process_open_fds"}
"""Numbers that differ between two readings."""


def samples(page: bytes) -> dict[object, float]:
    """The numbers of a page, as prometheus_client reads it."""
    families = text_string_to_metric_families(page.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name not in MOVING
    }


async def test_a_registry_has_the_numbers_of_the_page() -> None:
    script = (stream(text_stream(CHAT)), answer(200, dump(reply(CHAT))))
    async with ScriptedServer(*script) as server, gate(config_for(server.url, CHAT)) as entrance:
        registry = CollectorRegistry()
        registry.register(GatewayCollector(entrance.gateway))
        await entrance.stream(CHAT)
        async with entrance.post(CHAT) as response:
            assert response.status == 200
        entrance.gateway.services.instruments.load.stop()
        own = exposition(entrance.gateway.metrics.alone())
        # In another thread, as prometheus_client's own server collects.
        theirs = await asyncio.to_thread(generate_latest, registry)
    assert samples(theirs) == samples(own)
    assert b'dragoman_first_event_seconds_bucket{client="chat",le="600",provider="up"} 1.0' in theirs
    assert all(name.encode() in theirs for name in MOVING)


async def test_a_registry_takes_one_gateway() -> None:
    async with gate(config_for("http://127.0.0.1:9", CHAT)) as entrance:
        registry = CollectorRegistry()
        registry.register(GatewayCollector(entrance.gateway))
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            registry.register(GatewayCollector(entrance.gateway))


async def test_every_family_is_described() -> None:
    async with gate(config_for("http://127.0.0.1:9", CHAT)) as entrance:
        described = {metric.name: metric.type for metric in GatewayCollector(entrance.gateway).describe()}
    assert described == {
        name.removesuffix("_total") if family.kind is Kind.COUNTER else name: family.kind.value
        for name, family in FAMILIES.items()
    }

"""The state of this process, as `GET /v1/dragoman/status` adds it up with those of others."""

from __future__ import annotations

import os
from typing import Final

from dragoman.wire import Json
from dragoman_server.config.fingerprint import fingerprint
from dragoman_server.endpoints.console.health import provider_states
from dragoman_server.endpoints.readiness import Readiness
from dragoman_server.observability import metric_families as families
from dragoman_server.observability.installed_version import installed_version, revision
from dragoman_server.observability.metric_families import Family, Totals
from dragoman_server.proxy.gateway import Gateway

PROVIDERS_MAX: Final = 50
"""Most providers of a state."""
OK, UNAVAILABLE = "ok", "unavailable"


class ProcessStates:
    """Makes the states of one process."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._version, self._revision = installed_version(), revision()
        self._config: object = None
        self._fingerprint = ""

    def state(self) -> Json:
        """Return the state. It has names of the configuration, and no secret."""
        gateway = self._gateway
        config = gateway.config
        if config is not self._config:
            self._config, self._fingerprint = config, fingerprint(config)
        totals = gateway.metrics.snapshot()
        reasons, warnings = Readiness(gateway).state()
        tokens = totals.series(families.TOKENS)
        return {
            "host": gateway.host,
            "gateway": gateway.id,
            "pid": os.getpid(),
            "version": self._version,
            "revision": self._revision,
            "configuration": self._fingerprint,
            "started": int(gateway.metrics.started),
            "leaving": gateway.leaving,
            "open_requests": gateway.metrics.open_requests,
            "open_streams": int(_sum(totals, families.OPEN_STREAMS)),
            "requests": int(_sum(totals, families.REQUESTS)),
            "errors": int(_sum(totals, families.UPSTREAM_ERRORS)),
            "tokens": int(sum(value[0] for labels, value in tokens.items() if labels[1] in ("input", "output"))),
            "reasons": reasons,
            "warnings": warnings,
            "stores": self._stores(),
            "providers": [_provider(each) for each in provider_states(gateway, totals)[:PROVIDERS_MAX]],
        }

    def _stores(self) -> Json:
        """Return the kind and the health of each store that is configured."""
        gateway = self._gateway
        services, config = gateway.services, gateway.config
        found: Json = {}
        if services.named_keys.accounts is not None:
            found["limits"] = _store(config.store.kind, services.named_keys.unavailable)
        if services.responses.stores:
            found["responses"] = _store(services.responses.options.kind, services.responses.unavailable)
        if gateway.hosts is not None:
            found["hosts"] = _store(config.store.kind, bool(gateway.hosts.failure))
        return found


def _store(kind: str, unavailable: bool) -> Json:
    return {"kind": kind, "state": UNAVAILABLE if unavailable else OK}


def _provider(state: Json) -> Json:
    return {name: state[name] for name in ("name", "state", "requests", "errors", "queued")}


def _sum(totals: Totals, family: Family) -> float:
    return sum(value[0] for value in totals.series(family).values())

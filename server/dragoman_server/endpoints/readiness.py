"""`GET /ready`: whether a balancer should send new requests to this process."""

from __future__ import annotations

from aiohttp import web

from dragoman.wire import Json, json_dumps
from dragoman_server.accounts.store.options import CLOSED
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.load_shedding import RETRY_AFTER
from dragoman_server.routing.refused_keys import NO_CREDIT, UNAUTHORIZED

DRAINING, STORE, STATE = "draining", "store_unavailable", "state_unavailable"
LOST = "store_lost"
BOUNDS = "bounds_not_shared"
USAGE = "usage_unavailable"
CREDENTIAL = "credential_unavailable"
SOME_DOWN, ALL_DOWN = "some_providers_down", "all_providers_down"
SOME_PAUSED, ALL_PAUSED = "some_providers_paused", "all_providers_paused"
DESCRIPTORS = "no_descriptors"
ROUTE_PAUSED = "route_without_provider"
_REFUSED = ((NO_CREDIT, "provider_without_credit"), (UNAUTHORIZED, "provider_key_refused"))
_ADVICE = {
    LOST: "the store has lost keys: restore its data, or add the keys anew with `dragoman keys add` and restart the"
    " gateways; keys that were read before stay valid until then",
}
"""The advice for a reason or a warning."""
_STRICT = frozenset((STORE, STATE, ALL_DOWN))
"""Warnings that are reasons with `?strict`."""


class Readiness:
    """The endpoint of one gateway. It needs no key, so its response has no names of the configuration.

    With several workers, each connection is answered for by the worker that accepted it.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get(self, request: web.Request) -> web.Response:
        """Return 200 if new requests can be answered, else 503; the body lists the reasons, and warnings.

        With `?strict`, failures of what all processes share are reasons too: of the stores, and of all providers if
        none can be reached.
        """
        gateway = self._gateway
        reasons, warnings = self.state()
        if "strict" in request.query:
            strict = _STRICT
            if not gateway.config.providers.keys() <= gateway.services.instruments.provider_health.unreachable():
                strict -= {ALL_DOWN}  # the errors of one client must not remove the gateway from its balancer
            reasons += [warning for warning in warnings if warning in strict]
            warnings = [warning for warning in warnings if warning not in strict]
        body: Json = {"ready": not reasons, "reasons": reasons, "warnings": warnings}
        if advice := {name: _ADVICE[name] for name in (*reasons, *warnings) if name in _ADVICE}:
            body["advice"] = advice
        headers = {"cache-control": "no-store"}
        if reasons:
            headers["retry-after"] = RETRY_AFTER
        return web.Response(
            status=503 if reasons else 200, body=json_dumps(body), content_type="application/json", headers=headers
        )

    def state(self) -> tuple[list[str], list[str]]:
        """Return the reasons for which the gateway is not ready, and the warnings."""
        gateway = self._gateway
        config = gateway.config
        reasons: list[str] = []
        warnings: list[str] = []
        if gateway.leaving:
            reasons.append(DRAINING)
        if (exceeded := gateway.services.instruments.load.reason(1)) is not None:
            reasons.append(exceeded)
        if gateway.services.instruments.descriptors.exhausted:
            reasons.append(DESCRIPTORS)
        if gateway.services.named_keys.unavailable:
            # With `open` the gateway serves without limits. An error 503 would turn the store's failure into its own.
            closed = config.store.on_failure == CLOSED or not gateway.services.named_keys.keys_known
            (reasons if closed else warnings).append(STORE)
        elif gateway.services.named_keys.keys_unavailable:
            (warnings if gateway.services.named_keys.keys_known else reasons).append(STORE)
        if gateway.services.named_keys.keys_lost:
            warnings.append(LOST)
        if gateway.bounds_apart:
            warnings.append(BOUNDS)
        if gateway.services.responses.unavailable:
            warnings.append(STATE)  # requests that name no stored response are answered
        if gateway.services.instruments.usage.failing:
            warnings.append(USAGE)  # rows wait in memory, and requests are sent without an entry in the journal
        credentials = gateway.services.upstream.credentials
        if credentials is not None and credentials.failing:
            warnings.append(CREDENTIAL)
        if down := gateway.services.instruments.provider_health.down() & config.providers.keys():
            warnings.append(ALL_DOWN if len(down) == len(config.providers) else SOME_DOWN)
        warnings += self._pauses()
        return reasons, warnings

    def _pauses(self) -> list[str]:
        """Return the warnings of providers that get no requests, or only few, because they failed or refuse a key."""
        config, routing = self._gateway.config, self._gateway.services.routing
        warnings = []
        if paused := routing.paused() & config.providers.keys():
            warnings.append(ALL_PAUSED if len(paused) == len(config.providers) else SOME_PAUSED)
            if any(paused.issuperset(route.provider_names) for route in config.routes):
                warnings.append(ROUTE_PAUSED)
        refused = routing.refused.words(config.providers)
        return warnings + [warning for word, warning in _REFUSED if word in refused]

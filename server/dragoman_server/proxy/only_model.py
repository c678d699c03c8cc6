"""The only model of an upstream, for `dragoman serve --base-url`: requests for any name get it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dragoman.gateway import quote

if TYPE_CHECKING:
    from dragoman_server.proxy.gateway import Gateway

log = logging.getLogger("dragoman")

RETRY, RETRY_MAX = 2.0, 30.0
"""Seconds before an upstream that cannot be reached is tried again; they double each time, up to the second number."""
SHOWN_MAX = 20
"""Most models in the log."""


async def find_only_model(gateway: Gateway) -> None:
    """List the models of the gateway's only upstream, and route all requests to its model if there is only one.

    It tries again until the upstream can be reached. Several models are logged, and names stay as they are.
    """
    (provider,) = gateway.config.providers.values()
    pause = RETRY
    while (models := await gateway.known_models.fetched(provider)) is None:
        await asyncio.sleep(pause)
        pause = min(2 * pause, RETRY_MAX)
    if not gateway.config.only_model:
        return  # it was reconfigured meanwhile
    names = [quote(model.name) for model in models[:SHOWN_MAX]]
    if len(models) == 1:
        log.info("provider %s has one model, %s: requests for any name get it", provider.name, names[0])
        gateway.reconfigure(gateway.config.with_only_model(models[0].name))
    elif names:
        more = f" and {len(models) - SHOWN_MAX} more" if len(models) > SHOWN_MAX else ""
        advice = "--model NAME sends all requests to one of them"
        log.info("provider %s has the models %s%s; %s", provider.name, ", ".join(names), more, advice)

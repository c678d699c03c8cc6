"""The only model of an upstream, for `dragoman serve --base-url`: requests for any name get it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from dragoman.gateway import quote
from dragoman_server.config.schema import Config
from dragoman_server.services import Services

log = logging.getLogger("dragoman")

RETRY, RETRY_MAX = 2.0, 30.0
"""Seconds before an upstream that cannot be reached is tried again; they double each time, up to the second number."""
SHOWN_MAX = 20
"""Most models in the log."""


async def find_only_model(services: Services, reconfigure: Callable[[Config], None]) -> None:
    """List the models of the gateway's only upstream, and route all requests to its model if there is only one.

    `reconfigure` is that of the gateway. It tries again until the upstream can be reached. Several models are logged,
    and names stay as they are.
    """
    (provider,) = services.config.providers.values()
    pause = RETRY
    while (models := await services.known_models.fetched(provider)) is None:
        await asyncio.sleep(pause)
        pause = min(2 * pause, RETRY_MAX)
    if not services.config.only_model:
        return  # it was reconfigured meanwhile
    names = [quote(model.name) for model in models[:SHOWN_MAX]]
    if len(models) == 1:
        log.info("provider %s has one model, %s: requests for any name get it", provider.name, names[0])
        reconfigure(services.config.with_only_model(models[0].name))
    elif names:
        more = f" and {len(models) - SHOWN_MAX} more" if len(models) > SHOWN_MAX else ""
        advice = "--model NAME sends all requests to one of them"
        log.info("provider %s has the models %s%s; %s", provider.name, ", ".join(names), more, advice)

"""Serving of a configured gateway in this process until a signal, with the simulated upstream if it is configured."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from dragoman.aio import HijackRunner, Transport
from dragoman_server.app import make_app
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.lint import warn_if_exposed
from dragoman_server.config.schema import Config, Server
from dragoman_server.observability.aiohttp_log import ServerLog
from dragoman_server.observability.logs import name_host
from dragoman_server.observability.metric_families import RELOADS
from dragoman_server.observability.metrics import Metrics
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.unhandled_requests import connection_limits
from dragoman_server.workers.listeners import Listeners
from dragoman_server.workers.old_objects import collected_rarely
from dragoman_server.workers.stop_lines import print_leaving, print_stopped, print_stopping
from dragoman_server.workers.systemd import notify

log = logging.getLogger("dragoman")

T = TypeVar("T")
DRAIN = 10.0
"""Seconds that open replies have to end when the gateway stops."""


@dataclass(frozen=True, slots=True)
class Running:
    """A listening gateway. `url` has no path; `simulator_url` is unset without the simulated upstream."""

    config: Config
    url: str
    simulator_url: str | None
    gateway: Gateway


@asynccontextmanager
async def with_simulator(config: Config, *, pace: float = 0.02) -> AsyncIterator[tuple[Config, str | None]]:
    """Yield the configuration to serve and the URL of the simulated upstream.

    With `config.simulated`, start that upstream and put its URL into the configuration. Without it, the URL is `None`.
    `pace` is the upstream's pause between two frames, in seconds.
    """
    if not config.simulated:
        yield config, None
        return
    from dragoman_server.simulator import SCRIPTS, make_simulator  # 0.6 MB of memory

    async with listening(make_simulator(pace=pace), "127.0.0.1", 0, drain=0.5) as url:
        yield config.with_simulator(url, tuple(SCRIPTS)), url


@asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    *,
    drain: float = 1.0,
    metrics: Metrics | None = None,
    server: Server | None = None,
) -> AsyncIterator[str]:
    """Serve `app` on `host:port` (0 = any free port) and yield its URL.

    On exit, requests that are still open have `drain` seconds to end. Input that is not HTTP is counted in
    `metrics`, which also read how many connections wait.
    `server` holds the limits on connections, and whether kept ones are closed at once on exit: balancers know by then
    that the gateway stops, if it had a `shutdown_delay`. Raises OSError if the address cannot be bound.
    """
    server, metrics = server or Server(), metrics or Metrics()
    bounds = connection_limits(server, metrics.totals)
    with closing(Listeners(host, port, balanced=False)) as listeners:
        runner = HijackRunner(
            app,
            shutdown_timeout=drain,
            log=ServerLog(metrics.totals),
            limits=bounds,
            closes_kept=server.shutdown_delay > 0,
        )
        await runner.setup()
        metrics.gauges.append(listeners.add_gauges)
        try:
            for sock in listeners.groups[0]:
                await web.SockSite(runner, sock, backlog=server.backlog).start()
            yield listeners.url
        finally:
            metrics.gauges.remove(listeners.add_gauges)
            await runner.cleanup()


@asynccontextmanager
async def running(
    config: Config,
    *,
    pace: float = 0.02,
    drain: float = DRAIN,
    upstream: Transport | None = None,
    reports_stop: bool = False,
) -> AsyncIterator[Running]:
    """Serve the gateway, and with `config.simulated` the simulated upstream on a loopback port of its own.

    `pace` is the simulated upstream's pause between two frames, `drain` the time that open replies have on exit, both
    in seconds. On exit a signal ends them at once. `upstream` replaces the usual transport; the gateway closes it.
    Lines report a stop that has to wait for replies; with `reports_stop`, they report each.
    """
    server = config.server
    name_host(server.host_name)
    async with with_simulator(config, pace=pace) as (filled, simulator_url):
        gateway = Gateway(filled, upstream=upstream, lines=True)
        app = make_app(filled, gateway=gateway, drain=drain)
        async with listening(app, server.host, server.port, metrics=gateway.metrics, server=server) as url:
            gateway.discover()
            try:
                with collected_rarely(lambda: gateway.open_requests):
                    yield Running(filled, url, simulator_url, gateway)
            finally:
                reports_stop |= gateway.open_requests > 0
                on_stop_signal(gateway.hurry)
                if reports_stop:
                    print_stopping(gateway.open_requests, drain)
        if reports_stop:
            print_stopped(gateway.ended_by_stop, hurried=gateway.hurried)


async def leave(gateway: Gateway) -> None:
    """Serve on for `server.shutdown_delay` seconds while the gateway is not ready, or until another stop signal."""
    if seconds := gateway.config.server.shutdown_delay:
        gateway.leave()
        print_leaving(seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wait_for_stop_signal()


async def wait_for_stop_signal() -> None:
    """Wait for SIGINT or SIGTERM."""
    await stop_signal().wait()


def stop_signal() -> asyncio.Event:
    """Return an event that the next SIGINT or SIGTERM sets."""
    stop = asyncio.Event()
    on_stop_signal(stop.set)
    return stop


def on_stop_signal(do: Callable[[], None]) -> None:
    """Call `do` in the event loop at each SIGINT and SIGTERM from now on."""
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM"):
        # Windows has no loop signal handlers: Ctrl-C raises KeyboardInterrupt there. Nor have other threads any.
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(getattr(signal, name), do)


def on_hangup(do: Callable[[], None]) -> None:
    """Call `do` in the event loop at each SIGHUP, on systems that have it."""
    if hasattr(signal, "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, do)


def reload(gateway: Gateway, load: Callable[[], Config] | None) -> None:
    """Load the configuration with `load()` and use it for new requests; if that fails, log why and change nothing.

    Without `load` the configuration is not in a file, and a warning is logged.
    """
    if load is None:
        log.warning("there is nothing to reload: the configuration is not in a file (dragoman serve FILE.toml)")
        return
    notify("RELOADING=1")
    log.info("dragoman reloads its configuration")
    try:
        gateway.reconfigure(load())
    except ConfigError as error:
        result = "refused"
        where = f"{error.file}: " if error.file else ""
        log.error("%sthe new configuration is refused, the old one stays:\n%s", where, error)
    except Exception:
        result = "failed"
        log.exception("dragoman could not reload, the old configuration stays")
    else:
        result = "done"
        for sentence in warn_if_exposed(gateway.config):
            log.warning("%s", sentence)
        config = gateway.config
        log.info("dragoman has reloaded; providers: %d, routes: %d", len(config.providers), len(config.routes))
    gateway.metrics.totals.add(RELOADS, (result,))
    notify("READY=1")


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to completion, on uvloop except on Windows. Return its result, such as an exit status."""
    factory = None
    if sys.platform != "win32":
        import uvloop  # not on Windows

        factory = uvloop.new_event_loop
    # Imported objects live as long as the process: keep the garbage collector from scanning them again and again.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)

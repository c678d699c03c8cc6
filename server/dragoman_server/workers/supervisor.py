"""Supervisor of `dragoman serve --workers N`: starts workers, replaces those that crash, reloads, and stops them.

It owns the listening sockets and serves no requests. Workers are new processes, not forks: each receives its
configuration over a socket pair, and reaches the other workers through the supervisor.

    SIGTERM, SIGINT   stop after `server.shutdown_delay`: open replies have `stop_drain` seconds; a second one ends
                      them, a third one kills the workers
    SIGHUP            reload: the configuration is read and checked, new workers start, then the old ones drain
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.schema import Config
from dragoman_server.observability.metric_families import RELOADS, RESTARTS
from dragoman_server.proxy.error_response import new_request_id
from dragoman_server.routing.task_set import TaskSet
from dragoman_server.workers.drain import LINGER
from dragoman_server.workers.listeners import BALANCED, Listeners
from dragoman_server.workers.registry import WorkerRegistry
from dragoman_server.workers.stop_lines import print_leaving, print_stopped, print_stopping
from dragoman_server.workers.systemd import notify
from dragoman_server.workers.worker import Assignment
from dragoman_server.workers.worker_process import WorkerFailed, WorkerProcess

log = logging.getLogger("dragoman")

STEADY_SECONDS = 60.0
"""A worker that served for this many seconds before it crashed does not count towards repeated failures."""
KILL_AFTER = 5.0
"""Seconds on top of `drain` after which a worker that has not ended is killed."""
FAILED_STARTS_MAX = 5
"""Consecutive failed starts, while no worker is left, after which the supervisor stops."""
_PAUSE, _LONGEST_PAUSE = 0.1, 30.0


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pause_before(failures: int) -> float:
    """Return the pause in seconds before a worker is started again, after `failures` failures in a row."""
    return min(_LONGEST_PAUSE, _PAUSE * 2.0 ** min(failures - 1, 20))


class Supervisor:
    """Runs `config.server.workers` workers (0: as many as `cores()`).

    `load()` returns the configuration for a reload, or raises ConfigError; `announce(url, config)` is called once, when
    all workers are ready. `drain` and `linger` are in seconds (`worker.Assignment`); `drain` replaces the
    configuration's `stop_drain`.
    """

    def __init__(
        self,
        config: Config,
        load: Callable[[], Config],
        announce: Callable[[str, Config], None],
        *,
        log_level: int = logging.INFO,
        log_format: str = "text",
        drain: float | None = None,
        linger: float = LINGER,
        balanced: bool = BALANCED,
    ) -> None:
        self._config = config
        self._load = load
        self._announce = announce
        self._log_level, self._log_format = log_level, log_format
        self._fixed_drain = drain
        self._linger = linger
        self._balanced = balanced
        self._sender = new_request_id()
        self._registry = WorkerRegistry()
        self._shares = 0
        self._failures: dict[int, int] = {}
        self._tasks = TaskSet()
        self._wake = asyncio.Event()
        self._reload = False
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._kill_now = asyncio.Event()
        self._all_ended = asyncio.Event()
        self._failure: str | None = None

    def stop(self) -> None:
        """Stop gracefully; on a second call, end the open replies; on a third, kill the workers."""
        next((step for step in (self._stop, self._hurry) if not step.is_set()), self._kill_now).set()
        self._wake.set()

    def reload(self) -> None:
        """Read the configuration again and replace all workers."""
        self._reload = True
        self._wake.set()

    def pids(self) -> list[int]:
        """Return the process ids of the workers that accept connections."""
        return [worker.process.pid for worker in self._registry.serving.values()]

    def _drain(self, config: Config) -> float:
        return config.server.stop_drain if self._fixed_drain is None else self._fixed_drain

    async def run(self) -> int:
        """Run until stopped. Return the exit status. Raises OSError if the address cannot be bound."""
        loop, server = asyncio.get_running_loop(), self._config.server
        for name, do in ((signal.SIGTERM, self.stop), (signal.SIGINT, self.stop), (signal.SIGHUP, self.reload)):
            loop.add_signal_handler(name, do)
        self._listeners = Listeners(server.host, server.port, balanced=self._balanced)
        self._registry.gauges.append(self._listeners.add_gauges)
        if not self._balanced:
            log.info("this system does not spread connections over several sockets: all workers share one")
        try:
            await self._unless_stopped(self._replace_all(self._config))
            if not self._stop.is_set():
                self._announce(self._listeners.url, self._config)
                notify("READY=1")
            while not self._stop.is_set():
                await self._wake.wait()
                self._wake.clear()
                if self._reload:
                    self._reload = False
                    await self._unless_stopped(self._reload_config())
        except WorkerFailed as error:
            self._failure = str(error)
        finally:
            await self._shut_down()
        if self._failure is not None:
            log.error("dragoman stops: %s", self._failure)
            return 1
        return 0

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`, and cancel it when the supervisor is to stop."""
        task, stopping = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    # --- start -------------------------------------------------------------------------------------------------------

    async def _replace_all(self, config: Config) -> None:
        """Start new workers for `config`; when all are ready, drain the old ones.

        If one cannot start, raises WorkerFailed or OSError and keeps the old workers.
        """
        count = config.server.workers or cores()
        self._listeners.grow(count)
        tasks = [asyncio.create_task(self._start(number, config)) for number in range(1, count + 1)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        except BaseException:
            for task in tasks:
                task.cancel()
            for started in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(started, WorkerProcess):
                    started.dismiss("stop")
            raise
        old, self._registry.serving = (
            self._registry.serving,
            {number: task.result() for number, task in enumerate(tasks, 1)},
        )
        self._registry.expected = count
        self._config, self._shares = config, len(self._listeners.groups)
        self._failures.clear()
        self._listeners.listen(config.server.backlog)
        self._assign_shares()
        for worker in old.values():
            worker.dismiss("retire")

    async def _start(self, number: int, config: Config) -> WorkerProcess:
        """Start a worker and wait until it is ready; it does not accept yet. Raises WorkerFailed, OSError."""
        assignment = Assignment(
            number,
            config,
            self._listeners.descriptors(),
            self._sender,
            self._log_level,
            self._log_format,
            drain=self._drain(config),
            linger=self._linger,
        )
        worker = await WorkerProcess.start(assignment, self._registry.answer)
        self._registry.workers.append(worker)
        self._registry.supervisor_totals.add(RESTARTS, (str(number),), 0)
        self._tasks.begin(self._supervise(worker))
        await worker.until_ready()
        log.info("%s is ready", worker)
        return worker

    def _assign_shares(self) -> None:
        """Send each worker the shares of the connections that it is to accept; shares without a worker go to others."""
        serving = self._registry.serving
        workers = [serving[number] for number in sorted(serving)]
        shares: dict[int, list[int]] = {worker.number: [] for worker in workers}
        for share in range(self._shares):
            if not self._balanced:
                for each in shares.values():
                    each.append(share)
            elif workers:
                owner = serving.get(share + 1) or workers[share % len(workers)]
                shares[owner.number].append(share)
        for worker in workers:
            worker.channel.send("listen", shares=shares[worker.number])

    # --- loss --------------------------------------------------------------------------------------------------------

    async def _supervise(self, worker: WorkerProcess) -> None:
        """Wait until a worker's process has ended; if it crashed, reassign its share and start another worker."""
        how = await worker.until_gone()
        self._registry.remove(worker)
        serving = self._registry.serving.get(worker.number) is worker
        if serving:
            del self._registry.serving[worker.number]
        if worker.leaving and worker.started:
            log.info("%s has left", worker)
        elif serving:
            log.warning("%s %s", worker, how)
            self._assign_shares()
            steady = asyncio.get_running_loop().time() - worker.ready_at >= STEADY_SECONDS
            failures = 1 if steady else self._failures.get(worker.number, 0) + 1
            self._tasks.begin(self._restore(worker.number, failures))
        if not self._registry.workers:
            self._all_ended.set()

    async def _restore(self, number: int, failures: int) -> None:
        """Start another worker in place of one that crashed, and retry with growing pauses until it is ready."""
        config = self._config
        while True:
            self._failures[number] = failures
            pause = pause_before(failures)
            log.warning("another worker %d starts in %g s", number, pause)
            await asyncio.sleep(pause)
            if self._is_superseded(config):
                return
            try:
                worker = await self._start(number, config)
            except (WorkerFailed, OSError) as error:
                failures += 1
                log.error("worker %d could not start: %s", number, error)
                if not self._registry.serving and failures > FAILED_STARTS_MAX:
                    self._failure = (
                        f"no worker is left, and none could start {FAILED_STARTS_MAX} times in a row: {error}"
                    )
                    self._stop.set()
                    self._wake.set()
                    return
                continue
            if self._is_superseded(config):
                worker.dismiss("stop")
                return
            self._registry.serving[number] = worker
            self._registry.supervisor_totals.add(RESTARTS, (str(number),))
            self._assign_shares()
            return

    def _is_superseded(self, config: Config) -> bool:
        """True if no worker for `config` is needed any longer: the supervisor stops, or a reload has replaced them."""
        return self._stop.is_set() or self._config is not config

    # --- reload and stop ---------------------------------------------------------------------------------------------

    async def _reload_config(self) -> None:
        notify("RELOADING=1")
        log.info("dragoman reloads its configuration")
        try:
            config = self._load()
            _check_address_unchanged(self._config, config)
            await self._replace_all(config)
        except ConfigError as error:
            result = "refused"
            where = f"{error.file}: " if error.file else ""
            log.error("%sthe new configuration is refused, the old one stays:\n%s", where, error)
        except (WorkerFailed, OSError) as error:
            result = "failed"
            log.error("dragoman could not reload, the old workers stay: %s", error)
        else:
            result = "done"
            log.info("dragoman has reloaded; workers: %d", len(self._registry.serving))
        self._registry.supervisor_totals.add(RELOADS, (result,))
        notify("READY=1")

    async def _shut_down(self) -> None:
        notify("STOPPING=1")
        self._stop.set()
        drain = self._drain(self._config)
        if self._failure is None:
            await self._leave()
            print_stopping(await self._registry.open_requests(), drain)
        self._registry.gauges.clear()
        self._listeners.close()
        workers = self._registry.workers
        leaving = tuple(workers)
        self._all_ended.clear()
        for worker in leaving:
            worker.dismiss("stop")
        if workers:
            await self._until_ended(drain + KILL_AFTER, self._hurry)
        if workers and self._hurry.is_set():
            for worker in leaving:
                worker.channel.send("hurry")
            await self._until_ended(KILL_AFTER, self._kill_now)
        for worker in workers:
            log.warning("%s is killed", worker)
            worker.kill()
        if workers:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_ended.wait(), KILL_AFTER)
        for task in self._tasks:
            task.cancel()
        if self._failure is None:
            print_stopped(sum(worker.ended_by_stop for worker in leaving), hurried=self._hurry.is_set())

    async def _until_ended(self, seconds: float, sooner: asyncio.Event) -> None:
        """Wait until all workers have ended, for at most `seconds` or until an event."""
        waits = [asyncio.create_task(event.wait()) for event in (self._all_ended, sooner)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _leave(self) -> None:
        """Serve on for `server.shutdown_delay` seconds while the workers are not ready, or until another stop."""
        seconds = self._config.server.shutdown_delay
        if not seconds or not self._registry.serving:
            return
        print_leaving(seconds)
        for worker in self._registry.workers:
            worker.channel.send("leave")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        self._hurry.clear()


def _check_address_unchanged(old: Config, new: Config) -> None:
    for name in ("host", "port"):
        if getattr(old.server, name) != getattr(new.server, name):
            raise ConfigError(f"server.{name}", "cannot change while the gateway runs: stop it and start it again")

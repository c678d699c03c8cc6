"""`dragoman run AGENT`: starts a gateway on a free loopback port, and a coding agent that uses it.

The agent uses the terminal. Its exit status becomes the command's, signals are passed on to it, and the gateway stops
when the agent ends.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from dragoman import Dialect, DragomanError
from dragoman_server.cli.agents import AGENTS, Access, Agent
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.options import add_simulate
from dragoman_server.config.provider import Auth, Secret
from dragoman_server.config.schema import Config
from dragoman_server.observability.logs import LEVELS, print_line
from dragoman_server.routing.router import Router

NOT_FOUND = 127
"""Exit status if the program is not installed, as in a shell."""
_DRAIN = 1.0
_WARNINGS_KEPT = 20
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Start a gateway on a free port and a coding agent that uses it. "
        "Both end together; the exit status is the agent's."
    )
    parser.usage = f"dragoman run [options] {{{','.join(AGENTS)}}} [-- ARGS]"
    parser.epilog = "Arguments after -- are passed to the agent: dragoman run codex -- exec 'explain this folder'"
    parser.add_argument("agent", choices=list(AGENTS), help="the agent, which must be installed")
    parser.add_argument("--model", metavar="NAME", help="model that the agent requests (default: its own choice)")
    add_simulate(parser)
    parser.add_argument(
        "--log-file",
        metavar="FILE",
        help="append the gateway's log to a file (default: standard error; on a terminal, only warnings, at the end)",
    )
    # Defaults for `served_config`: only the agent uses this gateway.
    parser.set_defaults(agent_args=[], host="127.0.0.1", port=0, workers=1, log_handler=log_handler)


class _DeferredWarnings(logging.Handler):
    """Keeps the last warnings until the agent, which uses the screen, has ended."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=_WARNINGS_KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def log_handler(args: argparse.Namespace) -> logging.Handler:
    """Return the handler for the gateway's log. Raises OSError."""
    if args.log_file is not None:
        return logging.FileHandler(args.log_file, encoding="utf-8")
    return _DeferredWarnings() if sys.stderr.isatty() else logging.StreamHandler(sys.stderr)


def main(
    args: argparse.Namespace, load: Callable[[argparse.Namespace], Config], describe: Callable[[Config], None]
) -> int:
    """Run the agent. Returns its exit status, 128 + N if signal N ended it. Raises CommandError, OSError."""
    agent = AGENTS[args.agent]
    program = shutil.which(agent.name)
    if program is None:
        print_line(f"dragoman: {agent.title} is not installed: there is no {agent.name} on the PATH", logging.ERROR)
        print_line(f"install it with: {agent.install}", logging.ERROR)
        return NOT_FOUND
    config, key = _with_private_key(load(args))

    from dragoman_server.workers.serve import run_loop, running

    async def run() -> int:
        async with running(config, drain=_DRAIN) as up:
            access = _access(agent, up.config, up.url, key, args.model)
            if LEVELS[args.log_level or "info"] <= logging.INFO:
                print_line(f"{agent.title} uses the gateway at {up.url}")
                describe(up.config)
            return await _run(agent, program, access, args.agent_args)

    try:
        return run_loop(run())
    finally:
        for handler in logging.getLogger().handlers:
            if isinstance(handler, _DeferredWarnings) and handler.lines:
                print("warnings of the gateway:", *handler.lines, sep="\n", file=sys.stderr)


def _with_private_key(config: Config) -> tuple[Config, str | None]:
    """Return the configuration with a random key for this agent, and the key.

    Without a key if a provider has `auth = "passthrough"`: then the agent sends its own key, and cannot send two.
    """
    if any(provider.auth is Auth.PASSTHROUGH for provider in config.providers.values()):
        return config, None
    key = secrets.token_urlsafe(24)
    return replace(config, server=replace(config.server, keys=(Secret(key),))), key


def _access(agent: Agent, config: Config, url: str, key: str | None, model: str | None) -> Access:
    """Return the agent's access. Raises CommandError if it needs a model and the configuration names none."""
    router = Router(config)
    models = tuple(name for name, _ in router.known_models())
    if agent.needs_model and model is None and not models:
        raise CommandError("--model", f"{agent.title} needs a model's name, and the configuration has only patterns")
    name = model or (models[0] if models else None)
    return Access(url, key, model, models, _dialect(router, name) if name else Dialect.CHAT)


def _dialect(router: Router, model: str) -> Dialect:
    """Return the dialect in which requests for a model pass through, else Chat.

    Raises CommandError for unknown models.
    """
    for client in Dialect:
        try:
            if router.resolve(model, client).provider.dialect is client:
                return client
        except DragomanError as error:
            raise CommandError("--model", str(error)) from None
    return Dialect.CHAT


async def _run(agent: Agent, program: str, access: Access, words: list[str]) -> int:
    launch = agent.launch(access, os.environ)
    env = {name: value for name, value in os.environ.items() if name not in launch.without}
    env.update(launch.env)
    env.update(_without_proxy(env))
    process = await asyncio.create_subprocess_exec(program, *launch.words, *words, env=env)
    _pass_signals(process)
    try:
        status = await process.wait()
    except BaseException:
        with suppress(ProcessLookupError):
            process.terminate()
        raise
    return status if status >= 0 else 128 - status


def _without_proxy(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exclude the gateway's address from the proxies of the environment."""
    if not any(env.get(name) for name in _PROXIES):
        return {}
    hosts = {name: env.get(name, "") for name in ("no_proxy", "NO_PROXY")}
    return {name: f"{value},127.0.0.1" if value else "127.0.0.1" for name, value in hosts.items()}


def _pass_signals(process: asyncio.subprocess.Process) -> None:
    """Pass signals to this process on to the agent."""
    loop = asyncio.get_running_loop()

    def pass_on(number: int) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    # A terminal sends SIGINT and SIGQUIT to both processes. Many agents exit on a second one, so do not send it again.
    twice = _in_foreground()
    for name in ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP"):
        with suppress(NotImplementedError, AttributeError):  # Windows
            number = getattr(signal, name)
            if twice and name in ("SIGINT", "SIGQUIT"):
                loop.add_signal_handler(number, lambda: None)
            else:
                loop.add_signal_handler(number, pass_on, number)


def _in_foreground() -> bool:
    """True if this process belongs to the foreground group of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)

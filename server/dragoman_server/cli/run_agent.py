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
import shlex
import shutil
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from dragoman import Dialect, DragomanError
from dragoman.gateway import CLIENT_DIALECTS, DEFAULT_DIALECT, quote
from dragoman_server.cli.agents import AGENTS, Access, Agent
from dragoman_server.cli.choose_model import choices, choose, context_windows, known_names
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.config_source import served_config
from dragoman_server.cli.describe_config import describe
from dragoman_server.cli.list_models import UpstreamList, key_name, list_models
from dragoman_server.cli.options import add_log, add_simulate, add_upstream
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.schema import Config
from dragoman_server.config.shown_url import shown_url
from dragoman_server.config.value_problems import closest
from dragoman_server.observability.logs import LEVELS, print_line
from dragoman_server.routing.router import RoutedTarget, Router
from dragoman_server.workers.serve import run_loop, running

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
    add_upstream(parser)
    add_log(parser)
    parser.epilog = "Arguments after -- are passed to the agent: dragoman run codex -- exec 'explain this folder'"
    parser.add_argument("agent", choices=list(AGENTS), help="the agent, which must be installed")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="model that the agent requests (default: the only one of the upstream, else its own choice)",
    )
    add_simulate(parser)
    parser.add_argument(
        "--log-file",
        metavar="FILE",
        help="append the gateway's log to a file (default: standard error; on a terminal, only warnings, at the end)",
    )
    # Defaults for `served_config`: only the agent uses this gateway.
    parser.set_defaults(run=main, agent_args=[], host="127.0.0.1", port=0, workers=1, log_handler=log_handler)


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


def main(args: argparse.Namespace) -> int:
    """Run the agent. Return its exit status, 128 + N if signal N ended it. Raises CommandError, OSError."""
    agent = AGENTS[args.agent]
    program = shutil.which(agent.name)
    if program is None:
        print_line(f"dragoman: {agent.title} is not installed: there is no {agent.name} on the PATH", logging.ERROR)
        print_line(f"install it with: {agent.install}", logging.ERROR)
        return NOT_FOUND

    config = served_config(args)
    lists: Sequence[UpstreamList] = ()
    if not config.simulated:
        router = Router(config)
        lists = run_loop(list_models(config, _providers(agent, config, router, args.model), partial(key_name, args)))
        if lists and all(each.fatal for each in lists):
            for each in lists:
                print_line(f"dragoman run: {each.problem}", logging.ERROR)
            if agent.needs_model and args.model is None and args.config and not router.known_models():
                raise _no_model(agent)
            return 1
        config = replace(_with_model(agent, args, config, lists), only_model=False)
    config, key = _with_private_key(config)

    async def run() -> int:
        async with running(config, drain=_DRAIN) as up:
            access = _access(agent, up.config, up.url, key, args.model, lists)
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

    Without any keys if a provider has `auth = "passthrough"`: then the agent sends its own key, and cannot send two.
    """
    if any(provider.auth is Auth.PASSTHROUGH for provider in config.providers.values()):
        return replace(config, server=replace(config.server, keys=()), keys={}), None
    key = secrets.token_urlsafe(24)
    return replace(config, server=replace(config.server, keys=(Secret(key),))), key


def _providers(agent: Agent, config: Config, router: Router, model: str | None) -> list[Provider]:
    """Return the providers of a model, else all. Raises CommandError for an unknown model."""
    names = set(config.providers)
    if model is not None:
        targets = _targets(agent, router, model)
        names = {each.provider.name for target in targets for each in target.candidates}
    return [provider for name, provider in config.providers.items() if name in names and provider.base_url]


def _targets(agent: Agent, router: Router, model: str) -> list[RoutedTarget]:
    """Return the targets of `--model` in the agent's dialects. Raises CommandError for an unknown model."""
    found, problem = [], ""
    for client in CLIENT_DIALECTS if agent.needs_model else (agent.dialect,):
        try:
            found.append(router.resolve(model, client))
        except DragomanError as error:
            problem = str(error)
    if not found:
        raise CommandError("--model", f"{problem}{closest(model, [name for name, _ in router.known_models()])}")
    return found


def _with_model(agent: Agent, args: argparse.Namespace, config: Config, lists: Sequence[UpstreamList]) -> Config:
    """Set `args.model` if the agent needs a model.

    Return the configuration. If the only upstream of the command line has only one model, all requests get that model.
    Raises CommandError if there are several models, and no terminal to choose on.
    """
    router = Router(config)
    chosen = args.model is not None or agent.has_model(args.agent_args, os.environ)
    advice = "" if chosen else f"; name a model with --model, or {agent.title} requests its own"
    for each in lists:
        if each.problem:
            print_line(f"  {each.problem}{advice}", logging.WARNING)
        elif args.model is not None and each.models:
            _warn_if_not_listed(_targets(agent, router, args.model)[0].upstream_model, each)
    names = [] if chosen else choices(agent, router, lists)
    if names:
        args.model = choose(agent, names, _command(args))
        if len(names) == 1 and args.base_url:
            args.default_model = args.model
            return served_config(args)
    return config


def _warn_if_not_listed(model: str, there: UpstreamList) -> None:
    """Print a warning if the upstream does not list a model. It may have the model: some lists are not complete."""
    if there.find(model) is None:
        meant = closest(model, [each.name for each in there.models])
        print_line(f'  {there.provider.address()} does not list the model "{quote(model)}"{meant}', logging.WARNING)


def _command(args: argparse.Namespace) -> str:
    """Return the command that starts the agent, to copy, without the model and the agent's own arguments."""
    options = {"-c": args.config, "--base-url": shown_url(args.base_url or ""), "--dialect": args.dialect}
    words = [word for option, value in options.items() if value for word in (option, value)]
    return shlex.join(["dragoman", "run", args.agent, *words])


def _access(
    agent: Agent, config: Config, url: str, key: str | None, model: str | None, lists: Sequence[UpstreamList]
) -> Access:
    """Return the agent's access. Raises CommandError if it needs a model and none is known."""
    router = Router(config)
    models = tuple(known_names(router, lists))
    if agent.needs_model and model is None and not models:
        raise _no_model(agent)
    name = model or (models[0] if models else None)
    requested = model or agent.example
    windows = context_windows(router, lists, dict.fromkeys([requested, *models]), agent)
    dialect = _dialect(router, name) if name else DEFAULT_DIALECT
    return Access(url, key, model, models, dialect, windows, windows.get(requested, 0))


def _no_model(agent: Agent) -> CommandError:
    return CommandError("--model", f"{agent.title} needs a model's name, and the configuration has only patterns")


def _dialect(router: Router, model: str) -> Dialect:
    """Return the dialect in which requests for a model pass through, else Chat."""
    for client in CLIENT_DIALECTS:
        with suppress(DragomanError):
            if router.resolve(model, client).provider.dialect is client:
                return client
    return DEFAULT_DIALECT


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

"""`dragoman serve`: runs the gateway in one process, or in several that share its address."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial

from dragoman_server.cli.announce import announce, print_remarks
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.config_source import served_config, set_address
from dragoman_server.cli.options import add_config, add_log, add_simulate, log_level, port
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.schema import Config
from dragoman_server.workers.file_watch import FileWatch, watching
from dragoman_server.workers.serve import leave, on_hangup, reload, run_loop, running, stop_signal
from dragoman_server.workers.systemd import notify


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_config(parser)
    parser.add_argument("--host", help="address to listen on (default DRAGOMAN_HOST, else 127.0.0.1)")
    parser.add_argument(
        "--port", type=port, help="port to listen on, 0 for any free one (default DRAGOMAN_PORT, else 8080)"
    )
    parser.add_argument(
        "--workers",
        type=_worker_count,
        metavar="N",
        help="processes that share the address; auto or 0 for one per core (default 1)",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="listen on an address that others can reach, although no key is required",
    )
    parser.add_argument(
        "--watch", action="store_true", help="reload when the configuration, or a file of a secret, changes"
    )
    parser.add_argument("--ui", action="store_true", help="serve the console, a page with live traffic, at /ui")
    add_simulate(parser)
    add_log(parser)
    parser.set_defaults(run=main, stamped=True)


def main(args: argparse.Namespace) -> int:
    """Run the gateway until a signal ends it. Raises ConfigError, CommandError, OSError."""
    set_address(args, os.environ)
    config = served_config(args)
    if args.watch and args.config is None:
        raise CommandError("--watch", "needs a configuration file: dragoman serve --watch FILE.toml")
    watch = FileWatch(args.config) if args.watch else None
    return run_loop(_serve(args, config, watch) if config.server.workers == 1 else _supervise(args, config, watch))


def _worker_count(word: str) -> int:
    if word != "auto" and not word.isdigit():
        raise argparse.ArgumentTypeError(f'expected a number or auto; got "{word}"')
    return 0 if word == "auto" else int(word)


async def _serve(args: argparse.Namespace, config: Config, watch: FileWatch | None) -> int:
    load = partial(served_config, args) if args.config is not None else None
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until a handler is set: by default the signal ends the process
    stop = stop_signal()  # before the first client can come
    print_remarks(config)
    async with running(config, drain=config.server.stop_drain, reports_stop=True) as up:
        on_hangup(lambda: reload(up.gateway, load))
        announce(up.url, up.config)
        notify("READY=1")
        async with watching(watch, lambda: reload(up.gateway, load)):
            await stop.wait()
        notify("STOPPING=1")
        await leave(up.gateway)
    return 0


async def _supervise(args: argparse.Namespace, config: Config, watch: FileWatch | None) -> int:
    if sys.platform == "win32":
        raise ConfigError("server.workers", "more than one needs a POSIX system; leave it out, or set it to 1")
    from dragoman_server.workers.supervisor import Supervisor, cores  # 0.2 MB of memory

    print_remarks(config)
    report = partial(announce, workers=config.server.workers or cores())
    supervisor = Supervisor(
        config, partial(served_config, args), report, log_level=log_level(args), log_format=args.log_format
    )
    async with watching(watch, supervisor.reload):
        return await supervisor.run()

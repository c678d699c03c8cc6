"""The command line: `dragoman COMMAND`. Each command's arguments and work are in a module of this package."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman import Dialect, DragomanError, Knobs, Profile, builtin_profile
from dragoman.gateway import BUILTIN_PROFILES, KNOBS
from dragoman_server.cli import shell_completion
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.config_source import DEFAULT_FILE, served_config, set_address, ways_to_configure
from dragoman_server.cli.describe_config import describe
from dragoman_server.cli.options import ConfigFile, add_dialect, add_log, add_simulate, add_upstream, port
from dragoman_server.cli.parser import Parser
from dragoman_server.config.load import NothingConfigured
from dragoman_server.config.schema import Config
from dragoman_server.config.toml_reader import ConfigError
from dragoman_server.config.value_problems import closest, parse_word, value_problem
from dragoman_server.observability.logs import LEVELS, configure, print_line
from dragoman_server.routing.client_profiles import BY_NAME


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script. Returns the exit status: 0 success, 1 failure, 2 wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["bench"]:
        return _bench(words[1:])
    args = _parser().parse_args(words)
    try:
        handler = args.log_handler(args) if "log_handler" in args else None
        form, stamped = getattr(args, "log_format", "text"), args.run is _serve
        configure(_level(args), form, handler=handler, stamped=stamped)
        status: int = args.run(args)
    except NothingConfigured:
        print_line(ways_to_configure(args, words[0]), logging.ERROR)
        return 2
    except CommandError as error:
        print_line(f"dragoman {words[0]}: {error}", logging.ERROR)
        return 2
    except ConfigError as error:
        print_line(f"wrong configuration{f' in {error.file}' if error.file else ''}:\n{error}", logging.ERROR)
        return 2
    except DragomanError as error:
        print_line(f"dragoman: {error}", logging.ERROR)
        return 1
    except OSError as error:
        print_line(f"dragoman: {_reason(error)}", logging.ERROR)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


class _Version(argparse.Action):
    """Prints the version. The import is local: it takes 0.6 MB of memory that nothing else needs."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from dragoman import __version__

        print(f"dragoman {__version__}")
        parser.exit()


def _reason(error: OSError) -> str:
    """Return the error's message without its number, with advice where there is some."""
    if error.filename is not None:
        return f"{error.filename}: cannot be read: {error.strerror}"
    advice = "; use --port to select another one" if error.errno == errno.EADDRINUSE else ""
    return f"{error.strerror or error}{advice}"


def _level(args: argparse.Namespace) -> int:
    return LEVELS[getattr(args, "log_level", None) or "info"]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="dragoman", description="A streaming gateway that translates between model APIs.")
    parser.add_argument("-V", "--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="run the gateway")
    _add_config(serve)
    serve.add_argument("--host", help="address to listen on (default DRAGOMAN_HOST, else 127.0.0.1)")
    serve.add_argument(
        "--port", type=port, help="port to listen on, 0 for any free one (default DRAGOMAN_PORT, else 8080)"
    )
    serve.add_argument(
        "--workers",
        type=_worker_count,
        metavar="N",
        help="processes that share the address; auto or 0 for one per core (default 1)",
    )
    serve.add_argument(
        "--insecure",
        action="store_true",
        help="listen on an address that others can reach, although no key is required",
    )
    serve.add_argument(
        "--watch", action="store_true", help="reload when the configuration, or a file of a secret, changes"
    )
    serve.add_argument("--ui", action="store_true", help="serve the console, a page with live traffic, at /ui")
    add_simulate(serve)
    add_log(serve)
    serve.set_defaults(run=_serve)

    run = commands.add_parser("run", help="start a coding agent that uses a gateway of its own")
    run.declare_later = _declare_run
    _add_later(commands, "init", "starter_config", "write a commented configuration to start from")
    _add_later(commands, "import", "imports.command", "write a configuration from that of another gateway")

    demo = commands.add_parser("demo", help="show translated streams between a client and a simulated upstream")
    demo.add_argument("--once", action="store_true", help="exit after the last scene instead of serving on")
    demo.add_argument("--port", type=port, default=8080, help="port of the gateway, 0 for any free one (default 8080)")
    demo.add_argument("--pace", type=float, default=0.05, help="seconds between two frames of the upstream")
    demo.set_defaults(run=_demo)

    check = commands.add_parser("check", help="validate and describe a configuration")
    check.declare_later = _declare_check

    _add_later(commands, "schema", "print_schema", "print the JSON Schema of the configuration file, for editors")
    _add_later(commands, "keys", "manage_keys", "add, list and revoke the keys of clients")
    _add_later(commands, "usage", "show_usage", "add up the usage that a gateway has booked")
    _add_later(commands, "receipts", "show_receipts", "list the last receipts of a running gateway, or print one")
    _add_later(commands, "tree", "show_tree", "print the tree of a stored conversation")
    _add_later(commands, "capture", "show_captures", "list and show captured exchanges")
    _add_later(commands, "replay", "replay_capture", "translate a captured exchange again, and compare the result")

    translate = commands.add_parser(
        "translate", help="translate a request body, a reply or a recorded .sse stream; losses are printed to stderr"
    )
    translate.declare_later = _declare_translate

    explain = commands.add_parser(
        "explain",
        help="show the upstream request for a request body, its losses and renames",
        description="Show the request that an upstream would receive, and what would be lost. Nothing is sent.",
    )
    explain.declare_later = _declare_explain

    completion = commands.add_parser("completion", help="print a completion script for a shell")
    shell_completion.add_arguments(completion)
    completion.set_defaults(run=lambda args: shell_completion.main(args, _parser()))

    # For the help only: `main` passes the arguments of `bench` to dragoman_bench without parsing them.
    commands.add_parser(
        "bench", help="benchmark gateways side by side on this machine (see bench --help)", add_help=False
    )
    return parser


def _add_later(commands: argparse._SubParsersAction[Parser], name: str, module: str, about: str) -> None:
    """Add a command whose arguments are declared, when it is used, by `add_arguments` of a module of this package."""

    def declare(parser: argparse.ArgumentParser) -> None:
        import_module(f"dragoman_server.cli.{module}").add_arguments(parser)

    commands.add_parser(name, help=about).declare_later = declare


def _declare_run(run: argparse.ArgumentParser) -> None:
    from dragoman_server.cli import run_agent

    add_upstream(run)
    add_log(run)
    run_agent.add_arguments(run)
    run.set_defaults(run=lambda args: run_agent.main(args, served_config, describe))


def _declare_check(check: argparse.ArgumentParser) -> None:
    from dragoman_server.cli import check_config

    _add_config(check)
    check_config.add_arguments(check)
    # Defaults for `served_config`: the address is that of `serve` without options.
    check.set_defaults(host=None, port=None, workers=None)
    check.set_defaults(run=lambda args: check_config.main(args, _config_at_address, describe))


def _declare_translate(translate: argparse.ArgumentParser) -> None:
    from dragoman_server.cli.translate_files import KINDS

    add_dialect(translate, "--from", dest="source", required=True, help="dialect of the input")
    add_dialect(translate, "--to", dest="target", required=True, help="dialect to translate into")
    translate.add_argument("--kind", choices=KINDS, help="kind of the input (default: detected)")
    _add_translation(translate)
    translate.set_defaults(run=_translate)


def _declare_explain(explain: argparse.ArgumentParser) -> None:
    from dragoman_server.cli import explain_request

    add_dialect(explain, "--from", dest="source", help="dialect of the request (default: detected by its fields)")
    add_dialect(explain, "--to", dest="target", help="dialect of the upstream (default: that of the route in --config)")
    explain.add_argument("-c", "--config", metavar="FILE", help="configuration whose routes and knobs apply")
    explain.add_argument("--client", choices=list(BY_NAME), help="the known client that sends it (default: none)")
    explain.add_argument("--json", action="store_true", help="print JSON, with the body byte for byte")
    _add_translation(explain)
    explain.set_defaults(run=lambda args: explain_request.main(args, _profile, _knobs, explain.error))


def _add_translation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="model name to write (default: the input's own)")
    parser.add_argument("--profile", help="profile of the upstream (default: its vendor's)")
    parser.add_argument(
        "--knob", action="append", default=[], metavar="NAME=VALUE", help="set a knob, e.g. on_loss=reject"
    )
    parser.add_argument("file", metavar="FILE", help="input, - for standard input")


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config",
        nargs="?",
        action=ConfigFile,
        metavar="CONFIG.toml",
        help=f"configuration file (default: ./{DEFAULT_FILE}, else from the environment)",
    )
    add_upstream(parser)
    parser.add_argument(
        "--model",
        dest="default_model",
        metavar="NAME",
        help="model of that upstream for all requests, whatever name they have (default: its only one, if it has one)",
    )


def _worker_count(word: str) -> int:
    if word != "auto" and not word.isdigit():
        raise argparse.ArgumentTypeError(f'expected a number or auto; got "{word}"')
    return 0 if word == "auto" else int(word)


def _config_at_address(args: argparse.Namespace) -> Config:
    set_address(args, os.environ)
    return served_config(args)


def _serve(args: argparse.Namespace) -> int:
    config = _config_at_address(args)
    if args.watch and args.config is None:
        raise CommandError("--watch", "needs a configuration file: dragoman serve --watch FILE.toml")
    if config.server.workers != 1:
        return _serve_with_workers(args, config)

    from dragoman_server.cli.announce import announce, print_remarks
    from dragoman_server.workers.file_watch import FileWatch, watching
    from dragoman_server.workers.serve import leave, on_hangup, reload, run_loop, running, stop_signal
    from dragoman_server.workers.systemd import notify

    load = partial(served_config, args) if args.config is not None else None
    watch = FileWatch(args.config) if args.watch else None
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until a handler is set: by default the signal ends the process

    async def serve() -> int:
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

    return run_loop(serve())


def _serve_with_workers(args: argparse.Namespace, config: Config) -> int:
    if sys.platform == "win32":
        raise ConfigError("server.workers", "more than one needs a POSIX system; leave it out, or set it to 1")
    from dragoman_server.cli.announce import announce, print_remarks
    from dragoman_server.workers.file_watch import FileWatch, watching
    from dragoman_server.workers.serve import run_loop
    from dragoman_server.workers.supervisor import Supervisor, cores

    print_remarks(config)
    watch = FileWatch(args.config) if args.watch else None

    async def supervise() -> int:
        load = partial(served_config, args)
        report = partial(announce, workers=config.server.workers or cores())
        supervisor = Supervisor(config, load, report, log_level=_level(args), log_format=args.log_format)
        async with watching(watch, supervisor.reload):
            return await supervisor.run()

    return run_loop(supervise())


def _demo(args: argparse.Namespace) -> int:
    from dragoman_server.cli.demo.run import demo
    from dragoman_server.workers.serve import run_loop

    return run_loop(demo(port=args.port, pace=args.pace, once=args.once))


def _translate(args: argparse.Namespace) -> int:
    from dragoman_server.cli.translate_files import convert, kind_of

    source, target = Dialect(args.source), Dialect(args.target)
    data = _input(args)
    kind = args.kind or kind_of(data)
    out, losses, failure = convert(
        data,
        source,
        target,
        kind=kind,
        model=args.model,
        profile=_profile(args, target if kind == "request" else source),
        knobs=_knobs(args.knob),
    )
    _print(out)
    for loss in losses:
        print(f"loss {loss}", file=sys.stderr)
    if not losses:
        print("no losses", file=sys.stderr)
    if failure is not None:
        print(f"dragoman: the stream ends in an error: {failure.message}", file=sys.stderr)
        return 1
    return 0


def _bench(words: Sequence[str]) -> int:
    """Run dragoman_bench; its short run unless `--full` is given."""
    try:
        from dragoman_bench.cli import main as bench
    except ImportError as error:
        print(f"dragoman bench cannot run here, it needs Linux: {error}", file=sys.stderr)
        return 2
    if words[:1] == ["peers"] or "--quick" in words:
        return bench(words)
    return bench([word for word in words if word != "--full"] if "--full" in words else ["--quick", *words])


def _input(args: argparse.Namespace) -> bytes:
    return sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()


def _print(out: bytes) -> None:
    sys.stdout.buffer.write(out if out.endswith(b"\n") else out + b"\n")
    sys.stdout.buffer.flush()


def _profile(args: argparse.Namespace, upstream: Dialect) -> Profile:
    names = [name for dialect, name in BUILTIN_PROFILES if dialect == upstream]
    if args.profile is not None and args.profile not in names:
        expected = (
            f"expected one of {', '.join(names)} for {upstream}; got {args.profile!r}{closest(args.profile, names)}"
        )
        raise CommandError("--profile", expected)
    return builtin_profile(upstream, args.profile)


def _knobs(settings: Sequence[str]) -> Knobs:
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, word = setting.partition("=")
        if name not in KNOBS:
            raise CommandError(f"--knob {setting}", f"expected one of {', '.join(KNOBS)}{closest(name, KNOBS)}")
        values[name] = value = parse_word(KNOBS[name], word)
        if wrong := value_problem(KNOBS[name], value):
            raise CommandError(f"--knob {setting}", wrong)
    return Knobs(**values)


if __name__ == "__main__":
    sys.exit(main())

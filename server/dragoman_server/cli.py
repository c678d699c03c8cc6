"""The command line: `dragoman serve | demo | check | translate | explain | bench`."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.directions import direction
from dragoman.errors import DragomanError
from dragoman.jsontext import dumps
from dragoman.knobs import KNOBS, Knobs
from dragoman.profile import SHIPPED, VENDOR, Profile, shipped
from dragoman.protocols import Dialect
from dragoman.protocols.masking import redact
from dragoman.translate import parse_body, translate

from .clients import BY_NAME, adapted
from .config import config_from_environment, load_config
from .explain import as_text, explanation, guess_client
from .offline import KINDS, convert, kind_of
from .remarks import open_doors, remarks
from .settings import Config
from .tables import ConfigError, closest, from_word, misfit

_DIALECTS = [dialect.value for dialect in Dialect]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script. Returns the exit status: 0 fine, 1 failed, 2 wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["bench"]:
        return _bench(words[1:])
    args = _parser().parse_args(words)
    logging.basicConfig(
        level=_level(args),
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    try:
        status: int = args.run(args)
    except ConfigError as error:
        print(f"wrong configuration:\n{error}", file=sys.stderr)
        return 2
    except DragomanError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"dragoman: {_reason(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


class _Version(argparse.Action):
    """Looks for the version where it is asked for only: what it takes to find it is 0.6 MB that nothing else needs."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        parser.exit(message=f"dragoman {version('dragoman')}\n")


def _reason(error: OSError) -> str:
    """Without a number, and with what to do where that is plain."""
    if error.filename is not None:
        return f"{error.filename}: cannot be read: {error.strerror}"
    advice = "; --port takes another one" if error.errno == errno.EADDRINUSE else ""
    return f"{error.strerror or error}{advice}"


def _level(args: argparse.Namespace) -> int:
    if getattr(args, "quiet", False):
        return logging.WARNING
    return logging.DEBUG if getattr(args, "verbose", False) else logging.INFO


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dragoman", description="A streaming gateway that translates between model APIs."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="run the gateway")
    _add_config(serve)
    serve.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen on, 0 for any free one (default 8080)")
    serve.add_argument(
        "--workers",
        type=_worker_count,
        metavar="N",
        help="processes that share the address; auto or 0 for one per core (default 1)",
    )
    loudness = serve.add_mutually_exclusive_group()
    loudness.add_argument("--verbose", action="store_true", help="log more")
    loudness.add_argument("--quiet", action="store_true", help="log what is wrong only, and no line for each request")
    serve.set_defaults(run=_serve)

    demo = commands.add_parser("demo", help="see translated streams at once: gateway and simulated upstream in one")
    demo.add_argument("--once", action="store_true", help="exit after the show instead of staying up")
    demo.add_argument("--port", type=int, default=8080, help="port of the gateway, 0 for any free one (default 8080)")
    demo.add_argument("--pace", type=float, default=0.05, help="seconds between two frames of the upstream")
    demo.set_defaults(run=_demo)

    check = commands.add_parser("check", help="validate a configuration and show what it means")
    _add_config(check)
    check.set_defaults(run=_check)

    translate = commands.add_parser(
        "translate", help="translate a request body, a reply or a recorded .sse stream; losses go to stderr"
    )
    translate.add_argument("--from", dest="source", required=True, choices=_DIALECTS, help="dialect of the input")
    translate.add_argument("--to", dest="target", required=True, choices=_DIALECTS, help="dialect to translate into")
    translate.add_argument("--kind", choices=KINDS, help="what the input is (default: told by it)")
    _add_translation(translate)
    translate.set_defaults(run=_translate)

    explain = commands.add_parser(
        "explain",
        help="what a request body would become, its losses and renames",
        description="What an upstream would be sent for a client's request, and what would be lost. Nothing is sent.",
    )
    told = "the one its fields belong to, as stderr then tells; if they fit more than one, you are asked"
    explain.add_argument("--from", dest="source", choices=_DIALECTS, help=f"dialect of the request (default: {told})")
    explain.add_argument("--to", dest="target", required=True, choices=_DIALECTS, help="dialect of the upstream")
    explain.add_argument("--client", choices=list(BY_NAME), help="the known client that sends it (default: none)")
    explain.add_argument("--json", action="store_true", help="the same as JSON, the body byte for byte")
    _add_translation(explain)
    explain.set_defaults(run=_explain)

    # Its words are the rig's own: `main` hands them over before they come here.
    commands.add_parser("bench", help="measure gateways side by side on this machine (bench --help)", add_help=False)
    return parser


def _add_translation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="model name to write (default: the input's own)")
    parser.add_argument("--profile", help="profile of the upstream (default: its vendor's)")
    parser.add_argument(
        "--knob", action="append", default=[], metavar="NAME=VALUE", help="set a knob, e.g. on_loss=reject"
    )
    parser.add_argument("file", metavar="FILE", help="input, - for standard input")


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config", nargs="?", metavar="CONFIG.toml", help="configuration file (default: from the environment)"
    )
    parser.add_argument("--base-url", help="one upstream, without a file; its key is read from UPSTREAM_API_KEY")
    parser.add_argument("--dialect", choices=_DIALECTS, help="what that upstream speaks (default chat)")


def _config(args: argparse.Namespace) -> Config:
    if args.config is None:
        return config_from_environment(os.environ, base_url=args.base_url, dialect=args.dialect)
    if args.base_url or args.dialect:
        raise ConfigError("--base-url" if args.base_url else "--dialect", "goes without a configuration file")
    return load_config(args.config)


def _worker_count(word: str) -> int:
    if word != "auto" and not word.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number or auto; got {word!r}")
    return 0 if word == "auto" else int(word)


def _served_config(args: argparse.Namespace) -> Config:
    """The configuration with what the command line says otherwise. Raises ConfigError."""
    config = _config(args)
    wishes = {"host": args.host, "port": args.port, "workers": args.workers}
    given = {name: wish for name, wish in wishes.items() if wish is not None}
    config = replace(config, server=replace(config.server, **given))
    config.check()
    return config


def _serve(args: argparse.Namespace) -> int:
    config = _served_config(args)
    if config.server.workers != 1:
        return _serve_with_workers(args, config)

    from .notify import notify
    from .running import run_loop, running, until_told_to_stop

    async def serve() -> int:
        async with running(config) as up:
            print(f"dragoman listens on {up.url}", file=sys.stderr)
            _describe(up.config)
            notify("READY=1")
            await until_told_to_stop()
            notify("STOPPING=1")
            print("dragoman stops", file=sys.stderr)
        return 0

    return run_loop(serve())


def _serve_with_workers(args: argparse.Namespace, config: Config) -> int:
    if sys.platform == "win32":
        raise ConfigError("server.workers", "more than one needs a POSIX system; leave it out, or set it to 1")
    from .running import run_loop
    from .workers import Supervisor, cores

    def announce(url: str, config: Config) -> None:
        print(f"dragoman listens on {url} with workers: {config.server.workers or cores()}", file=sys.stderr)
        _describe(config)

    async def supervise() -> int:
        supervisor = Supervisor(config, lambda: _served_config(args), announce, log_level=logging.getLogger().level)
        return await supervisor.run()

    return run_loop(supervise())


def _demo(args: argparse.Namespace) -> int:
    from .demo import demo
    from .running import run_loop

    return run_loop(demo(port=args.port, pace=args.pace, once=args.once))


def _check(args: argparse.Namespace) -> int:
    config = _config(args)
    config.check()
    _describe(config)
    print("the configuration is fine", file=sys.stderr)
    return 0


def _translate(args: argparse.Namespace) -> int:
    source, target = Dialect(args.source), Dialect(args.target)
    data = _input(args)
    kind = args.kind or kind_of(data)
    out, losses = convert(
        data,
        source,
        target,
        kind=kind,
        model=args.model,
        profile=_profile(args, target if kind == "request" else source),
        knobs=_knobs(args.knob),
    )
    _print(out)
    for row in losses.rows:
        print(f"loss {row.code} at {row.path}: {row.done}", file=sys.stderr)
    if not losses:
        print("no losses", file=sys.stderr)
    return 0


def _explain(args: argparse.Namespace) -> int:
    data = _input(args)
    payload = parse_body(data)
    source = Dialect(args.source) if args.source else guess_client(payload, "--from ")
    target = Dialect(args.target)
    knobs, named = _knobs(args.knob), {setting.partition("=")[0] for setting in args.knob}
    translation = translate(
        direction(source, target),
        data,
        payload=payload,
        upstream_model=args.model,
        profile=_profile(args, target),
        knobs=adapted(knobs, named).get(args.client, knobs),
    )
    told = explanation(translation, profile=args.profile or VENDOR[target], client_profile=args.client)
    if not args.source:
        print(f"read as a {source} request, which its fields say it is; --from says otherwise", file=sys.stderr)
    _print(dumps(told) if args.json else as_text(told).encode("utf-8", "backslashreplace"))
    return 0


def _bench(words: Sequence[str]) -> int:
    """The rig's command line; its short run unless `--full` is said."""
    try:
        from dragoman_bench.cli import main as bench
    except ImportError as error:
        print(f"dragoman bench cannot run here, it is made for Linux: {error}", file=sys.stderr)
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
    names = [name for dialect, name in SHIPPED if dialect == upstream]
    if args.profile is not None and args.profile not in names:
        told = f"expected one of {', '.join(names)} for {upstream}; got {args.profile!r}{closest(args.profile, names)}"
        raise ConfigError("--profile", told)
    return shipped(upstream, args.profile)


def _knobs(settings: Sequence[str]) -> Knobs:
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, word = setting.partition("=")
        if name not in KNOBS:
            raise ConfigError(f"--knob {setting}", f"expected one of {', '.join(KNOBS)}{closest(name, KNOBS)}")
        values[name] = value = from_word(KNOBS[name], word)
        if wrong := misfit(KNOBS[name], value):
            raise ConfigError(f"--knob {setting}", wrong)
    return Knobs(**values)


def _describe(config: Config) -> None:
    """What the gateway is going to do, in a few lines and without a key."""
    if config.simulated:
        print(
            "  no upstream is configured: replies come from the simulated upstream (models sim-text, sim-tools, …);",
            file=sys.stderr,
        )
        print(
            "  set OPENAI_API_KEY or ANTHROPIC_API_KEY, give --base-url, or write a configuration file", file=sys.stderr
        )
    for provider in config.providers.values():
        key = "with a key" if provider.api_key is not None else "without a key"
        where = redact(provider.base_url) or "(simulated)"
        profile = f", profile {provider.profile_name}" if provider.profile_name else ""
        print(f"  provider {provider.name}: {provider.dialect} at {where}, {key}{profile}", file=sys.stderr)
    for route in config.routes:
        only = f" (for {route.client} clients)" if route.client else ""
        to = f" as {route.upstream_model}" if route.upstream_model else ""
        print(f"  model {route.model} → {route.provider}{to}{only}", file=sys.stderr)
    models = config.models
    for size, name in (("big", models.big), ("small", models.small)):
        if name:
            print(f"  {size} models → {name}", file=sys.stderr)
    for sentence in (*open_doors(config), *remarks(config)):
        print(f"  {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

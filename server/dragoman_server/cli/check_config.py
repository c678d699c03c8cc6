"""`dragoman check`: validates a configuration, describes it, and with `--connect` sends each upstream a request."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dragoman.gateway import CLIENT_DIALECTS
from dragoman.wire import json_dumps
from dragoman_server.accounts.keys.record import written_moment
from dragoman_server.cli.check_start import start_problems, start_remarks
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.config_source import served_config, set_address
from dragoman_server.cli.connect import Attempt, try_upstreams
from dragoman_server.cli.describe_config import describe
from dragoman_server.cli.options import add_config
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.lint import remarks, warn_if_exposed
from dragoman_server.config.schema import Config
from dragoman_server.config.shown_url import shown_url
from dragoman_server.config.stored_files import stored_files
from dragoman_server.observability.logs import print_line
from dragoman_server.workers.serve import run_loop


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object on standard output")
    parser.add_argument(
        "--connect",
        action="store_true",
        help="also send each upstream an empty request, which costs nothing",
    )
    parser.add_argument(
        "--tools",
        action="store_true",
        help="with --connect: in its place, ask each model for one small tool call in each dialect, which costs tokens",
    )
    parser.add_argument(
        "--ask",
        action="append",
        default=[],
        metavar="PROVIDER/MODEL",
        help="with --tools: a model to ask; may be repeated (default: all that the configuration names)",
    )
    # Defaults for `served_config`: the address is that of `serve` without options.
    parser.set_defaults(run=main, host=None, port=None, workers=None)


def main(args: argparse.Namespace) -> int:
    """Check the configuration. Return 0, 1 if an upstream failed, or 2 for an invalid configuration (with `--json`).

    Without `--json` an invalid configuration raises ConfigError. Raises CommandError for options that do not fit.
    """
    if args.tools and not args.connect:
        raise CommandError("--tools", "needs --connect, as it sends requests")
    if args.ask and not args.tools:
        raise CommandError("--ask", "needs --connect --tools")
    try:
        set_address(args, os.environ)
        config = served_config(args)
        config.check()
        if problems_here := list(start_problems(config)):
            raise ConfigError.of(problems_here)
    except ConfigError as error:
        if not args.json:
            raise
        problems = [{"path": path, "message": message} for path, message in error.problems]
        _print({"object": "dragoman.check", "ok": False, "problems": problems})
        return 2
    if args.tools:
        return _check_tools(config, args.ask, as_json=args.json)
    attempts = run_loop(try_upstreams(config)) if args.connect else None
    ok = all(attempt.ok for attempt in attempts or ())
    if args.json:
        _print(_as_data(config, ok, attempts))
    else:
        describe(config)
        for sentence in start_remarks(config):
            print_line(f"  {sentence}")
        for attempt in attempts or ():
            print(f"  provider {attempt.provider}: {attempt.message} ({attempt.seconds:.2f} s)", file=sys.stderr)
        failed = sum(not attempt.ok for attempt in attempts or ())
        advice = f"{failed} of the providers did not answer as expected: check base_url, api_key and the network"
        print("the configuration is valid" if ok else advice, file=sys.stderr)
    return 0 if ok else 1


def _check_tools(config: Config, names: Sequence[str], *, as_json: bool) -> int:
    """Ask the models for tool calls, and print the report. Return 0 if there is no difference, else 1."""
    from dragoman_server.cli.tool_calls.ask import ask
    from dragoman_server.cli.tool_calls.question import OUTPUT_MAX, models_to_ask, unasked
    from dragoman_server.cli.tool_calls.report import Report

    models = models_to_ask(config, names)
    print_line(f"tool calls to ask for: {len(models) * len(CLIENT_DIALECTS)}, of {OUTPUT_MAX} tokens at most")
    log = logging.getLogger("dragoman")
    level = log.level
    log.setLevel(logging.CRITICAL)  # the report has all that its lines would
    try:
        answers = run_loop(ask(config, models))
    finally:
        log.setLevel(level)
    report = Report(answers, [] if names else unasked(config, models))
    if as_json:
        data = _as_data(config, report.ok, None)
        _print({**data, "tools": report.json()})
    else:
        for line in report.lines():
            print(line)
    return 0 if report.ok else 1


def _as_data(config: Config, ok: bool, attempts: Sequence[Attempt] | None) -> dict[str, Any]:
    server, models = config.server, config.models
    data: dict[str, Any] = {
        "object": "dragoman.check",
        "ok": ok,
        "problems": [],
        "remarks": [*warn_if_exposed(config), *remarks(config), *start_remarks(config)],
        "files": {file.key: file.path for file in stored_files(config)},
        "simulated": config.simulated,
        "server": {"host": server.host, "port": server.port, "workers": server.workers, "keys": len(server.keys)},
        "providers": [
            {
                "name": provider.name,
                "dialect": provider.dialect.value,
                "base_url": shown_url(provider.base_url),
                "key": provider.has_key,
                "auth": provider.auth.value,
                "profile": provider.profile_name or None,
            }
            for provider in config.providers.values()
        ],
        "routes": [
            {
                "model": route.model,
                "provider": route.provider,
                "providers": [asdict(target) for target in route.targets],
                "upstream_model": route.upstream_model,
                "client": route.client.value if route.client else None,
                "knobs": dict(route.knobs),
            }
            for route in config.routes
        ],
        "keys": [
            {
                "name": record.name,
                "id": record.id,
                "models": list(record.models),
                "limits": {name: value for name, value in asdict(record.limits).items() if value},
                "expires": written_moment(record.expires) if record.expires is not None else None,
                "admin": record.admin,
            }
            for record in config.keys.values()
        ],
        "store": {"kind": config.store.kind, "keys": config.store.holds_keys, "on_failure": config.store.on_failure},
        "models": {"big": models.big, "small": models.small, "unknown": models.policy},
    }
    if attempts is not None:
        data["connect"] = [
            {
                "provider": attempt.provider,
                "ok": attempt.ok,
                "status": attempt.status,
                "seconds": round(attempt.seconds, 3),
                "message": attempt.message,
            }
            for attempt in attempts
        ]
    return data


def _print(data: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json_dumps(data) + b"\n")
    sys.stdout.buffer.flush()

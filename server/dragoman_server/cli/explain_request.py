"""`dragoman explain`: shows the upstream request for a client's request body, by options or by a configuration."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from dragoman import Dialect, Translation, direction, translate
from dragoman.gateway import CLIENT_DIALECTS, VENDOR_PROFILES, parse_body
from dragoman.wire import Json, json_dumps
from dragoman_server.cli.named_files import read_input, write_result
from dragoman_server.cli.options import add_dialect
from dragoman_server.cli.translation_options import add_translation, knobs_of, profile_of
from dragoman_server.config.load import load_config
from dragoman_server.endpoints.explain import as_text, explanation, guess_client
from dragoman_server.proxy.configured_fields import with_fields
from dragoman_server.proxy.longest_reply import longest_reply
from dragoman_server.proxy.request_body import read_model
from dragoman_server.routing.client_profiles import BY_NAME, knobs_by_client
from dragoman_server.routing.router import Router


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = "Show the request that an upstream would receive, and what would be lost. Nothing is sent."
    add_dialect(
        parser,
        "--from",
        CLIENT_DIALECTS,
        dest="source",
        help="dialect of the request (default: detected by its fields)",
    )
    add_dialect(parser, "--to", dest="target", help="dialect of the upstream (default: that of the route in --config)")
    parser.add_argument("-c", "--config", metavar="FILE", help="configuration whose routes and knobs apply")
    parser.add_argument("--client", choices=list(BY_NAME), help="the known client that sends it (default: none)")
    parser.add_argument("--json", action="store_true", help="print JSON, with the body byte for byte")
    add_translation(parser)
    parser.set_defaults(run=lambda args: main(args, parser.error))


def main(args: argparse.Namespace, misused: Callable[[str], NoReturn]) -> int:
    """Print the explanation. Raises ConfigError, DragomanError; `misused(message)` exits with the command's usage."""
    if args.config is None and args.target is None:
        misused("--to is required, or --config, whose routes select the upstream")
    for option, value in (("--to", args.target), ("--profile", args.profile), ("--knob", args.knob)):
        if args.config is not None and value:
            misused(f"{option} cannot be combined with --config, whose routes select the upstream")
    data = read_input(args.file)
    payload = parse_body(data)
    source = Dialect(args.source) if args.source else guess_client(payload, "--from ")
    if args.config is not None:
        explained = _by_config(args, data, payload, source)
    else:
        explained = _by_dialect(args, data, payload, source)
    if not args.source:
        print(f"read as a {source} request, because of its fields; use --from for another dialect", file=sys.stderr)
    write_result(json_dumps(explained) if args.json else as_text(explained).encode("utf-8", "backslashreplace"))
    return 0


def _by_config(args: argparse.Namespace, data: bytes, payload: Json, source: Dialect) -> Json:
    """Explain as the gateway's endpoint does for this configuration. `--model` replaces the request's model."""
    config = load_config(args.config)
    target = Router(config).resolve(args.model or read_model(payload), source)
    provider = target.provider
    job = partial(
        translate,
        direction(source, provider.dialect),
        data,
        payload=payload,
        upstream_model=target.upstream_model,
        profile=provider.profile,
        knobs=target.knobs_for(args.client if config.server.client_profiles else None),
        limits=config.server.limits,
    )
    translation = with_fields(job, provider) if provider.changes_requests else job()
    reservation: Json | None = None
    if config.named_keys and config.store.reserve:
        reserved = longest_reply(payload, provider.profile, target.upstream_model, config.store)
        reservation = {"output_tokens": reserved.tokens, "by": reserved.source}
    client = args.client
    return explanation(translation, provider, target.warning, client_profile=client, reservation=reservation)


def _by_dialect(args: argparse.Namespace, data: bytes, payload: Json, source: Dialect) -> Json:
    target = Dialect(args.target)
    general, named = knobs_of(args.knob), {setting.partition("=")[0] for setting in args.knob}
    translation: Translation = translate(
        direction(source, target),
        data,
        payload=payload,
        upstream_model=args.model,
        profile=profile_of(args, target),
        knobs=knobs_by_client(general, named).get(args.client, general),
    )
    return explanation(translation, profile=args.profile or VENDOR_PROFILES[target], client_profile=args.client)

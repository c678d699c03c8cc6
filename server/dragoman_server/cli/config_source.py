"""Loading of a command's configuration from a file, the working directory or the environment."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman_server.cli.command_error import CommandError
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.lint import is_local
from dragoman_server.config.load import KEY_VARIABLES, load_config, simulated_config
from dragoman_server.config.schema import Config

log = logging.getLogger("dragoman")

DEFAULT_FILE = "dragoman.toml"
"""The configuration file in the working directory; it is read if the command line names no upstream."""


def ways_to_configure(args: argparse.Namespace, command: str) -> str:
    """Return the ways to name an upstream for a command, as commands to copy."""
    agent = getattr(args, "agent", None)
    command, file = (f"dragoman {command} {agent}", "-c FILE.toml") if agent else (f"dragoman {command}", "FILE.toml")
    rows = [
        (f"{command} {file}", f"a configuration file; ./{DEFAULT_FILE} is found without its name"),
        ("dragoman init", f"writes ./{DEFAULT_FILE}, with comments, to fill in"),
        (", ".join(KEY_VARIABLES), "in the environment, for these vendors"),
        (f"{command} --base-url URL", "one upstream, such as http://127.0.0.1:11434/v1; its key in UPSTREAM_API_KEY"),
    ]
    if "simulate" in args:
        rows.append((f"{command} --simulate", "simulated replies, to try it without a model"))
    width = max(len(way) for way, _ in rows)
    ways = [f"  {way.ljust(width)}  {about}" for way, about in rows]
    return "\n".join(["dragoman: no upstream is configured. Use one of:", *ways])


def read_config(args: argparse.Namespace) -> Config:
    """Return the configuration of the command line, else of `./dragoman.toml`, else of the environment.

    Raises NothingConfigured if there is no configuration, and other ConfigErrors.
    """
    model = getattr(args, "default_model", None)
    if getattr(args, "simulate", False):
        if args.config or args.base_url or args.dialect or model:
            others = "a configuration file, --base-url, --dialect or --model"
            raise CommandError("--simulate", f"cannot be combined with {others}")
        return simulated_config()
    if args.config is None and not (args.base_url or args.dialect) and Path(DEFAULT_FILE).is_file():
        args.config = DEFAULT_FILE  # a reload reads the same file again
        log.info("the configuration is %s", Path(DEFAULT_FILE).resolve())
    if args.config is None:
        with _named({"base_url": "--base-url", "dialect": "--dialect", "api_key": "UPSTREAM_API_KEY"}):
            return config_from_environment(os.environ, base_url=args.base_url, dialect=args.dialect, model=model)
    for option, value in (("--base-url", args.base_url), ("--dialect", args.dialect)):
        if value:
            raise CommandError(option, "cannot be combined with a configuration file")
    if model:
        raise CommandError("--model", f"cannot be combined with {args.config}: set models.big and models.small there")
    return load_config(args.config)


@contextmanager
def _named(names: Mapping[str, str]) -> Iterator[None]:
    """Let a ConfigError name the options and variables, instead of the keys, that its values are from."""
    try:
        yield
    except ConfigError as error:
        error.problems = [(names.get(path, path), message) for path, message in error.problems]
        raise


def set_address(args: argparse.Namespace, env: Mapping[str, str]) -> None:
    """Set the host and port that the command line leaves out from DRAGOMAN_HOST and DRAGOMAN_PORT.

    Both take precedence over the file, as the address inside a container does not depend on what it serves. Raises
    ConfigError for a port that is not a number. A URL is ignored: Kubernetes sets such a DRAGOMAN_PORT for a service
    with the name `dragoman`.
    """
    args.named = {f"server.{name}": f"--{name}" for name in ("host", "port") if getattr(args, name) is not None}
    if args.host is None and env.get("DRAGOMAN_HOST"):
        args.host, args.named["server.host"] = env["DRAGOMAN_HOST"], "DRAGOMAN_HOST"
    port = env.get("DRAGOMAN_PORT", "")
    if args.port is None and port and "://" not in port:
        if not (port.isascii() and port.isdigit()):
            raise ConfigError("DRAGOMAN_PORT", f'expected a port; got "{port}"')
        args.port, args.named["server.port"] = int(port[:9]), "DRAGOMAN_PORT"


def served_config(args: argparse.Namespace) -> Config:
    """Return the configuration to serve, with the host, port and workers of the command line.

    Raises ConfigError, also for `serve` without `--insecure` on an address that others can reach if no key is required.
    """
    config = read_config(args)
    options = {"host": args.host, "port": args.port, "workers": args.workers}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if getattr(args, "ui", False):
        given["ui"] = True
    config = replace(config, server=replace(config.server, **given))
    names = {"server.workers": "--workers"} if args.workers is not None else {}
    with _named({**names, **getattr(args, "named", {})}):
        config.check()
    host = config.server.host
    if not (getattr(args, "insecure", True) or config.requires_key or is_local(host)):
        message = (
            f"others can reach {host or 'this machine'}, and no key is required: set server.keys or [keys.NAME],"
            " or serve with --insecure if something else protects the gateway"
        )
        raise ConfigError("server.host", message)
    return config

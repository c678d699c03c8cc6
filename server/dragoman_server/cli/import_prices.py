"""`dragoman prices import`: writes the prices of the configured models from a public list."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from dragoman import DragomanError
from dragoman.gateway import CLIENT_DIALECTS
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.config_source import DEFAULT_FILE
from dragoman_server.cli.imports.imported import printable
from dragoman_server.cli.imports.litellm_prices import read_litellm
from dragoman_server.cli.imports.models_dev_prices import read_models_dev, vendors_of
from dragoman_server.cli.imports.price_list import ListedPrice
from dragoman_server.cli.imports.price_vendors import vendors_of_host
from dragoman_server.cli.named_files import add_output, read_input, write_output
from dragoman_server.config.config_error import join
from dragoman_server.config.load import load_config
from dragoman_server.config.price_tables import FILE
from dragoman_server.config.schema import Config
from dragoman_server.config.value_problems import closest, unknown
from dragoman_server.routing.router import Router

LITELLM, MODELS_DEV = "LiteLLM", "models.dev"
_SHOWN = 20
"""Most models that a message names."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    about = "write the prices of the configured models from LiteLLM's or models.dev's list"
    imports = actions.add_parser("import", help=about)
    imports.add_argument("file", metavar="FILE", help="model_prices_and_context_window.json or api.json; - for stdin")
    imports.add_argument(
        "-c", "--config", metavar="FILE", help=f"configuration with the models (default ./{DEFAULT_FILE})"
    )
    add_output(imports)
    imports.add_argument("--all", action="store_true", help="all models of the providers' vendors")
    imports.add_argument(
        "--vendor",
        action="append",
        default=[],
        metavar="PROVIDER=NAME",
        help="the name that the list has for a provider's vendor, where its host does not tell",
    )
    imports.set_defaults(run=main)


@dataclass(slots=True)
class PriceList:
    """A public list: where it is from, its content, and the prices in it by vendor and model."""

    origin: str
    data: Mapping[str, Any]
    prices: Mapping[tuple[str, str], ListedPrice]

    @property
    def vendors(self) -> list[str]:
        """The names of the vendors, sorted."""
        return sorted({vendor for vendor, _ in self.prices})

    def find(self, vendors: Iterable[str], model: str) -> ListedPrice | None:
        """Return the price of a model at the first of the vendors that has one."""
        return next((found for vendor in vendors if (found := self.prices.get((vendor, model))) is not None), None)


@dataclass(slots=True)
class _Selection:
    """The prices to write, by provider and upstream's model, and the models without one."""

    found: dict[tuple[str, str], ListedPrice] = field(default_factory=dict)
    missing: list[tuple[str, str]] = field(default_factory=list)


def main(args: argparse.Namespace) -> int:
    """Write the prices. Return 0, or 1 without any or if the output exists. Raises CommandError, ConfigError."""
    listed = read_list(args.file)
    if args.config is None and not Path(DEFAULT_FILE).is_file():
        raise CommandError("--config", f"there is no ./{DEFAULT_FILE}: name the configuration")
    path = args.config or DEFAULT_FILE
    config = load_config(path, price_file=False)
    vendors = _vendors(config, listed, args.vendor)
    selected = _select(config, listed, vendors, everything=args.all)
    if not selected.found:
        _report(selected, vendors)
        print("dragoman: no price of the list is for a model of the configuration", file=sys.stderr)
        return 1
    if not write_output(_toml(selected, listed), args.output, force=args.force):
        return 1
    _report(selected, vendors)
    if args.output != "-":
        print(f'wrote {args.output}. Name it in {path}: [prices] {FILE} = "{args.output}"', file=sys.stderr)
    return 0


def read_list(path: str) -> PriceList:
    """Return the list in a file. Raises CommandError for another one, OSError if it cannot be read."""
    raw = read_input(path)
    try:
        data = json.loads(raw.decode("utf-8-sig"), parse_float=Decimal)
    except (ValueError, RecursionError):
        raise CommandError(path, "is not JSON") from None
    if isinstance(data, dict):
        if _has(data, "litellm_provider"):
            return _listed(LITELLM, data, read_litellm(data))
        if _has(vendors_of(data), "models"):
            return _listed(MODELS_DEV, data, read_models_dev(data))
    raise CommandError(path, "is neither LiteLLM's model_prices_and_context_window.json nor models.dev's api.json")


def _has(entries: Mapping[str, Any], key: str) -> bool:
    return any(isinstance(entry, dict) and key in entry for entry in entries.values())


def _listed(origin: str, data: Mapping[str, Any], prices: Iterable[ListedPrice]) -> PriceList:
    return PriceList(origin, data, {(price.vendor, price.model): price for price in prices})


def _vendors(config: Config, listed: PriceList, named: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the vendors of each provider: those that the command line names, or else those of its host."""
    litellm, known = listed.origin == LITELLM, listed.vendors
    found = {
        name: vendors_of_host(provider.base_url, listed.data, litellm=litellm)
        for name, provider in config.providers.items()
    }
    for pair in named:
        name, _, vendor = pair.partition("=")
        if name not in config.providers:
            raise CommandError("--vendor", unknown("provider", name, config.providers))
        if vendor not in known:
            raise CommandError("--vendor", f'the list has no vendor "{vendor}"{closest(vendor, known)}')
        found[name] = (vendor,)
    return found


def _select(
    config: Config, listed: PriceList, vendors: Mapping[str, tuple[str, ...]], *, everything: bool
) -> _Selection:
    """Return the prices of the models that routes lead to, without those that the configuration itself has."""
    own, router, selected = config.price_table(), Router(config), _Selection()
    named = dict.fromkeys(target for name, _ in router.known_models() for target in _targets(router, name))
    wanted = dict(named)
    every = {vendor for group in vendors.values() for vendor in group}
    for vendor, model in listed.prices:
        if vendor in every:
            wanted.update(dict.fromkeys(_targets(router, model)))
    if everything:
        wanted.update(
            ((provider, model), None)
            for provider, group in vendors.items()
            for vendor, model in listed.prices
            if vendor in group
        )
    for provider, model in wanted:
        if own.has(model, provider):
            continue
        price = listed.find(vendors[provider], model)
        if price is not None:
            selected.found[provider, model] = price
        elif (provider, model) in named:
            selected.missing.append((provider, model))
    return selected


def _targets(router: Router, model: str) -> Iterator[tuple[str, str]]:
    """Yield the providers and upstream's models that requests for a model can be sent to."""
    for client in CLIENT_DIALECTS:
        with suppress(DragomanError):  # no route, or one for clients of another dialect
            yield from ((each.provider.name, each.upstream_model) for each in router.resolve(model, client).candidates)


def _toml(selected: _Selection, listed: PriceList) -> str:
    lines = [f"# Prices of {listed.origin}'s list in US dollars, by `dragoman prices import`, which writes it anew."]
    for (provider, model), price in sorted(selected.found.items(), key=lambda item: item[0]):
        lines += ["", *price.lines(join(f"{join('providers', provider)}.prices", model))]
    return "\n".join(lines) + "\n"


def _report(selected: _Selection, vendors: Mapping[str, tuple[str, ...]]) -> None:
    """Print what was not taken, to standard error."""
    for provider, group in vendors.items():
        if not group:
            print(f"provider {provider}: name its vendor as the list does, --vendor {provider}=NAME", file=sys.stderr)
    rows = [f"{model} of provider {provider}" for provider, model in selected.missing if vendors[provider]]
    if rows:
        print(f"not in the list: {_some(rows)}", file=sys.stderr)
    left = Counter(key for price in selected.found.values() for key in price.left_out)
    for key, count in sorted(left.items()):
        print(f"not taken: {printable(key)} of {count} model{'s' * (count > 1)}", file=sys.stderr)


def _some(rows: list[str]) -> str:
    more = f", and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return printable(", ".join(rows[:_SHOWN])) + more

"""The Dragoman gateway: an aiohttp application, its configuration and its command line, around the `dragoman` engine.

`setup` mounts it in an application, `make_app` makes one of its own. The names in `__all__` are public, and those of
`dragoman_server.config`, the parts of a `Config`.

It imports only the public names of `dragoman`. Start with `app.py`, then `proxy/gateway.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman import Dialect
    from dragoman_server.app import make_app, setup
    from dragoman_server.config.config_error import ConfigError
    from dragoman_server.config.environment import config_from_environment
    from dragoman_server.config.load import load_config, parse_config
    from dragoman_server.config.provider import Provider, Secret
    from dragoman_server.config.route import Route
    from dragoman_server.config.schema import Config, Server
    from dragoman_server.observability.exchange_record import ExchangeRecord, Principal
    from dragoman_server.proxy.gateway import Gateway
    from dragoman_server.proxy.hooks import Authorize, Choose, Hooks, OnEnd, Target

__all__ = (
    "Authorize",
    "Choose",
    "Config",
    "ConfigError",
    "Dialect",
    "ExchangeRecord",
    "Gateway",
    "Hooks",
    "OnEnd",
    "Principal",
    "Provider",
    "Route",
    "Secret",
    "Server",
    "Target",
    "config_from_environment",
    "load_config",
    "make_app",
    "parse_config",
    "setup",
)

_PLACES = {
    "dragoman": ("Dialect",),
    "dragoman_server.app": ("make_app", "setup"),
    "dragoman_server.config.config_error": ("ConfigError",),
    "dragoman_server.config.environment": ("config_from_environment",),
    "dragoman_server.config.load": ("load_config", "parse_config"),
    "dragoman_server.config.provider": ("Provider", "Secret"),
    "dragoman_server.config.route": ("Route",),
    "dragoman_server.config.schema": ("Config", "Server"),
    "dragoman_server.observability.exchange_record": ("ExchangeRecord", "Principal"),
    "dragoman_server.proxy.gateway": ("Gateway",),
    "dragoman_server.proxy.hooks": ("Authorize", "Choose", "Hooks", "OnEnd", "Target"),
}
"""The names by the modules that define them. The command line imports none of them for `--help`."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name at its first use (PEP 562)."""
        for place, names in _PLACES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(place), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

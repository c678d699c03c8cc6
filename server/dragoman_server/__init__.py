"""The Dragoman gateway: an aiohttp application, its configuration and its command line, around the `dragoman` engine.

`setup` mounts it in an application, `make_app` makes one of its own. It imports only `dragoman` and `dragoman.aio`.
Start with `app.py`, then `proxy/gateway.py`.
"""

from dragoman import Dialect
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import KeyHash
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.limits.prices import Prices
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.app import make_app, setup
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.load import load_config, parse_config
from dragoman_server.config.overload import Overload
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config, Route, Server
from dragoman_server.config.telemetry import Telemetry
from dragoman_server.config.toml_reader import ConfigError
from dragoman_server.config.websocket import WebSocketOptions
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
    "KeyHash",
    "KeyLimits",
    "KeyRecord",
    "OnEnd",
    "Overload",
    "Prices",
    "Principal",
    "Provider",
    "RetryOptions",
    "Route",
    "RouteTarget",
    "Secret",
    "Server",
    "StoreOptions",
    "Target",
    "Telemetry",
    "WebSocketOptions",
    "config_from_environment",
    "load_config",
    "make_app",
    "parse_config",
    "setup",
)

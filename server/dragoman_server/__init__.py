"""The Dragoman gateway: configuration, routing and an aiohttp application around the `dragoman` engine."""

from dragoman.protocols import Dialect

from .app import make_app, setup
from .config import config_from_environment, load_config, parse_config
from .gateway import Gateway
from .providers import Provider
from .settings import Config, Route, Server
from .tables import ConfigError

__all__ = (
    "Config",
    "ConfigError",
    "Dialect",
    "Gateway",
    "Provider",
    "Route",
    "Server",
    "config_from_environment",
    "load_config",
    "make_app",
    "parse_config",
    "setup",
)

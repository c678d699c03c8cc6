"""The Dragoman gateway: an aiohttp application, its configuration and its command line, around the `dragoman` engine.

May import `dragoman`; nothing imports it but applications that embed it. Start with `app.py` (the routes), then
`proxy/gateway.py` (one request).
"""

from dragoman.dialects import Dialect
from dragoman_server.app import make_app, setup
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.load import load_config, parse_config
from dragoman_server.config.providers import Provider
from dragoman_server.config.schema import Config, Route, Server
from dragoman_server.config.toml_reader import ConfigError
from dragoman_server.proxy.gateway import Gateway

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

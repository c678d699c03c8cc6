"""The configuration: its schema, and its readers for TOML, a dict and the environment.

The names in `__all__` are public: parts of a `Config` that is made in Python. Each is imported when it is first used.

May import the engine only (`lint` also imports `routing`); every other package of the server may import it.
Start with `setting.py`, then `schema.py` and `load.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dragoman_server.accounts.keys.record import KeyRecord
    from dragoman_server.accounts.keys.secret import KeyHash
    from dragoman_server.accounts.limits.key_limits import KeyLimits
    from dragoman_server.accounts.limits.prices import Prices
    from dragoman_server.accounts.store.options import StoreOptions
    from dragoman_server.config.credential_options import CredentialOptions
    from dragoman_server.config.door import Door
    from dragoman_server.config.overload import Overload
    from dragoman_server.config.routing_options import RetryOptions, RouteTarget
    from dragoman_server.config.telemetry import Telemetry
    from dragoman_server.config.websocket import WebSocketOptions

__all__ = (
    "CredentialOptions",
    "Door",
    "KeyHash",
    "KeyLimits",
    "KeyRecord",
    "Overload",
    "Prices",
    "RetryOptions",
    "RouteTarget",
    "StoreOptions",
    "Telemetry",
    "WebSocketOptions",
)

_MODULES: Final = {
    "CredentialOptions": "config.credential_options",
    "Door": "config.door",
    "KeyHash": "accounts.keys.secret",
    "KeyLimits": "accounts.limits.key_limits",
    "KeyRecord": "accounts.keys.record",
    "Overload": "config.overload",
    "Prices": "accounts.limits.prices",
    "RetryOptions": "config.routing_options",
    "RouteTarget": "config.routing_options",
    "StoreOptions": "accounts.store.options",
    "Telemetry": "config.telemetry",
    "WebSocketOptions": "config.websocket",
}
"""The modules of the names."""


def __getattr__(name: str) -> Any:
    """Import a name of `_MODULES` (PEP 562)."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"dragoman_server.{module}"), name)
    return value

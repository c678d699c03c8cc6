"""Names of a module that are imported when they are first used (PEP 562)."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(namespace: dict[str, Any], modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, whose globals are `namespace`.

    `modules` has the names, with a space between two, by the modules of its package that define them.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def import_name(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        module = import_module(f"{namespace['__package__']}.{places[name]}")
        value = namespace[name] = getattr(module, name)
        return value

    return import_name

"""The module of each dialect that reads its requests and writes its replies."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from dragoman_server.simulator.api import APIS

RENDERERS: Final[dict[str, ModuleType]] = {
    dialect: import_module(f"dragoman_server.simulator.render_{dialect}") for dialect in APIS
}
"""Dialect → its module: `read` a request, `frames` of a stream, `whole_reply`, `book` what a reply generated, and the
counts that are `reported` by bytes of it."""

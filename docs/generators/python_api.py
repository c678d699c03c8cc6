"""Generates python-api/: the public names of each package, with their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from generators.docstrings import source_tree, variable_docstring, variables

PACKAGES = (
    "dragoman",
    "dragoman.errors",
    "dragoman.aio",
    "dragoman.threads",
    "dragoman.wire",
    "dragoman.gateway",
    "dragoman_server",
    "dragoman_server.asgi",
    "dragoman_server.config",
)
"""The packages and modules whose `__all__` is public, those first that most programs need."""
FIRST = {
    "dragoman": ("direction", "translate", "Translation", "StreamMachine", "Knobs", "builtin_profile", "DragomanError"),
    "dragoman.aio": ("stream",),
    "dragoman_server": ("setup", "make_app", "load_config"),
    "dragoman_server.asgi": ("app",),
}
"""The names that most programs need, in the order in which they need them."""

_CONTENTS = """\
# Python API

{made}

The names in these packages and modules are public. All others may change in any release. How to use them:
[translate offline](../../howto/translate-offline.md), [in Starlette or FastAPI](../../howto/translate-in-starlette.md),
[embed the gateway](../../howto/embed-in-aiohttp.md).

## The names to begin with

{first}

## Packages and modules

{packages}
"""
_PAGE = """\
# `{name}`

{made}

{summary}

{groups}
"""
_GROUPS = ("Functions", "Classes", "Exceptions", "Constants and types")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Entry(NamedTuple):
    """A public name: its group, and its text below the heading."""

    name: str
    group: str
    text: str


def pages(made: str) -> dict[str, Callable[[], str]]:
    """Return the functions that return the pages, by file name: one for each package, and the contents."""
    return {
        "README.md": partial(_contents, made),
        **{f"{name}.md": partial(_page, made, name) for name in PACKAGES},
    }


def _contents(made: str) -> str:
    lines = [f"- [`{name}`]({name}.md): {_summary(import_module(name))}" for name in PACKAGES]
    first = [_first(package, name) for package, names in FIRST.items() for name in names]
    return _CONTENTS.format(made=made, first="\n".join(["| name | |", "|---|---|", *first]), packages="\n".join(lines))


def _first(package: str, name: str) -> str:
    text = " ".join((inspect.getdoc(getattr(import_module(package), name)) or "").split())
    return f"| [`{package}.{name}`]({package}.md#{name.lower()}) | {text.partition('. ')[0].rstrip('.')} |"


def _page(made: str, name: str) -> str:
    package = import_module(name)
    entries = [_entry(package, public) for public in _ordered(package)]
    sections = []
    for group in _GROUPS:
        if members := [entry for entry in entries if entry.group == group]:
            sections.append(f"## {group}")
            sections += [f"### `{entry.name}`\n\n{entry.text}" for entry in members]
    return _PAGE.format(made=made, name=name, summary=_summary(package), groups="\n\n".join(sections))


def _ordered(package: ModuleType) -> list[str]:
    """Return the public names: those that the package's docstring mentions in its order, then the others."""
    text = inspect.getdoc(package) or ""
    mentions = {name: re.search(rf"\b{name}\b", text) for name in package.__all__}
    return sorted(package.__all__, key=lambda name: found.start() if (found := mentions[name]) else len(text))


def _summary(package: ModuleType) -> str:
    return (inspect.getdoc(package) or "").partition("\n")[0]


def _entry(package: ModuleType, name: str) -> Entry:
    value = getattr(package, name)
    home, original = _origin(package.__name__, name)
    node = _definition(home, original)
    if isinstance(node, Function):
        return Entry(name, "Functions", _function(node, name))
    if isinstance(node, ast.ClassDef):
        group = "Exceptions" if isinstance(value, type) and issubclass(value, BaseException) else "Classes"
        return Entry(name, group, _class(node, name, value))
    return Entry(name, "Constants and types", _documented(variable_docstring(home, original)))


def _origin(module: str, name: str) -> tuple[str, str]:
    """Return the module that defines `name`, which `module` imports or defines, and its name there."""
    for node in ast.walk(source_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _origin(node.module, alias.name)
    return module, name


def _definition(module: str, name: str) -> ast.stmt | None:
    body = source_tree(module).body
    return next((node for node in body if isinstance(node, Function | ast.ClassDef) and node.name == name), None)


def _function(node: Function, name: str) -> str:
    return f"{_block(_signature(node, name))}\n\n{_documented(ast.get_docstring(node) or '')}".rstrip()


def _signature(node: Function, name: str, *, method: bool = False) -> str:
    parameters = _parameters(node.args)[1 if method else 0 :]
    if method and parameters[:1] == ["/"]:
        del parameters[0]
    start = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{start}{_call(name, parameters)}{result}"


def _parameters(args: ast.arguments) -> list[str]:
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    out = [_declared(arg, default) for arg, default in zip(positional, defaults, strict=True)]
    if args.posonlyargs:
        out.insert(len(args.posonlyargs), "/")
    if args.vararg is not None:
        out.append(f"*{_declared(args.vararg, None)}")
    elif args.kwonlyargs:
        out.append("*")
    out += [_declared(arg, default) for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return [*out, f"**{_declared(args.kwarg, None)}"] if args.kwarg is not None else out


def _declared(arg: ast.arg, default: ast.expr | None) -> str:
    annotation = f": {ast.unparse(arg.annotation)}" if arg.annotation is not None else ""
    return f"{arg.arg}{annotation}{f' = {ast.unparse(default)}' if default is not None else ''}"


def _call(name: str, parameters: list[str]) -> str:
    """Return `name(parameters)`, with a line for each parameter if it is long."""
    separator = ",\n    "
    line = f"{name}({', '.join(parameters)})"
    return line if len(line) <= 100 else f"{name}(\n    {separator.join(parameters)},\n)"


def _class(node: ast.ClassDef, name: str, value: Any) -> str:
    decorators = {ast.unparse(item).partition("(")[0] for item in node.decorator_list}
    bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
    members = [found for found in variables(node.body) if not found[0].startswith("_")]
    parts = []
    methods = [item for item in node.body if isinstance(item, Function)]
    start = next((item for item in methods if item.name == "__init__"), None)
    if start is not None:
        parts.append(_block(re.sub(r" -> None$", "", _signature(start, name, method=True))))
    elif decorators & {"dataclass", "dataclasses.dataclass"} or "NamedTuple" in bases:
        defaults = {field.name: field for field in fields(value)} if is_dataclass(value) else {}
        given = [(item, defaults.get(field)) for field, item, _ in members]
        parts.append(_block(_call(name, [_field(*each) for each in given if each[1] is None or each[1].init])))
    parts.append(_documented(ast.get_docstring(node) or ""))
    meanings = {name: _line(text) for name, _, text in members}
    if isinstance(value, type) and issubclass(value, Enum) and not any(meanings.values()):
        parts.append(f"Members: {', '.join(f'`{member.name}`' for member in value)}.")
    else:
        parts.append("\n".join(f"- `{member}`: {text}" for member, text in meanings.items() if text))
    parts += [_method(item, name) for item in methods if not item.name.startswith("_")]
    return "\n\n".join(filter(None, parts))


def _field(node: ast.Assign | ast.AnnAssign, field: Field[Any] | None) -> str:
    """Return a field's declaration, with its value at run time if the code computes the default."""
    if not isinstance(node, ast.AnnAssign):
        return ast.unparse(node)
    default = ""
    if isinstance(node.value, ast.Call) and field is not None:
        default = _default(field)
    elif node.value is not None:
        default = f" = {ast.unparse(node.value)}"
    return f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}{default}"


def _default(field: Field[Any]) -> str:
    value = field.default
    if isinstance(value, Enum):
        return f" = {type(value).__name__}.{value.name}"
    if value is None or isinstance(value, str | int | float | tuple):
        return f" = {value!r}"
    return "" if value is MISSING and field.default_factory is MISSING else " = …"


def _method(node: Function, owner: str) -> str:
    decorators = {ast.unparse(item) for item in node.decorator_list}
    text = _documented(ast.get_docstring(node) or "")
    if "property" in decorators or "cached_property" in decorators:
        returns = f": {ast.unparse(node.returns)}" if node.returns is not None else ""
        return f"#### `{owner}.{node.name}{returns}`\n\n{text}".rstrip()
    head = f"#### `{owner}.{node.name}`\n\n"
    return f"{head}{_block(_signature(node, node.name, method='staticmethod' not in decorators))}\n\n{text}".rstrip()


def _block(code: str) -> str:
    return f"```py\n{code}\n```"


def _documented(text: str) -> str:
    """Return a docstring as Markdown. Lists and indented code need no change."""
    return text.strip()


def _line(text: str) -> str:
    return " ".join(text.split())

"""Docstrings of variables, which exist in the source only: the string after an assignment."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path


@cache
def source_tree(module: str) -> ast.Module:
    """Return the parsed source of a module."""
    return ast.parse(Path(inspect.getfile(import_module(module))).read_text("utf-8"))


def variables(body: list[ast.stmt]) -> Iterator[tuple[str, ast.Assign | ast.AnnAssign, str]]:
    """Yield the variables of a module or class: name, assignment, and docstring (or an empty string)."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            yield target.id, node, inspect.cleandoc(text) if isinstance(text, str) else ""


def variable_docstring(module: str, name: str) -> str:
    """Return the docstring of a module's variable, or an empty string."""
    return next((text for found, _, text in variables(source_tree(module).body) if found == name), "")

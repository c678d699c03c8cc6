"""Docstrings under the fields of dataclasses, which exist in the source only."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent


def field_texts(kind: type) -> dict[str, str]:
    """Return the docstrings of a dataclass' fields by their names, each on one line.

    This parses the source: for the JSON Schema and the reference pages only.
    """
    (tree,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        node.target.id: " ".join(after.value.value.split())
        for node, after in pairwise(tree.body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }

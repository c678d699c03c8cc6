"""Tests that pages name."""

from __future__ import annotations

import ast
from pathlib import Path


def is_run(file: Path, name: str) -> bool:
    """True if a file has a test of this name that is not switched off."""
    if not file.is_file():
        return False
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            marks = " ".join(ast.unparse(each) for each in node.decorator_list)
            return "mark.skip(" not in marks and "xfail" not in marks
    return False

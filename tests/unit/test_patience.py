"""No test fails because the machine is slow: what must happen may take half a minute."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from support.paths import ROOT
from support.waiting import PATIENCE

POSITION = {"timeout": 0, "wait_for": 1, "until": 1, "until_true": 1}
"""Functions that wait, with the place of their seconds."""
WAITS = re.compile(rf"\b({'|'.join(POSITION)})\s*\(")
"""A call of one of them. To parse all files takes long."""


def is_expiry(context: ast.expr) -> bool:
    """True for the context of what must raise TimeoutError."""
    return isinstance(context, ast.Call) and ast.unparse(context) == "pytest.raises(TimeoutError)"


def short_waits(tree: ast.AST) -> Iterator[tuple[int, float]]:
    """Lines and seconds of waits shorter than `PATIENCE`, without those that must expire."""
    nodes = list(ast.walk(tree))
    expected = {
        inner
        for node in nodes
        if isinstance(node, ast.With) and any(is_expiry(item.context_expr) for item in node.items)
        for inner in ast.walk(node)
    }
    for node in nodes:
        if not isinstance(node, ast.Call) or node in expected:
            continue
        position = POSITION.get(getattr(node.func, "attr", getattr(node.func, "id", "")))
        if position is None:
            continue
        given = [*node.args[position : position + 1], *(word.value for word in node.keywords if word.arg == "seconds")]
        for value in given:
            if isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value < PATIENCE:
                yield node.lineno, value.value


def test_no_wait_is_short() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}": seconds
        for path in (ROOT / "tests").rglob("*.py")
        if WAITS.search(source := path.read_text("utf-8"))
        for line, seconds in short_waits(ast.parse(source))
    }
    assert found == {}


def test_a_short_wait_is_found() -> None:
    must_expire = "with pytest.raises(TimeoutError):\n  with asyncio.timeout(0.1): pass\n"
    source = "asyncio.timeout(5)\nuntil(f, seconds=2)\nasyncio.wait_for(f, 29.5)\nuntil(f)\nasyncio.timeout(30)\n"
    assert list(short_waits(ast.parse(must_expire + source))) == [(3, 5), (4, 2), (5, 29.5)]

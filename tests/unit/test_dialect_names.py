"""Code outside a dialect's own modules does not name the dialect: it reads the dialect's record, or a table of records.

A line names a dialect if it has one of these:

- a string that is a dialect's value (`"chat"`), unless it is a field of JSON: the key of a subscript or of a call of
  `get`, or the key of a dict display that has other keys than dialects
- a member of `Dialect` (`Dialect.CHAT`)
- an import of a module of a dialect's package, or the name of one in a string (`"dialects.chat.codec"`)

Docstrings and comments do not count. A dialect's own modules are all of `dragoman/dialects/`, and elsewhere those whose
names end in its value: `render_chat.py`. `ALLOWED` has all other lines, each with the reason.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from dragoman import Dialect
from support.paths import ROOT

ENGINE, SERVER = ROOT / "engine" / "dragoman", ROOT / "server" / "dragoman_server"
NAMES = frozenset(dialect.value for dialect in Dialect)
MEMBERS = frozenset(dialect.name for dialect in Dialect)
_WORDS = re.compile(rf"""["'](?:{"|".join(NAMES)})["']|\bDialect\b|\bdialects\b""")
"""A file with such a line has one of these."""
MOST = 30
"""The number of lines below which the list must stay."""

STORED = "stored conversations are made of the items of Responses"
OTHERS = "a word of another program or standard"
ALLOWED: tuple[tuple[str, str, str], ...] = (
    ("aio/keep_reply.py", "from dragoman.dialects.responses.reply.unstored import unstored", STORED),
    ("threads/background.py", "from dragoman.dialects.responses.reply.response_object import ResponseObject", STORED),
    ("threads/compaction.py", "from dragoman.dialects.responses.request.read import read_request", STORED),
    ("threads/compaction_items.py", "from dragoman.dialects.responses.built_in_items import", STORED),
    ("threads/conversation_request.py", "from dragoman.dialects.responses.request.read import read_request", STORED),
    ("threads/stored_request.py", "from dragoman.dialects.responses.reply.response_object import stored_id", STORED),
    ("threads/store/postgres_schema.py", '"responses",', "the name of a table's schema, as it is in databases"),
    ("gateway.py", "from dragoman.dialects.responses.service import (", "only Responses has a WebSocket"),
    ("gateway.py", '"dialects.responses.service"', "only Responses has a WebSocket"),
    (
        "gateway.py",
        "from dragoman.dialects.messages.request.output_cap import lower_cap",
        "only Messages needs a cap",
    ),
    ("gateway.py", '"dialects.messages.request.output_cap"', "only Messages needs a cap"),
    ("profiles/profile.py", '"chat": (_OPENAI,', "the table of built-in profiles"),
    ("profiles/profile.py", '"messages": (_ANTHROPIC,', "the table of built-in profiles"),
    ("profiles/profile.py", '"responses": (_RESPONSES,', "the table of built-in profiles"),
    ("profiles/profile.py", '"generate": (_GEMINI,', "the table of built-in profiles"),
    ("cli/agents.py", '"wire_api": "responses"', OTHERS),
    ("cli/agents.py", "Dialect.MESSAGES,", "the dialect of Claude Code"),
    ("cli/agents.py", "Dialect.RESPONSES,", "the dialect of Codex"),
    ("cli/imports/litellm.py", '_RESPONSES = "responses"', OTHERS),
    ("cli/imports/litellm.py", '_CHAT_MODES = (None, "chat", _RESPONSES)', OTHERS),
    ("cli/imports/vendors.py", '"anthropic": ImportedVendor("messages"', "the dialect of a vendor"),
    ("config/host_doors.py", "_CHAT, _MESSAGES, _RESPONSES, _GENERATE =", "the dialects of hosts"),
    ("observability/otlp/metrics.py", '"gen_ai.operation.name": "chat"', OTHERS),
    ("observability/tracing/exchange_trace.py", 'CHAT = "chat"', OTHERS),
    ("simulator/api.py", 'DEFAULT: Final = "chat"', "the simulator has a table of its own, as it tests the engine"),
    ("simulator/api.py", "conversation: str =", "the name of a field"),
    ("simulator/api.py", '"messages": Api(', "the simulator has a table of its own, as it tests the engine"),
    ("simulator/api.py", '"responses": Api(', "the simulator has a table of its own, as it tests the engine"),
    ("simulator/api.py", '"generate": Api(', "the simulator has a table of its own, as it tests the engine"),
)
"""Files below either package, the beginning or another part of the line, and the reason."""


def is_own(path: Path) -> bool:
    """True for a module of a dialect."""
    stem = path.stem
    return (ENGINE / "dialects") in path.parents or any(stem == name or stem.endswith(f"_{name}") for name in NAMES)


def fields(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that name fields of JSON, and docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            yield node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            yield from node.args[:1]
        elif isinstance(node, ast.Dict):
            if any(key is None or (isinstance(key, ast.Constant) and key.value not in NAMES) for key in node.keys):
                yield from filter(None, node.keys)
        elif isinstance(node, ast.Expr):
            yield node.value


def of_dialect(module: str) -> bool:
    """True for the dotted name of a module of a dialect's package."""
    parts = module.split(".")
    return "dialects" in parts[:-1] and parts[parts.index("dialects") + 1] in NAMES


def naming(source: str) -> list[int]:
    """Return the numbers of the lines that name a dialect."""
    tree = ast.parse(source)
    spared = {id(node) for node in fields(tree)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = (node.value in NAMES and id(node) not in spared) or of_dialect(node.value)
        elif isinstance(node, ast.Attribute):
            named = node.attr in MEMBERS and isinstance(node.value, ast.Name) and node.value.id == "Dialect"
        elif isinstance(node, ast.ImportFrom):
            named = of_dialect(f"{node.module}.*")
        elif isinstance(node, ast.Import):
            named = any(of_dialect(f"{alias.name}.*") for alias in node.names)
        else:
            continue
        if named:
            found.add(node.lineno)
    return sorted(found)


@cache
def lines() -> list[tuple[str, str]]:
    """Return the lines that name a dialect, each with the path of its file below its package."""
    found = []
    for package in (ENGINE, SERVER):
        for path in sorted(package.rglob("*.py")):
            if is_own(path):
                continue
            source = path.read_text("utf-8")
            if _WORDS.search(source):
                text = source.splitlines()
                found += [(str(path.relative_to(package)), text[number - 1].strip()) for number in naming(source)]
    return found


def test_each_line_that_names_a_dialect_has_a_reason() -> None:
    unexplained = [
        (path, text) for path, text in lines() if not any(file == path and part in text for file, part, _ in ALLOWED)
    ]
    assert unexplained == [], "read a fact of `dialect.facts` instead"


def test_each_allowed_line_is_there_once() -> None:
    found = Counter(
        (file, part) for file, part, _ in ALLOWED for path, text in lines() if path == file and part in text
    )
    assert found == {(file, part): 1 for file, part, _ in ALLOWED}


def test_there_are_few() -> None:
    assert len(lines()) == len(ALLOWED) < MOST


@pytest.mark.parametrize(
    "line",
    [
        'if dialect == "chat": pass',
        'x = client in ("messages", other)',
        "x = Dialect.RESPONSES",
        'TABLE = {"chat": 1, "messages": 2}',
        'TABLE = {DEFAULT: 1, "messages": 2}',
        "from dragoman.dialects.chat.codec import CODEC",
        "from dragoman.dialects.messages import codec",
        "import dragoman.dialects.responses.codec",
        'import_module("dragoman.dialects.chat.codec")',
    ],
)
def test_what_names_a_dialect(line: str) -> None:
    assert naming(line) == [1]


@pytest.mark.parametrize(
    "line",
    [
        'x = body["messages"]',
        'x = body.get("messages")',
        'x = {"model": "m", "messages": []}',
        'x = {**body, "messages": []}',
        '"""chat"""',
        "x = statements.RESPONSES",
        "from dragoman.dialects.errors.read import read_error",
        'x = "a chat with messages"',
    ],
)
def test_what_names_none(line: str) -> None:
    assert naming(line) == []

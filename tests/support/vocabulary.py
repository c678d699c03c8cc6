"""Finds words that the project's code does not use, in identifiers, docstrings and comments.

`python tests/support/vocabulary.py PATH…` prints one line per finding. The words to use instead are in
docs/reference/glossary.md.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

BANNED_PARTS = frozenset(
    [
        "anew",
        "anybody",
        "census",
        "ear",
        "gave",
        "gives",
        "groove",
        "grooves",
        "hear",
        "heard",
        "hearing",
        "hears",
        "hired",
        "hush",
        "lasting",
        "leavings",
        "mend",
        "mended",
        "mends",
        "nobody",
        "offender",
        "offenders",
        "pump",
        "said",
        "say",
        "saying",
        "says",
        "seal",
        "sealed",
        "somebody",
        "spelled",
        "spelling",
        "spoke",
        "spoken",
        "speak",
        "speaks",
        "tell",
        "telling",
        "tells",
        "thought",
        "thoughts",
        "told",
        "unseal",
        "unsealed",
        "whoever",
        "wished",
    ]
)
"""Parts of identifiers: `last_words_said` has the parts `last`, `words` and `said`."""

BANNED_WORDS = re.compile(
    r"\b(tells?|told|telling|says?|said|saying|hears?|heard|hearing|speaks?|spoke|spoken|hush|gave|whoever|nobody"
    r"|anybody|somebody|anew|as ever|any more|let go|in short|spells?|spelled|spelling|(?-i:is none|are none)|beside"
    r"|leavings|thoughts?|mends?|mended|mending|groove|wished)\b",
    re.IGNORECASE,
)
"""Words of docstrings and comments."""

BANNED_OPENINGS = re.compile(
    r"(What|Who|Whose|Whoever|Whether|Which|Why|How|The same|As ever|Gives|Tells|Says|Is|Are|Was|Were|Does|Do|Has|Have"
    r"|Can|May)\b"
)
"""First words of a docstring that is a clause or a question, and no statement."""

_LITERAL = re.compile(r"`[^`]*`|\"[^\"]*\"|'[^' ]*'")
_OPENING = re.compile(rf"""["'\\]\s*{BANNED_OPENINGS.pattern}""")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class Finding(NamedTuple):
    """One use of a banned word."""

    path: Path
    line: int
    text: str


def findings(path: Path) -> Iterator[Finding]:
    """Every banned word of one Python file."""
    source = path.read_text("utf-8")
    if not _may_have(source):
        return
    nodes = list(ast.walk(ast.parse(source)))
    for line, name in sorted(_identifiers(nodes)):
        if banned := sorted({part.lower() for part in _PARTS.findall(name)} & BANNED_PARTS):
            yield Finding(path, line, f"identifier {name}: {', '.join(banned)}")
    for line, text in _docstrings(nodes):
        if BANNED_OPENINGS.match(text):
            yield Finding(path, line, f"docstring opens with {text.split(maxsplit=3)[:3]}")
        yield from _prose(path, line, text, "docstring")
    if not any("#" in line and BANNED_WORDS.search(line) for line in source.splitlines()):
        return  # to read all tokens takes longer than the rest
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _prose(path, token.start[0], token.string, "comment")


def _may_have(source: str) -> bool:
    """False if a file has no finding, whatever in it is a name, a docstring or a comment: to parse all takes long."""
    return (
        not BANNED_PARTS.isdisjoint(map(str.lower, _PARTS.findall(source)))
        or bool(_OPENING.search(source))
        or bool(BANNED_WORDS.search(source))
        or any("?" in text for quote in ('"""', "'''") for text in source.split(quote)[1:])
    )


def _prose(path: Path, line: int, text: str, kind: str) -> Iterator[Finding]:
    plain = _LITERAL.sub("", text)
    for word in BANNED_WORDS.findall(plain):
        yield Finding(path, line, f"{kind}: {word}")
    if kind == "docstring" and "?" in plain:
        yield Finding(path, line, "docstring is a question")


def _identifiers(nodes: Sequence[ast.AST]) -> set[tuple[int, str]]:
    """Names that the file defines or binds, with their lines."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add((node.lineno, node.name))
        elif isinstance(node, ast.arg):
            found.add((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add((node.lineno, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add((node.lineno, node.attr))
    return found


def _docstrings(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Docstrings of the module, its classes, functions and variables: each string that is a statement."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def main(paths: list[str]) -> int:
    """Print the findings of files and folders; returns 1 if there are any."""
    files = [file for path in map(Path, paths) for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    count = 0
    for file in files:
        for finding in findings(file):
            count += 1
            print(f"{finding.path}:{finding.line}: {finding.text}")
    print(f"{count} findings in {len(files)} files", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

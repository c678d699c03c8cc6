"""Generates state-machines.md: one Mermaid diagram for each table of phases in the code.

A table maps each phase to the phases that follow it, by event: `dict[Phase, dict[str, Phase]]`; an event may also be a
member of an enum. The first phase of the table is the initial one; a phase without transitions to others is final.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from dragoman.dialects import Dialect

_TITLES = {Dialect.CHAT: "Chat Completions", Dialect.MESSAGES: "Messages", Dialect.RESPONSES: "Responses"}

Table = Mapping[Any, Mapping[Any, Any]]

_PAGE = """\
# State machines

{made}

Each stream reader, each stream writer and each upstream connection is in one phase at a time, and changes it only by
the table that is drawn here. A diagram shows an event at each arrow; an event that a phase has no arrow for is an error
of the stream or a defect of the code, as the module says.

A translated stream runs two of these machines: the reader of the upstream's dialect, then the writer of the client's.
For a Messages client and a Chat upstream, these are *Chat Completions: reader* and *Messages: writer*.

{machines}
"""


class Machine(NamedTuple):
    """A table of phases. `name` is that of the table in `module`."""

    title: str
    module: str
    name: str
    table: Table

    @property
    def phases(self) -> list[Enum]:
        """All phases, in order of definition."""
        return list(type(self.initial))

    @property
    def initial(self) -> Enum:
        """The phase that the machine starts in."""
        phase: Enum = next(iter(self.table))
        return phase

    @property
    def events(self) -> list[str | Enum]:
        """All events of the table, in order of appearance."""
        return list(dict.fromkeys(event for moves in self.table.values() for event in moves))

    def is_final(self, phase: Enum) -> bool:
        """True if no event leads from the phase to another."""
        return all(target is phase for target in self.table.get(phase, {}).values())


def machines() -> list[Machine]:
    """Return the tables of all modules that exist: per dialect the reader and the writer, then the connection."""
    places = [
        (f"{_TITLES[dialect]}: {name.lower()}", f"dragoman.dialects.{dialect}.stream.phases", name)
        for dialect in Dialect
        for name in ("READER", "WRITER")
    ]
    places.append(("Upstream connection", "dragoman.aio.upstream.http11.phases", "TRANSITIONS"))
    return [
        Machine(title, module, name, table)
        for title, module, name in places
        if find_spec(module) is not None and (table := getattr(import_module(module), name, None)) is not None
    ]


def page(made: str) -> str:
    """Return state-machines.md."""
    return _PAGE.format(made=made, machines="\n\n".join(map(_section, machines())))


def _section(machine: Machine) -> str:
    used = {*machine.table, *(target for moves in machine.table.values() for target in moves.values())}
    meanings = _meanings(type(machine.initial))
    rows = [f"| `{phase.name}` | {meanings.get(phase.name, '')} |" for phase in machine.phases if phase in used]
    return "\n".join(
        (
            f"## {machine.title}",
            "",
            f"`{machine.name}` in `{machine.module}`.",
            "",
            "```mermaid",
            "stateDiagram-v2",
            *(f"    {line}" for line in _arrows(machine)),
            "```",
            "",
            *(("| phase | meaning |", "| --- | --- |", *rows) if meanings else ()),
        )
    ).rstrip()


def _arrows(machine: Machine) -> Iterator[str]:
    yield f"[*] --> {machine.initial.name}"
    for phase, moves in machine.table.items():
        labels: dict[Enum, list[str]] = {}
        for event, target in moves.items():
            labels.setdefault(target, []).append(_label(event))
        for target, events in labels.items():
            yield f"{phase.name} --> {target.name}: {', '.join(events)}"
    for phase in machine.phases:
        if phase in machine.table and machine.is_final(phase):
            yield f"{phase.name} --> [*]"


def _label(event: str | Enum) -> str:
    return event.name.lower() if isinstance(event, Enum) else event


def _meanings(phases: type[Enum]) -> dict[str, str]:
    """Return the docstrings of an enum's members, by name, on one line each."""
    (definition,) = ast.parse(inspect.getsource(phases)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for member, text in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            name = member.targets[0]
            assert isinstance(name, ast.Name)
            found[name.id] = " ".join(str(text.value.value).split())
    return found

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
from generators.docstrings import variable_docstring, variables

_TITLES = {Dialect.CHAT: "Chat Completions", Dialect.MESSAGES: "Messages", Dialect.RESPONSES: "Responses"}

_LABELS_SHOWN = 6
"""Maximum number of events at an arrow; the others are listed below the diagram."""

Table = Mapping[Any, Mapping[Any, Any]]

_PAGE = """\
# State machines

{made}

Each stream reader, each stream writer and each upstream connection is in one phase at a time, and changes it only by
the table that is drawn here. The text below a diagram says what happens to
an event for which a phase has no arrow.

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
    """Return the tables of all modules that exist: the readers, the writers, then the connection."""
    places = [
        (f"{_TITLES[dialect]}: reader", f"dragoman.dialects.{dialect}.stream.phases", "READER") for dialect in Dialect
    ]
    places.append(("Writers", "dragoman.dialects.shared.writer_phases", "WRITER"))
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
    meanings = {name: " ".join(text.split()) for name, text in _members(type(machine.initial))}
    rows = [f"| `{phase.name}` | {meanings.get(phase.name, '')} |" for phase in machine.phases if phase in used]
    arrows = "\n    ".join(_arrows(machine))
    parts = [
        f"## {machine.title}",
        f"`{machine.name}` in `{machine.module}`.",
        f"```mermaid\nstateDiagram-v2\n    {arrows}\n```",
        "\n".join(("| phase | meaning |", "| --- | --- |", *rows)),
        *_long_labels(machine),
        variable_docstring(machine.module, machine.name),
    ]
    return "\n\n".join(filter(None, parts))


def _arrows(machine: Machine) -> Iterator[str]:
    yield f"[*] --> {machine.initial.name}"
    for phase, target, events in _moves(machine):
        more = len(events) - _LABELS_SHOWN
        shown = [*events[:_LABELS_SHOWN], f"{more} others"] if more > 1 else events
        yield f"{phase.name} --> {target.name}: {', '.join(shown)}"
    for phase in machine.phases:
        if phase in machine.table and machine.is_final(phase):
            yield f"{phase.name} --> [*]"


def _long_labels(machine: Machine) -> Iterator[str]:
    """Yield the events of arrows that have too many for their label."""
    for phase, target, events in _moves(machine):
        if len(events) > _LABELS_SHOWN + 1:
            others = ", ".join(f"`{event}`" for event in events[_LABELS_SHOWN:])
            yield f"The others from `{phase.name}` to `{target.name}` are {others}."


def _moves(machine: Machine) -> Iterator[tuple[Enum, Enum, list[str]]]:
    """Yield the arrows: phase, next phase, and labels of all events between them."""
    for phase, moves in machine.table.items():
        labels: dict[Enum, list[str]] = {}
        for event, target in moves.items():
            labels.setdefault(target, []).append(_label(event))
        for target, events in labels.items():
            yield phase, target, events


def _label(event: str | Enum) -> str:
    return event.name.lower() if isinstance(event, Enum) else event


def _members(phases: type[Enum]) -> Iterator[tuple[str, str]]:
    """Yield the names and docstrings of an enum's members."""
    (definition,) = ast.parse(inspect.getsource(phases)).body
    assert isinstance(definition, ast.ClassDef)
    for name, _, text in variables(definition.body):
        yield name, text

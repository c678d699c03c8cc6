"""Generates state-machines.md: one Mermaid diagram for each table of phases in the code.

A table maps each phase to the phases that follow it, by event: `dict[Phase, dict[str, Phase]]`. The first phase of the
table is the initial one; a phase without transitions to others is final. The docstring of the type of the phases lists
what each means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from dragoman.dialects import Dialect
from generators.docstrings import source_tree, variable_docstring, variables

_TITLES = {Dialect.CHAT: "Chat Completions", Dialect.MESSAGES: "Messages", Dialect.RESPONSES: "Responses"}

_LABELS_SHOWN = 6
"""Maximum number of events at an arrow; the others are listed below the diagram."""

_MEANING = re.compile(r"^- `(\w+)`: (.+?)$(?!\n  )", re.MULTILINE | re.DOTALL)

Table = Mapping[str, Mapping[str, str]]

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
    def phases(self) -> list[str]:
        """All phases, in order of definition."""
        return list(self.table)

    @property
    def initial(self) -> str:
        """The phase that the machine starts in."""
        return next(iter(self.table))

    @property
    def events(self) -> list[str]:
        """All events of the table, in order of appearance."""
        return list(dict.fromkeys(event for moves in self.table.values() for event in moves))

    def is_final(self, phase: str) -> bool:
        """True if no event leads from the phase to another."""
        return all(target == phase for target in self.table.get(phase, {}).values())


def machines() -> list[Machine]:
    """Return the tables of all modules that exist: the readers, the writers, then the connection."""
    places = [
        (f"{_TITLES[dialect]}: reader", f"dragoman.dialects.{dialect}.stream.phases", "READER") for dialect in _TITLES
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
    meanings = _meanings(machine)
    rows = [f"| `{phase}` | {meanings[phase]} |" for phase in machine.phases]
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
    yield f"[*] --> {machine.initial}"
    for phase, target, events in _moves(machine):
        more = len(events) - _LABELS_SHOWN
        shown = [*events[:_LABELS_SHOWN], f"{more} others"] if more > 1 else events
        yield f"{phase} --> {target}: {', '.join(shown)}"
    for phase in machine.phases:
        if machine.is_final(phase):
            yield f"{phase} --> [*]"


def _long_labels(machine: Machine) -> Iterator[str]:
    """Yield the events of arrows that have too many for their label."""
    for phase, target, events in _moves(machine):
        if len(events) > _LABELS_SHOWN + 1:
            others = ", ".join(f"`{event}`" for event in events[_LABELS_SHOWN:])
            yield f"The others from `{phase}` to `{target}` are {others}."


def _moves(machine: Machine) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the arrows: phase, next phase, and labels of all events between them."""
    for phase, moves in machine.table.items():
        labels: dict[str, list[str]] = {}
        for event, target in moves.items():
            labels.setdefault(target, []).append(event)
        for target, events in labels.items():
            yield phase, target, events


def _meanings(machine: Machine) -> dict[str, str]:
    """Return what each phase means: a list in the docstring of their type, which is in the table's module."""
    for _, _, text in variables(source_tree(machine.module).body):
        found = {name: " ".join(meaning.split()) for name, meaning in _MEANING.findall(text)}
        if machine.initial in found:
            return found
    raise LookupError(f"{machine.module} does not say what {machine.initial} means")

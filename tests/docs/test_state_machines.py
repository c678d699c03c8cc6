"""The tables of phases: each event moves to a phase of the table, and no phase is unreachable or a dead end."""

from __future__ import annotations

from importlib import import_module
from typing import Literal

import pytest

from generators.state_machines import Machine, _section, machines

MACHINES = machines()
each_machine = pytest.mark.parametrize("machine", MACHINES, ids=[machine.title for machine in MACHINES])


Example = Literal["WAITING", "OPEN", "CLOSED"]
"""Phases of a machine for these tests.

- `WAITING`: Before the first event.
- `OPEN`: After the
  first event.
- `CLOSED`: At the end.
"""

TABLE: dict[str, dict[str, str]] = {
    "WAITING": {"start": "OPEN"},
    "OPEN": {"text": "OPEN", "call": "OPEN", "end": "CLOSED"},
    "CLOSED": {},
}
"""Any other event is an error."""


def reachable(machine: Machine, start: str) -> set[str]:
    """Return the phases that events lead to from `start`, with `start` itself."""
    found, pending = {start}, [start]
    while pending:
        for target in machine.table.get(pending.pop(), {}).values():
            if target not in found:
                found.add(target)
                pending.append(target)
    return found


def test_a_machine_is_drawn() -> None:
    assert _section(Machine("Example", __name__, "TABLE", TABLE)) == (
        f"## Example\n\n`TABLE` in `{__name__}`.\n\n"
        "```mermaid\nstateDiagram-v2\n"
        "    [*] --> WAITING\n"
        "    WAITING --> OPEN: start\n"
        "    OPEN --> OPEN: text, call\n"
        "    OPEN --> CLOSED: end\n"
        "    CLOSED --> [*]\n"
        "```\n\n"
        "| phase | meaning |\n| --- | --- |\n"
        "| `WAITING` | Before the first event. |\n"
        "| `OPEN` | After the first event. |\n"
        "| `CLOSED` | At the end. |\n\n"
        "Any other event is an error."
    )


def test_an_arrow_of_many_events_is_listed_below_the_diagram() -> None:
    table: dict[str, dict[str, str]] = {"WAITING": {f"event{n}": "CLOSED" for n in range(9)}, "CLOSED": {}}
    section = _section(Machine("Example", __name__, "", table))
    assert "    WAITING --> CLOSED: event0, event1, event2, event3, event4, event5, 3 others\n" in section
    assert section.endswith("The others from `WAITING` to `CLOSED` are `event6`, `event7`, `event8`.")


@each_machine
def test_each_event_leads_to_a_phase_of_the_table(machine: Machine) -> None:
    for phase, moves in machine.table.items():
        assert set(moves.values()) <= set(machine.table), phase


@each_machine
def test_each_phase_is_reachable_and_can_end(machine: Machine) -> None:
    assert reachable(machine, machine.initial) == set(machine.table)
    for phase in machine.table:
        assert any(machine.is_final(end) for end in reachable(machine, phase)), phase


def test_an_upstream_connection_moves_by_the_table_or_raises() -> None:
    """`Connection._advance` for each phase and each event."""
    tables = [machine for machine in MACHINES if machine.module.startswith("dragoman.aio.")]
    for machine in tables:
        connection = import_module("dragoman.aio.upstream.http11.connection").Connection
        for phase in machine.phases:
            for event in machine.events:
                moving = connection.__new__(connection)
                moving.phase = phase
                expected = machine.table[phase].get(event)
                if expected is None:
                    with pytest.raises(KeyError):
                        moving._advance(event)
                    expected = phase
                else:
                    moving._advance(event)
                assert moving.phase == expected

"""The events of a long session of a coding agent, in no dialect, and equal each time.

Every text holds a mark of its own, so that a test can report from the bytes of a request what is there, in which order.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

STEPS = 200
"""Answers of the model; each but a few calls tools."""
NATIVE = 20
"""So many of them were made by the client's own vendor, before the session moved to another."""
MARK = r"\[#[a-z]+-[0-9-]+\]"

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAADAAAAAgCAIAAADbtmxLAAAAN0lEQVR4nO3OQQ0AMAgEMJSgBP+ZrLngeDSpgNbrOaXiAyEhIaH0QEhISCg9EBIS"
    "EkoPhISEln22ccxb9ELAuQAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True, slots=True)
class Act:
    """A call and its result. `kind` is `run`, `look` (its result is a picture) or `edit`."""

    name: str
    kind: str
    text: str
    result: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of the model, and what the client states next.

    `reasoned` is its reasoning, `wrapped` the proof of it; reasoning that is `hidden` has a proof only. `remark` is the
    user's, behind the results; `instruction` comes from the client's program, in mid-conversation.
    """

    number: int
    reasoned: str
    hidden: bool
    wrapped: str
    stated: str
    acts: tuple[Act, ...]
    remark: str
    instruction: str


def script(steps: int = STEPS) -> list[Step]:
    """The whole session."""
    return [_step(number) for number in range(steps)]


def _step(n: int) -> Step:
    asks = n % 40 == 39  # it has done what was asked, and the user asks for more
    count = 0 if asks else 3 if n % 10 == 4 else 2 if n % 5 == 1 else 1
    thinks = n % 3 != 2
    return Step(
        number=n,
        reasoned=f"[#thought-{n}] The rows are joined by hand – “quoting” is missing, 東京." if thinks else "",
        hidden=thinks and n % 17 == 9,
        wrapped=_proof(n) if thinks else "",
        stated=f"[#said-{n}] I'll look at how the rows are written.\n\nThen I change it." if asks or n % 4 != 1 else "",
        acts=tuple(_act(n, place) for place in range(count)),
        remark=_remark(n, asks),
        instruction=f"[#instruction-{n}] The mode is now “plan”: change no files." if n % 12 == 7 else "",
    )


def _remark(n: int, asks: bool) -> str:
    if asks:
        return f"[#asked-{n}] Good. And what else reads that file?"
    return f"<system-reminder>\n[#reminder-{n}] The list of tasks is empty.\n</system-reminder>" if n % 8 == 5 else ""


def _act(n: int, place: int) -> Act:
    number = n * 3 + place
    name = f"{n}-{place}"
    kind = "look" if number % 7 == 3 else "edit" if number % 5 == 2 else "run"
    failed = kind == "run" and number % 11 == 6
    listing = "\n".join(f"{line:5}\tdef field_{line}(row: Row) -> str:  # “{line}”\\n" for line in range(number % 9))
    noted = f"[#result-{name}] " + (f"rg: part_{number}: No such file" if failed else f"{listing}\nok ✓ \U0001f44d")
    return Act(name, kind, f"[#call-{name}] part_{number}/rows.py", noted, failed)


def _proof(n: int) -> str:
    """As long as a real one, and of the characters that one has."""
    return base64.b64encode(b"".join(hashlib.sha256(b"%d.%d" % (n, part)).digest() for part in range(9))).decode()


def marks(steps: list[Step]) -> list[str]:
    """The marks of everything but reasoning, in the order of the session."""
    out = []
    for step in steps:
        texts = [step.stated, *(act.text for act in step.acts), *(act.result for act in step.acts)]
        out += [_mark(text) for text in [*texts, step.remark, step.instruction] if text]
    return out


def _mark(text: str) -> str:
    return text[text.index("[#") : text.index("]") + 1]


def pictures(steps: list[Step]) -> int:
    """Return the number of results that are pictures."""
    return sum(act.kind == "look" for step in steps for act in step.acts)

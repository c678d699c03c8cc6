"""The task of an agent: to use its own tools on a file whose word is in no prompt, and to repeat their output."""

from __future__ import annotations

import base64
import json
import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from real_clients.contract import Finished, Outcome

MODEL = "sim-agent"
"""A model that makes the calls of the prompt's `[[call …]]`. It replaces any vendor's name of a model."""
CUT_MODEL = "sim-agent-cut"
"""A model that does the same, but the first stream of each prompt is cut inside a call."""
SILENT_MODEL = "sim-agent-silent"
"""A model that does the same, but sends nothing for `SILENCE` before each stream and in the middle of it."""
SILENCE = 3.0
"""Seconds."""
FAILING_MODEL = "sim-error-mid-event"
"""Reports in its stream that it is overloaded: in Responses by an `error` event, not by `response.failed`."""
FULL_MODEL = "sim-error-400-context"
"""A model that reports that the prompt is longer than its context."""
SECRET, MADE, WRITTEN, NOTED, PICTURE = "secret.txt", "made.txt", "written.txt", "noted.txt", "picture.png"
COMMAND = f"cat {SECRET} > {MADE} && cat {MADE}"
"""A command that prints the word and leaves a trace."""
TEXT = "Grüße 👋🏽"
"""The text that is written into files: it must arrive unchanged."""
NOTES_TOOL = "add_note"
SEEN = "(pictures: 1)"
"""The text with which the simulated model confirms a picture."""
_SERVER = Path(__file__).parent / "scripts/notes_mcp.py"
_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_SHOWN = 300


def call(tool: str, arguments: Any) -> str:
    """One call as the simulated model reads it."""
    return f"{tool} {json.dumps(arguments, ensure_ascii=False)}"


@dataclass(frozen=True)
class Errand:
    """A word that only the work directory knows, made for one session."""

    work: Path
    word: str
    """Reported by the command."""
    note: str
    """Reported by the MCP server's tool."""

    @staticmethod
    def in_folder(work: Path) -> Errand:
        """Lays the word and a picture down."""
        errand = Errand(work, f"word-{secrets.token_hex(6)}", f"note-{secrets.token_hex(6)}")
        (work / SECRET).write_text(errand.word + "\n")
        (work / PICTURE).write_bytes(_PIXEL)
        return errand

    def notes_server(self) -> list[str]:
        """The command line of an MCP server whose one tool is `add_note`."""
        return [sys.executable, "-I", str(_SERVER), str(self.work / NOTED), self.note]

    def prompt(self, *rounds: str | tuple[str, ...]) -> str:
        """Return what to report the agent: each argument is one turn of the model, a tuple has parallel calls."""
        turns = [" + ".join((turn,) if isinstance(turn, str) else turn) for turn in rounds]
        return " ".join(["Carry out this plan.", *(f"[[call {turn}]]" for turn in turns)])

    def judge(self, finished: Finished, final_text: str, *files: str, words: tuple[str, ...] = ()) -> Outcome:
        """Return whether the command ran and its word, or `words`, came back by the model; `files` must hold TEXT."""
        ran = _text_of(self.work / MADE) == self.word
        wrong = [] if ran else ["the command did not run"]
        if not all(word in final_text for word in words or (self.word,)):
            wrong.append(f"what the tools said is not in the final text {final_text[:_SHOWN]!r}")
        wrong += [f"{name} was not written" for name in files if _text_of(self.work / name) != TEXT]
        if finished.returncode != 0:
            wrong.append("it took too long" if finished.returncode is None else f"exit status {finished.returncode}")
        if wrong and finished.stderr.strip():
            wrong.append(f"stderr: {finished.stderr.strip()[-_SHOWN:]}")
        return Outcome(not wrong, ran, final_text, "; ".join(wrong))

    def judge_end(self, before: Outcome, finished: Finished, wording: str) -> Outcome:
        """`before`, if the process after it then returned up and stated so in its own words."""
        stated = finished.stdout + finished.stderr
        if not before.ok or (finished.returncode and wording in stated):
            return before
        why = f"{wording!r} expected; exit status {finished.returncode}: {stated.strip()[-_SHOWN:]}"
        return replace(before, ok=False, note=why)


def _text_of(path: Path) -> str | None:
    return path.read_text("utf-8").strip() if path.is_file() else None

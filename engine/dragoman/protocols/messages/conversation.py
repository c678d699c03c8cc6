"""Canonical turns → `system` and `messages`: where instructions go, and alternation (mapping §3, §6.4, §13).

Turns of one role that follow each other become one message by putting their blocks together, tool results first.
Where an instruction lands depends on its neighbours only, so a longer history is an extension of the shorter one.
"""

from __future__ import annotations

from typing import Final

from ...errors import Path, Unsupported
from ...knobs import Knobs
from ...losses import Code, Losses
from ...model import Json, Request, Role, Text, Turn
from ...profile import Profile
from ...steps import ResultTurn, SpokenTurn
from .content_writer import ContentWriter
from .wire import DIALECT

# Member access on an enum class costs more than the comparison.
_USER: Final = Role.USER
_ASSISTANT: Final = Role.ASSISTANT
_NONE: Final[list[Json]] = []
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_PREFILL_TYPES: Final = _THOUGHTS | {"text"}


def write_conversation(
    request: Request, writer: ContentWriter, profile: Profile, knobs: Knobs, losses: Losses
) -> tuple[list[Json], list[Json]]:
    """The instruction blocks of `system`, and `messages`.

    Raises `Unsupported` for content without a place, for a final assistant turn with calls (or with any text where the
    `prefill` knob says so), and when no message is left.
    """
    mode = knobs.mid_system
    if mode == "auto":
        mode = "inline" if profile.system_inline else "hoist"
    if mode == "hoist" and profile.system_inline and _has_late_instructions(request.turns):
        # The prefix was edited, and models that take `system` in place bind their signatures to it (mapping §5.4).
        writer.thoughts.replay = False
    builder = _Builder(writer, mode, knobs, losses)
    foreign = request.origin != DIALECT
    for turn in request.turns:
        if type(turn) is SpokenTurn and turn.calls is not None and foreign:
            builder.spoken(writer.spoken(turn, turn.calls), turn)
            continue
        if type(turn) is ResultTurn and turn.results is not None:
            builder.answered(writer.answers(turn.results))
            continue
        if turn.name is not None:
            losses.add(Code.PARTICIPANT_NAME, (*turn.at, "name"))
        role = turn.role
        if role is _USER:
            builder.user(turn)
        elif role is _ASSISTANT:
            builder.spoken(writer.assistant(turn), turn)
        else:
            builder.instruction(turn)
    builder.finish()
    if not builder.messages:
        raise Unsupported(
            ("input",) if request.origin == "responses" else ("messages",),
            "a Messages upstream needs at least one user message with content",
        )
    return builder.system, builder.messages


def bare(blocks: list[Json], plain: bool) -> str | list[Json]:
    """A single text that was a plain string stays one, unless it carries a cache mark."""
    if plain and len(blocks) == 1:
        block = blocks[0]
        if len(block) == 2 and block["type"] == "text":
            text: str = block["text"]
            return text
    return blocks


def _has_late_instructions(turns: list[Turn]) -> bool:
    started = False
    for turn in turns:
        if turn.role is not Role.INSTRUCTION:
            started = True
        elif started and turn.parts:
            return True
    return False


class _Builder:
    """The run of equal roles being built, and the instructions that wait for it to end."""

    __slots__ = (
        "_ahead",
        "_at",
        "_held",
        "_knobs",
        "_losses",
        "_mode",
        "_plain",
        "_results",
        "_role",
        "_run",
        "_waiting",
        "_writer",
        "messages",
        "system",
    )

    def __init__(self, writer: ContentWriter, mode: str, knobs: Knobs, losses: Losses) -> None:
        self._writer, self._mode, self._knobs, self._losses = writer, mode, knobs, losses
        self.system: list[Json] = []
        self.messages: list[Json] = []
        self._role = ""
        self._run: list[Json] = []
        self._results: list[Json] = []
        self._plain = False
        self._at: Path = ()
        self._held: list[Json] = []
        self._waiting: list[Path] = []
        self._ahead: list[Path] = []
        """User turns of the run whose words no result has overtaken yet."""

    def user(self, turn: Turn) -> None:
        results: list[Json] = []
        rest: list[Json] = []
        self._writer.user(turn, results, rest)
        if results or rest:
            self._add_user(results, rest, turn.at, plain=turn.plain)
        elif any(type(part) is Text and part.text for part in turn.parts):
            self._losses.add(Code.BLANK_CUT, turn.at, "a message of white space only was left out")

    def answered(self, results: list[Json]) -> None:
        self._add_user(results, [], (), plain=False)

    def _add_user(self, results: list[Json], rest: list[Json], at: Path, *, plain: bool) -> None:
        if self._role == "assistant":
            self._close()
        if self._waiting:
            # An instruction may only follow a user message: it slides behind this one.
            for at in self._waiting:
                self._losses.add(Code.SYSTEM_REORDERED, at)
            self._waiting.clear()
        if self._role:
            if results and self._ahead:
                # The API wants the results of a turn first (mapping §6.4): what was said before them comes behind.
                for said_at in self._ahead:
                    self._losses.add(Code.BLOCK_ORDER, said_at, "moved behind the tool results")
                self._ahead.clear()
            self._results += results
            self._run += rest
            self._plain = False
        else:
            self._role = "user"
            self._results = results
            self._run = rest
            self._plain = plain
            if self._ahead:
                self._ahead.clear()
        if rest:
            self._ahead.append(at)

    def spoken(self, blocks: list[Json], turn: Turn) -> None:
        if not blocks:
            return
        if self._role == "user":
            self._close()
            if self._held:
                self._flush()
        elif self._held and not self._calls():
            # Assistant, instruction, assistant: there is no user message it could follow.
            self._close()
            self._demote()
            self._close()
        if self._role:
            self._run += self._unrepeated(blocks, turn)
            self._plain = False
        else:
            self._role = "assistant"
            self._results = _NONE
            self._run = blocks
            self._plain = turn.plain
        self._at = turn.at

    def _unrepeated(self, blocks: list[Json], turn: Turn) -> list[Json]:
        """Without thinking that the turn has already: the check of signatures takes no block twice."""
        if blocks[0]["type"] not in _THOUGHTS:
            return blocks
        kept = [block for block in blocks if block["type"] not in _THOUGHTS or block not in self._run]
        if len(kept) < len(blocks):
            self._losses.add(Code.THINKING_INVALIDATED, turn.at, "the same block was there twice; dropped")
        return kept

    def instruction(self, turn: Turn) -> None:
        blocks = self._writer.instruction(turn)
        if not blocks:
            return
        if not self._role and not self.messages:
            self.system += blocks
        elif self._mode == "hoist":
            self._losses.add(Code.SYSTEM_MOVED, turn.at)
            self.system += blocks
        elif self._mode == "user":
            self._losses.add(Code.SYSTEM_DEMOTED, turn.at)
            self._add_user([], [_wrapped(block) for block in blocks], turn.at, plain=False)
        else:
            self._held += blocks
            self._waiting.append(turn.at)

    def finish(self) -> None:
        if self._role == "user":
            self._close()
            if self._held:
                self._flush()
        elif self._held and not self._calls():
            self._close()
            self._demote()
            self._close()
        elif self._role:
            self._end_on_assistant()

    def _calls(self) -> bool:
        """Does the assistant run hold calls? Nothing but their results may then follow it."""
        return any(block["type"] == "tool_use" for block in self._run)

    def _close(self) -> None:
        """The run is complete: make it a message."""
        blocks = self._run
        if self._results:
            blocks = self._results + blocks if blocks else self._results
        self.messages.append({"role": self._role, "content": bare(blocks, True) if self._plain else blocks})
        # The lists now belong to the message; the next run brings its own.
        self._role = ""

    def _flush(self) -> None:
        """The user run is over: its instructions follow it in one `system` message."""
        self.messages.append({"role": "system", "content": bare(self._held, True)})
        self._held = []
        self._waiting.clear()

    def _demote(self) -> None:
        """No user message follows: the instructions become one themselves."""
        held, self._held = self._held, []
        for at in self._waiting:
            self._losses.add(Code.SYSTEM_DEMOTED, at)
        self._waiting.clear()
        self._add_user([], [_wrapped(block) for block in held], (), plain=False)

    def _end_on_assistant(self) -> None:
        """A conversation that ends on the assistant's turn asks Messages to continue that turn; OpenAI's dialects take
        it as history, and Claude 4.6 and later refuse it (mapping §4.2, §13)."""
        if self._calls():
            raise Unsupported(self._at, "the conversation ends on tool calls without results")
        policy = self._knobs.prefill
        if policy == "pass" or any(block["type"] not in _PREFILL_TYPES for block in self._run):
            # Server-side blocks: a paused turn, which is continued by sending it back.
            self._trim()
            self._close()
        elif policy == "reject":
            raise Unsupported(self._at, "the conversation ends on an assistant message, which this upstream refuses")
        else:
            self._losses.add(Code.CONTINUATION, self._at)

    def _trim(self) -> None:
        """The API refuses white space at the end of the text that it is to continue."""
        last = self._run[-1]
        if last["type"] == "text" and last["text"] != (text := last["text"].rstrip()):
            last["text"] = text  # not blank: such blocks are never written
            self._losses.add(Code.BLANK_CUT, self._at, "cut at the end of the text to be continued")


def _wrapped(block: Json) -> Json:
    block["text"] = f"<system>\n{block['text']}\n</system>"
    return block

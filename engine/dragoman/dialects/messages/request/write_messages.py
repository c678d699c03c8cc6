"""Canonical turns → `system` and `messages`: where instructions go, and alternation (mapping §3, §6.4, §13).

Turns of one role that follow each other become one message by putting their blocks together, tool results first.
Where an instruction lands depends on its neighbours only, so a longer history is an extension of the shorter one.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.compact_turns import CompactAssistantTurn, CompactResultTurn
from dragoman.canonical.request import Json, Request, Role, Text, Turn
from dragoman.dialects.messages.request.write_content import ContentWriter
from dragoman.dialects.messages.wire import DIALECT
from dragoman.errors import Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.wire.json_codec import dumps

# Member access on an enum class costs more than the comparison.
_USER: Final = Role.USER
_ASSISTANT: Final = Role.ASSISTANT
_NONE: Final[list[Json]] = []
_THINKING_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})
_PREFILL_TYPES: Final = _THINKING_BLOCKS | {"text"}


def write_conversation(
    request: Request, writer: ContentWriter, model: str, profile: Profile, knobs: Knobs, losses: Losses
) -> tuple[list[Json], list[Json]]:
    """The instruction blocks of `system`, and `messages`.

    Raises `Unsupported` for content without a place, for a final assistant turn with calls (or with any text where the
    `prefill` knob says so), and when no message is left.
    """
    mode = knobs.mid_system
    if mode == "auto":
        mode = "inline" if profile.takes_late_system(model) else "hoist"
    if mode == "hoist" and profile.takes_late_system(model) and _has_late_instructions(request.turns):
        # The prefix was edited, and models that take `system` in place bind their signatures to it (mapping §5.4).
        writer.reasoning.replay = False
    builder = _MessageBuilder(writer, mode, knobs, losses)
    foreign = request.origin != DIALECT
    spoken, answers = writer.compact_assistant, writer.calls.write_results
    for turn in request.turns:
        if type(turn) is CompactAssistantTurn and turn.calls is not None and foreign:
            builder.add_assistant(spoken(turn, turn.calls), turn)
        elif type(turn) is CompactResultTurn and turn.results is not None:
            builder.add_results(answers(turn.results))
        else:
            builder.add(turn)
    builder.finish()
    if not builder.messages:
        raise Unsupported(
            ("input",) if request.origin == "responses" else ("messages",),
            "a Messages upstream needs at least one user message with content",
        )
    return builder.system, builder.messages


def collapse_single_text(blocks: list[Json], plain: bool) -> str | list[Json]:
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


class _MessageBuilder:
    """The message being built from a run of equal roles, and the instructions that wait for it to end."""

    __slots__ = (
        "_after_results",
        "_instructions",
        "_instructions_at",
        "_knobs",
        "_last_assistant",
        "_losses",
        "_mode",
        "_result_count",
        "_role",
        "_searched",
        "_thinking",
        "_user_at",
        "_writer",
        "messages",
        "system",
    )

    def __init__(self, writer: ContentWriter, mode: str, knobs: Knobs, losses: Losses) -> None:
        self._writer, self._mode, self._knobs, self._losses = writer, mode, knobs, losses
        self.system: list[Json] = []
        self.messages: list[Json] = []
        self._role = ""
        """Whose message is open: it is the last of `messages`."""
        self._result_count = 0
        """How many blocks at the beginning of a user's message are results."""
        self._after_results: list[Json] = []
        """Blocks that results have overtaken: they follow the results once the user's message is closed."""
        self._searched: tuple[Json | None, int] = (None, 0)
        """An assistant's message, and how many of its blocks are known to be no calls; -1: it holds one."""
        self._thinking: tuple[Json | None, int, set[bytes]] = (None, 0, set())
        """An assistant's message, how many of its blocks were gone through for thinking, and the thinking found."""
        self._last_assistant: Turn | None = None
        """The assistant's last turn that said anything."""
        self._instructions: list[Json] = []
        self._instructions_at: list[Path] = []
        self._user_at: list[Path] = []
        """User turns of the run whose words no result has overtaken yet."""

    def add(self, turn: Turn) -> None:
        """Any turn, part by part."""
        if turn.name is not None:
            self._losses.add(LossCode.PARTICIPANT_NAME, (*turn.at, "name"))
        role = turn.role
        if role is not _USER and role is not _ASSISTANT:
            self._instruction(turn)
            return
        text = self._writer.single_text(turn) if turn.plain else None
        if role is _ASSISTANT:
            self.add_assistant(text or collapse_single_text(self._writer.assistant(turn), turn.plain), turn)
        elif text:
            self._add_user(_NONE, text, turn.at)
        else:
            self._add_user_turn(turn)

    def _add_user_turn(self, turn: Turn) -> None:
        results: list[Json] = []
        rest: list[Json] = []
        self._writer.user(turn, results, rest)
        if results or rest:
            self._add_user(results, rest if results else collapse_single_text(rest, turn.plain), turn.at)
        elif any(type(part) is Text and part.text for part in turn.parts):
            self._losses.add(LossCode.BLANK_CUT, turn.at, "a message of white space only was left out")

    def add_results(self, results: list[Json]) -> None:
        """The results of a turn that holds nothing else."""
        if self._instructions_at or self._user_at:
            self._add_user(results, _NONE, ())
        elif self._role == "user":  # another message of them, as Chat has one for each
            self._put_results_first(self.messages[-1]["content"], results)
        else:
            self._role = "user"
            self._result_count = len(results)
            self.messages.append({"role": "user", "content": results})

    def _add_user(self, results: list[Json], rest: str | list[Json], at: Path) -> None:
        if self._instructions_at:
            # An instruction may only follow a user message: it slides behind this one.
            for instruction_at in self._instructions_at:
                self._losses.add(LossCode.SYSTEM_REORDERED, instruction_at, "moved behind the next user turn")
            self._instructions_at.clear()
        if self._role == "user":
            run = self._open_blocks()
            if results:
                # The API wants the results of a turn first (mapping §6.4): what was said before them comes behind.
                for user_at in self._user_at:
                    self._losses.add(LossCode.BLOCK_ORDER, user_at, "moved behind the tool results")
                self._user_at.clear()
                self._put_results_first(run, results)
            run += _blocks(rest)
        else:
            self._role = "user"
            self._user_at.clear()
            self._result_count = len(results)
            content = results + rest if results and type(rest) is list else rest
            self.messages.append({"role": "user", "content": content})
        if rest:
            self._user_at.append(at)

    def _put_results_first(self, run: list[Json], results: list[Json]) -> None:
        """Add results to the open user's message. What stands behind the earlier ones is set aside: to move it with
        each result would take quadratic time."""
        if len(run) > self._result_count:
            self._after_results += run[self._result_count :]
            del run[self._result_count :]
        run += results
        self._result_count = len(run)

    def _close_user_message(self) -> None:
        """The open user's message is complete."""
        if self._after_results:
            run: list[Json] = self.messages[-1]["content"]
            run[self._result_count : self._result_count] = self._after_results
            self._after_results = []

    def _open_blocks(self) -> list[Json]:
        """The blocks of the open message, for more to come."""
        message = self.messages[-1]
        blocks = message["content"] = _blocks(message["content"])
        return blocks

    def add_assistant(self, content: str | list[Json], turn: Turn) -> None:
        """The content of an assistant's turn."""
        if not content:
            return
        if self._instructions:
            self._place_instructions()
        if self._role == "assistant":
            run = self._open_blocks()
            run += self._without_repeated_thinking(_blocks(content), run, turn)
        else:
            if self._after_results:
                self._close_user_message()
            self._role = "assistant"
            self.messages.append({"role": "assistant", "content": content})
        self._last_assistant = turn

    def _without_repeated_thinking(self, blocks: list[Json], run: list[Json], turn: Turn) -> list[Json]:
        """Without thinking that the turn has already: the check of signatures takes no block twice."""
        if blocks[0]["type"] not in _THINKING_BLOCKS:
            return blocks
        message = self.messages[-1]
        holder, looked, seen = self._thinking
        if holder is not message:
            looked, seen = 0, set()
        seen.update(
            _identity(run[place]) for place in range(looked, len(run)) if run[place]["type"] in _THINKING_BLOCKS
        )
        self._thinking = (message, len(run), seen)
        kept = [block for block in blocks if block["type"] not in _THINKING_BLOCKS or _identity(block) not in seen]
        if len(kept) < len(blocks):
            self._losses.add(LossCode.THINKING_INVALIDATED, turn.at, "the same block was there twice; dropped")
        return kept

    def _instruction(self, turn: Turn) -> None:
        blocks = self._writer.instruction(turn)
        if not blocks:
            return
        if not self.messages:
            self.system += blocks
        elif self._mode == "hoist":
            self._losses.add(LossCode.SYSTEM_MOVED, turn.at, "moved to the front")
            self.system += blocks
        elif self._mode == "user":
            self._losses.add(LossCode.SYSTEM_DEMOTED, turn.at, "became user text")
            self._add_user(_NONE, [_wrap_system(block) for block in blocks], turn.at)
        else:
            self._instructions += blocks
            self._instructions_at.append(turn.at)

    def finish(self) -> None:
        """All turns are there."""
        if self._role == "assistant" and not (self._instructions and not self._has_calls()):
            self._finish_on_assistant()
        elif self._instructions:
            self._place_instructions()
        else:
            self._close_user_message()

    def _has_calls(self) -> bool:
        """Does the assistant's message hold calls? Nothing but their results may then follow it."""
        message = self.messages[-1]
        content = message["content"]
        if type(content) is not list:
            return False
        looked = self._searched[1] if self._searched[0] is message else 0
        if looked >= 0:
            found = any(content[place]["type"] == "tool_use" for place in range(looked, len(content)))
            self._searched = (message, -1 if found else len(content))
        return self._searched[1] < 0

    def _place_instructions(self) -> None:
        """No user's words follow the instructions that wait: they take their place, but for a call's results to come.

        Behind a user's message they are one `system` message; behind an assistant's they become the user's themselves.
        """
        if self._role == "user":
            self._close_user_message()
            self.messages.append({"role": "system", "content": collapse_single_text(self._instructions, True)})
        elif self._has_calls():
            return
        else:
            for at in self._instructions_at:
                self._losses.add(LossCode.SYSTEM_DEMOTED, at, "became user text")
            self.messages.append({"role": "user", "content": [_wrap_system(block) for block in self._instructions]})
        self._instructions = []
        self._instructions_at.clear()
        self._role = ""

    def _finish_on_assistant(self) -> None:
        """A conversation that ends on the assistant's turn asks Messages to continue that turn; OpenAI's dialects take
        it as history, and Claude 4.6 and later refuse it (mapping §4.2, §13)."""
        at = () if self._last_assistant is None else self._last_assistant.at
        if self._has_calls():
            raise Unsupported(at, "the conversation ends on tool calls without results")
        policy = self._knobs.prefill
        blocks = _blocks(self.messages[-1]["content"])
        if policy == "pass" or any(block["type"] not in _PREFILL_TYPES for block in blocks):
            # Server-side blocks: a paused turn, which is continued by sending it back.
            self._cut_trailing_space(at)
        elif policy == "reject":
            raise Unsupported(at, "the conversation ends on an assistant message, which this upstream refuses")
        else:
            self._losses.add(LossCode.CONTINUATION, at)
            self.messages.pop()

    def _cut_trailing_space(self, at: Path) -> None:
        """The API refuses white space at the end of the text that it is to continue."""
        message = self.messages[-1]
        content = message["content"]
        holder, key = (message, "content") if type(content) is str else (content[-1], "text")
        if key == "text" and holder["type"] != "text":  # a block as it came is nobody's to change
            return
        text: str = holder[key]
        if text != (cut := text.rstrip()):
            holder[key] = cut  # not blank: such blocks are never written
            self._losses.add(LossCode.BLANK_CUT, at, "cut at the end of the text to be continued")


def _blocks(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _identity(block: Json) -> bytes:
    """The same for thinking blocks that are equal."""
    return dumps(dict(sorted(block.items())))


def _wrap_system(block: Json) -> Json:
    block["text"] = f"<system>\n{block['text']}\n</system>"
    return block

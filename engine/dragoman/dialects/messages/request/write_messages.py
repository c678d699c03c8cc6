"""Canonical turns → `system` and `messages`: where instructions go, and alternation (mapping §3, §6.4, §13).

Turns of one role that follow each other become one message by putting their blocks together, tool results first.
Where an instruction lands depends on its neighbours only, so a longer history is an extension of the shorter one.
"""

from __future__ import annotations

from typing import Final

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
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_PREFILL_TYPES: Final = _THOUGHTS | {"text"}


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
        writer.thoughts.replay = False
    builder = _Builder(writer, mode, knobs, losses)
    foreign = request.origin != DIALECT
    spoken, answers = writer.spoken, writer.calls.answers
    for turn in request.turns:
        if foreign and (assistant := turn.compact_assistant()) is not None:
            builder.spoken(spoken(assistant), turn)
        elif (results := turn.compact_results()) is not None:
            builder.answered(answers(results))
        else:
            builder.add(turn)
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
    """The message being built from a run of equal roles, and the instructions that wait for it to end."""

    __slots__ = (
        "_ahead",
        "_answers",
        "_behind",
        "_held",
        "_knobs",
        "_looked",
        "_losses",
        "_mode",
        "_role",
        "_said",
        "_thoughts",
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
        """Whose message is open: it is the last of `messages`."""
        self._answers = 0
        """How many blocks at the beginning of a user's message are results."""
        self._behind: list[Json] = []
        """Blocks that results have overtaken: they follow the results once the user's message is closed."""
        self._looked: tuple[Json | None, int] = (None, 0)
        """An assistant's message, and how many of its blocks are known to be no calls; -1: it holds one."""
        self._thoughts: tuple[Json | None, int, set[bytes]] = (None, 0, set())
        """An assistant's message, how many of its blocks were gone through for thinking, and the thinking found."""
        self._said: Turn | None = None
        """The assistant's last turn that said anything."""
        self._held: list[Json] = []
        self._waiting: list[Path] = []
        self._ahead: list[Path] = []
        """User turns of the run whose words no result has overtaken yet."""

    def add(self, turn: Turn) -> None:
        """Any turn, part by part."""
        if turn.name is not None:
            self._losses.add(LossCode.PARTICIPANT_NAME, (*turn.at, "name"))
        role = turn.role
        if role is not _USER and role is not _ASSISTANT:
            self._instruction(turn)
            return
        said = self._writer.bare_text(turn) if turn.plain else None
        if role is _ASSISTANT:
            self.spoken(said or bare(self._writer.assistant(turn), turn.plain), turn)
        elif said:
            self._add_user(_NONE, said, turn.at)
        else:
            self._user(turn)

    def _user(self, turn: Turn) -> None:
        results: list[Json] = []
        rest: list[Json] = []
        self._writer.user(turn, results, rest)
        if results or rest:
            self._add_user(results, rest if results else bare(rest, turn.plain), turn.at)
        elif any(type(part) is Text and part.text for part in turn.parts):
            self._losses.add(LossCode.BLANK_CUT, turn.at, "a message of white space only was left out")

    def answered(self, results: list[Json]) -> None:
        """The results of a turn that holds nothing else."""
        if self._waiting or self._ahead:
            self._add_user(results, _NONE, ())
        elif self._role == "user":  # another message of them, as Chat has one for each
            self._put(self.messages[-1]["content"], results)
        else:
            self._role = "user"
            self._answers = len(results)
            self.messages.append({"role": "user", "content": results})

    def _add_user(self, results: list[Json], rest: str | list[Json], at: Path) -> None:
        if self._waiting:
            # An instruction may only follow a user message: it slides behind this one.
            for waiting in self._waiting:
                self._losses.add(LossCode.SYSTEM_REORDERED, waiting, "moved behind the next user turn")
            self._waiting.clear()
        if self._role == "user":
            run = self._run()
            if results:
                # The API wants the results of a turn first (mapping §6.4): what was said before them comes behind.
                for said_at in self._ahead:
                    self._losses.add(LossCode.BLOCK_ORDER, said_at, "moved behind the tool results")
                self._ahead.clear()
                self._put(run, results)
            run += _blocks(rest)
        else:
            self._role = "user"
            self._ahead.clear()
            self._answers = len(results)
            content = results + rest if results and type(rest) is list else rest
            self.messages.append({"role": "user", "content": content})
        if rest:
            self._ahead.append(at)

    def _put(self, run: list[Json], results: list[Json]) -> None:
        """Add results to the open user's message. What stands behind the earlier ones is set aside: to move it with
        each result would take quadratic time."""
        if len(run) > self._answers:
            self._behind += run[self._answers :]
            del run[self._answers :]
        run += results
        self._answers = len(run)

    def _close(self) -> None:
        """The open user's message is complete."""
        if self._behind:
            run: list[Json] = self.messages[-1]["content"]
            run[self._answers : self._answers] = self._behind
            self._behind = []

    def _run(self) -> list[Json]:
        """The blocks of the open message, for more to come."""
        message = self.messages[-1]
        blocks = message["content"] = _blocks(message["content"])
        return blocks

    def spoken(self, content: str | list[Json], turn: Turn) -> None:
        """The content of an assistant's turn."""
        if not content:
            return
        if self._held:
            self._settle()
        if self._role == "assistant":
            run = self._run()
            run += self._unrepeated(_blocks(content), run, turn)
        else:
            if self._behind:
                self._close()
            self._role = "assistant"
            self.messages.append({"role": "assistant", "content": content})
        self._said = turn

    def _unrepeated(self, blocks: list[Json], run: list[Json], turn: Turn) -> list[Json]:
        """Without thinking that the turn has already: the check of signatures takes no block twice."""
        if blocks[0]["type"] not in _THOUGHTS:
            return blocks
        message = self.messages[-1]
        holder, looked, seen = self._thoughts
        if holder is not message:
            looked, seen = 0, set()
        seen.update(_key(run[place]) for place in range(looked, len(run)) if run[place]["type"] in _THOUGHTS)
        self._thoughts = (message, len(run), seen)
        kept = [block for block in blocks if block["type"] not in _THOUGHTS or _key(block) not in seen]
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
            self._add_user(_NONE, [_wrapped(block) for block in blocks], turn.at)
        else:
            self._held += blocks
            self._waiting.append(turn.at)

    def finish(self) -> None:
        """All turns are there."""
        if self._role == "assistant" and not (self._held and not self._calls()):
            self._end_on_assistant()
        elif self._held:
            self._settle()
        else:
            self._close()

    def _calls(self) -> bool:
        """Does the assistant's message hold calls? Nothing but their results may then follow it."""
        message = self.messages[-1]
        content = message["content"]
        if type(content) is not list:
            return False
        looked = self._looked[1] if self._looked[0] is message else 0
        if looked >= 0:
            found = any(content[place]["type"] == "tool_use" for place in range(looked, len(content)))
            self._looked = (message, -1 if found else len(content))
        return self._looked[1] < 0

    def _settle(self) -> None:
        """No user's words follow the instructions that wait: they take their place, but for a call's results to come.

        Behind a user's message they are one `system` message; behind an assistant's they become the user's themselves.
        """
        if self._role == "user":
            self._close()
            self.messages.append({"role": "system", "content": bare(self._held, True)})
        elif self._calls():
            return
        else:
            for at in self._waiting:
                self._losses.add(LossCode.SYSTEM_DEMOTED, at, "became user text")
            self.messages.append({"role": "user", "content": [_wrapped(block) for block in self._held]})
        self._held = []
        self._waiting.clear()
        self._role = ""

    def _end_on_assistant(self) -> None:
        """A conversation that ends on the assistant's turn asks Messages to continue that turn; OpenAI's dialects take
        it as history, and Claude 4.6 and later refuse it (mapping §4.2, §13)."""
        at = () if self._said is None else self._said.at
        if self._calls():
            raise Unsupported(at, "the conversation ends on tool calls without results")
        policy = self._knobs.prefill
        blocks = _blocks(self.messages[-1]["content"])
        if policy == "pass" or any(block["type"] not in _PREFILL_TYPES for block in blocks):
            # Server-side blocks: a paused turn, which is continued by sending it back.
            self._trim(at)
        elif policy == "reject":
            raise Unsupported(at, "the conversation ends on an assistant message, which this upstream refuses")
        else:
            self._losses.add(LossCode.CONTINUATION, at)
            self.messages.pop()

    def _trim(self, at: Path) -> None:
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


def _key(thought: Json) -> bytes:
    """The same for thinking blocks that are equal."""
    return dumps(dict(sorted(thought.items())))


def _wrapped(block: Json) -> Json:
    block["text"] = f"<system>\n{block['text']}\n</system>"
    return block

"""Writes canonical turns as `system` and `messages` (mapping §3, §6.4, §13).

Consecutive turns of one role become one message that holds the blocks of all, tool results first. The place of an
instruction depends only on the turns next to it, so a longer history extends a shorter one, and prompt caches stay
valid.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.parts import Text
from dragoman.canonical.request import Json, Request
from dragoman.canonical.turn import Turn
from dragoman.dialects.messages.request.write_content import ContentWriter, collapse_single_text
from dragoman.errors import Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.wire.json_codec import dumps

_NO_BLOCKS: Final[list[Json]] = []
_THINKING_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})
_QUOTATION: Final = (
    "This is the beginning of your answer:\n\n<answer>\n{}\n</answer>\n\nGo on from its end, without repeating it."
)
_PREFILL_TYPES: Final = _THINKING_BLOCKS | {"text"}
"""Types of blocks in an assistant message that is to be continued."""


def write_conversation(
    request: Request, writer: ContentWriter, model: str, profile: Profile, knobs: Knobs, losses: Losses
) -> tuple[list[Json], list[Json]]:
    """Return the blocks of `system`, and `messages`.

    Without a conversation, the instructions are the user's message. Raises `Unsupported` for content that the API
    cannot express, for a conversation that ends on calls without results (or on any assistant turn if the knob
    `prefill` rejects it), and if nothing is left to send.

    Args:
        request: the canonical request.
        writer: writes the content of turns.
        model: the upstream's model, which decides if `system` messages are allowed between others, and if a final
            assistant message is.
        profile: the upstream's abilities.
        knobs: the operator's choices.
        losses: where moved and dropped content is recorded.
    """
    mode = knobs.mid_system
    if mode == "auto":
        mode = "inline" if profile.takes_late_system(model) else "hoist"
    if mode == "hoist" and profile.takes_late_system(model) and _has_late_instructions(request.turns):
        # The prefix is edited, and models that accept `system` messages sign it with their thinking (mapping §5.4).
        writer.reasoning.replay = False
    builder = _MessageBuilder(writer, mode, losses)
    write_assistant, write_results = writer.assistant, writer.calls.write_results
    for turn in request.turns:
        if turn.name is not None:
            losses.add(LossCode.PARTICIPANT_NAME, (*turn.at, "name"))
        compact = turn.compact
        if type(compact) is list:
            builder.add_results(write_results(compact))
        elif turn.role == "assistant":
            builder.add_assistant(write_assistant(turn), turn)
        elif turn.role == "user":
            builder.add_user(turn)
        else:
            builder.add_instruction(turn)
    prefill = knobs.prefill
    if prefill == "auto":  # models that think continue no text
        thinks = request.thinking is not None and request.thinking.effort != "none"
        prefill = "pass" if not thinks and profile.takes_prefill(model) else "auto"
    builder.finish(prefill)
    if not builder.messages and builder.system:
        losses.add(LossCode.SYSTEM_DEMOTED, request.turns[0].at, "became the user's message: there is no other")
        return [], [{"role": "user", "content": collapse_single_text(builder.system, True)}]
    if not builder.messages:
        raise Unsupported(
            ("input",) if request.origin == "responses" else ("messages",),
            "a Messages upstream needs at least one user message with content",
        )
    return builder.system, builder.messages


def _has_late_instructions(turns: list[Turn]) -> bool:
    started = False
    for turn in turns:
        if turn.role != "instruction":
            started = True
        elif started and turn.parts:
            return True
    return False


class _MessageBuilder:
    """Builds `system` and `messages` turn by turn. The last message is open until the role changes.

    Call one of the `add` methods for each turn, then `finish`.
    """

    def __init__(self, writer: ContentWriter, mode: str, losses: Losses) -> None:
        self._writer, self._mode, self._losses = writer, mode, losses
        self.system: list[Json] = []
        self.messages: list[Json] = []
        self._role = ""
        """The role of the open message, the last of `messages`; "" if none is open."""
        self._result_count = 0
        """The number of results at the beginning of the open user message."""
        self._after_results: list[Json] = []
        """Blocks that move after later results. They are put back when the user message is closed."""
        self._searched: tuple[Json | None, int] = (None, 0)
        """An assistant message, and the number of its first blocks that are known to be no calls; -1 if it has one."""
        self._thinking: tuple[Json | None, int, set[bytes]] = (None, 0, set())
        """An assistant message, the number of its first blocks that were searched for thinking, and the keys found."""
        self._last_assistant: Turn | None = None
        """The last assistant turn with content."""
        self._instructions: list[Json] = []
        """Blocks of late instructions whose place is not decided yet."""
        self._instructions_at: list[Path] = []
        """The paths of these instructions."""
        self._user_at: list[Path] = []
        """The paths of user turns in the open message that stand before no result so far."""

    def add_user(self, turn: Turn) -> None:
        """Add a turn of the user."""
        if turn.plain and isinstance(text := turn.compact, str) and text and not text.isspace():
            self._add_user(_NO_BLOCKS, text, turn.at)
            return
        results: list[Json] = []
        rest: list[Json] = []
        self._writer.user(turn, results, rest)
        if results or rest:
            self._add_user(results, rest if results else collapse_single_text(rest, turn.plain), turn.at)
        elif any(type(part) is Text and part.text for part in turn.parts):
            self._losses.add(LossCode.BLANK_CUT, turn.at, "a message of white space only was left out")

    def add_results(self, results: list[Json]) -> None:
        """Add the results of a turn that holds nothing else."""
        if self._instructions_at or self._user_at:
            self._add_user(results, _NO_BLOCKS, ())
        elif self._role == "user":  # Chat has a message for each result
            self._put_results_first(self.messages[-1]["content"], results)
        else:
            self._role = "user"
            self._result_count = len(results)
            self.messages.append({"role": "user", "content": results})

    def _add_user(self, results: list[Json], rest: str | list[Json], at: Path) -> None:
        if self._instructions_at:
            # A `system` message may only follow a user message: it moves after this one.
            for instruction_at in self._instructions_at:
                self._losses.add(LossCode.SYSTEM_REORDERED, instruction_at, "moved after the next user turn")
            self._instructions_at.clear()
        if self._role == "user":
            run = self._open_blocks()
            if results:
                # The API requires the results of a turn first (mapping §6.4): other content moves after them.
                for user_at in self._user_at:
                    self._losses.add(LossCode.BLOCK_ORDER, user_at, "moved after the tool results")
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
        """Add results to the open user message, after its earlier results.

        Other blocks are set aside until the message is closed: moving them with each result would take quadratic time.
        """
        if len(run) > self._result_count:
            self._after_results += run[self._result_count :]
            del run[self._result_count :]
        run += results
        self._result_count = len(run)

    def _close_user_message(self) -> None:
        """Complete the open user message: put back the blocks that were set aside."""
        if self._after_results:
            run: list[Json] = self.messages[-1]["content"]
            run[self._result_count : self._result_count] = self._after_results
            self._after_results = []

    def _open_blocks(self) -> list[Json]:
        """Return the blocks of the open message, to be extended."""
        message = self.messages[-1]
        blocks = message["content"] = _blocks(message["content"])
        return blocks

    def add_assistant(self, content: str | list[Json], turn: Turn) -> None:
        """Add the content of an assistant turn."""
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
        """Return `blocks` without thinking that the open message has already: the API rejects a repeated signature."""
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

    def add_instruction(self, turn: Turn) -> None:
        """Add instructions."""
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
            self._add_user(_NO_BLOCKS, [_wrap_system(block) for block in blocks], turn.at)
        else:
            self._instructions += blocks
            self._instructions_at.append(turn.at)

    def finish(self, prefill: str) -> None:
        """End the conversation after the last turn. `prefill` is as the knob; `auto` quotes a final assistant turn."""
        if self._role == "assistant" and not (self._instructions and not self._has_calls()):
            self._finish_on_assistant(prefill)
        elif self._instructions:
            self._place_instructions()
        else:
            self._close_user_message()

    def _has_calls(self) -> bool:
        """True if the open assistant message holds calls. Only their results may follow it then."""
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
        """Write the pending instructions before an assistant turn or at the end.

        After a user message they become one `system` message, after an assistant message a user message. If results of
        calls have to come first, they stay pending.
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

    def _finish_on_assistant(self, prefill: str) -> None:
        """Handle a conversation that ends on an assistant turn (mapping §4.2, §13).

        Older models continue such a turn, Claude 4.6 and later reject it; the OpenAI dialects read it as history.
        """
        at = () if self._last_assistant is None else self._last_assistant.at
        if self._has_calls():
            raise Unsupported(at, "the conversation ends on tool calls without results")
        blocks = _blocks(self.messages[-1]["content"])
        if prefill == "pass" or any(block["type"] not in _PREFILL_TYPES for block in blocks):
            # Blocks of server-side tools: a paused turn, which is continued by sending it back.
            self._cut_trailing_space(at)
        elif prefill == "reject":
            raise Unsupported(at, "the conversation ends on an assistant message, which this upstream refuses")
        else:
            self.messages.pop()
            if prefill == "drop":
                self._losses.add(LossCode.CONTINUATION, at)
            else:
                self._losses.add(LossCode.CONTINUATION, at, "quoted at the end of a user message")
                self._quote("".join(block["text"] for block in blocks if block["type"] == "text"))

    def _quote(self, text: str) -> None:
        """Add a text of the assistant to the last user message, for models that do not continue it.

        Agents write what a tool returned into such a text, so the model has to see it.
        """
        if not text:
            return
        block: Json = {"type": "text", "text": _QUOTATION.format(text)}
        place = len(self.messages)
        if place and self.messages[-1]["role"] == "system":  # stands between a user message and the assistant's
            place -= 1
        if place and self.messages[place - 1]["role"] == "user":
            message = self.messages[place - 1]
            message["content"] = [*_blocks(message["content"]), block]
        else:
            self.messages.insert(place, {"role": "user", "content": [block]})

    def _cut_trailing_space(self, at: Path) -> None:
        """Cut white space at the end of a text to be continued, which the API rejects."""
        message = self.messages[-1]
        content = message["content"]
        holder, key = (message, "content") if type(content) is str else (content[-1], "text")
        if key == "text" and holder["type"] != "text":  # blocks of other types are sent unchanged
            return
        text: str = holder[key]
        if text != (cut := text.rstrip()):
            holder[key] = cut  # not blank: such blocks are never written
            self._losses.add(LossCode.BLANK_CUT, at, "cut at the end of the text to be continued")


def _blocks(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _identity(block: Json) -> bytes:
    """Return a key that is equal for equal thinking blocks."""
    return dumps(dict(sorted(block.items())))


def _wrap_system(block: Json) -> Json:
    block["text"] = f"<system>\n{block['text']}\n</system>"
    return block

"""Turns to `instructions` and `input` (mapping §3, §4, §6.4).

Items may have any order as long as an output follows its call. So each turn becomes items in its place, and the items
of a longer history start with those of a shorter one. For the same reason only the turns before the first message of
the conversation decide whether there are `instructions`.
"""

from __future__ import annotations

from dragoman.canonical.parts import Native, Text, ToolCall, ToolReference, ToolResult
from dragoman.canonical.request import Json, Request
from dragoman.canonical.turn import Turn
from dragoman.dialects.responses.built_in_items import write_output
from dragoman.dialects.responses.request.write_assistant import AssistantWriter
from dragoman.dialects.responses.request.write_content import ContentWriter, input_text
from dragoman.dialects.responses.request.write_tools import ToolsWriter
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable


def write_input(
    request: Request, tools: ToolsWriter, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable
) -> tuple[str | None, list[Json]]:
    """Return `instructions` (or None) and the items of `input`.

    Raises `Unsupported` for parts that this upstream does not accept, `ClientRequestError` if nothing is left to send.
    """
    if len(request.turns) == 1 and (item := _lone_text(request.turns[0], profile)) is not None:
        return None, [item]
    writer = _InputWriter(request, tools, profile, knobs, losses, names)
    turns = request.turns[: writer.count_sent(request.turns)]
    leading = writer.count_leading(turns)
    write_assistant, write_results, items = writer.assistant.write, writer.content.write_results, writer.items
    for turn in turns[leading:] if leading else turns:
        compact = turn.compact
        if type(compact) is tuple:
            write_assistant(turn, items)
        elif type(compact) is list:
            write_results(compact, items)
        else:
            writer.add(turn)
    if leading and not items:
        # The API requires input: without a conversation the instructions become messages.
        for turn in turns[:leading]:
            writer.add(turn)
        leading = 0
    instructions = writer.instructions(turns[:leading]) if leading else None
    writer.content.finish()
    if not items:
        at = ("input",) if request.origin == DIALECT else ("messages",)
        raise ClientRequestError(at, "nothing is left to send: all content is empty or results without a call")
    return instructions, items


def _lone_text(turn: Turn, profile: Profile) -> Json | None:
    """Return the item of a conversation that is one text of the user, as short ones are; None for any other turn."""
    if turn.role != "user" or turn.name is not None or not isinstance(text := turn.compact, str) or not text:
        return None
    bare = turn.plain or not profile.text_parts
    return {"type": "message", "role": "user", "content": text if bare else [input_text(text)]}


class _InputWriter:
    """Writes the turns of one request to `items`."""

    def __init__(
        self, request: Request, tools: ToolsWriter, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable
    ) -> None:
        self._request, self._tools = request, tools
        self._profile, self._knobs, self._losses = profile, knobs, losses
        self.content = ContentWriter(request, profile, losses, names)
        self.assistant = AssistantWriter(request.origin, profile, knobs, losses, names)
        self.items: list[Json] = []

    def add(self, turn: Turn) -> None:
        """Write one turn."""
        if turn.name is not None:
            self._losses.add(LossCode.PARTICIPANT_NAME, (*turn.at, "name"))
        role = turn.role
        if role == "assistant":
            self.assistant.write(turn, self.items)
        elif role == "user":
            self._user(turn)
        else:
            self._instruction(turn)

    # --- instructions -------------------------------------------------------------------------------------------------

    def count_leading(self, turns: list[Turn]) -> int:
        """Return how many of the first turns become `instructions` (mapping §3).

        A top-level field does, and a single text of a leading message. Several texts stay separate messages, and so
        does a text with a cache mark, because `instructions` cannot have one.
        """
        if not turns or turns[0].role != "instruction":
            return 0
        top = turns[0].original == "top"
        count = 1
        if not top:
            form = self._request.format
            if self._request.origin == DIALECT or (form is not None and form.kind == "json_object"):
                # The JSON mode requires the word JSON in the input; `instructions` do not count.
                return 0
            while count < len(turns) and turns[count].role == "instruction":
                count += 1
        texts = [part for turn in turns[:count] for part in turn.parts if type(part) is Text and part.text]
        keeps_marks = self._profile.explicit_cache and self._profile.text_parts
        if keeps_marks and any(text.cache is not None for text in texts):
            return 0
        return count if len(texts) == 1 or (top and texts) else 0

    def instructions(self, turns: list[Turn]) -> str:
        """Return the texts of these turns, separated by blank lines."""
        texts = []
        for turn in turns:
            if turn.name is not None:
                self._losses.add(LossCode.PARTICIPANT_NAME, (*turn.at, "name"))
            for part in self._texts(turn):
                if part.cache is not None:
                    self.content.drop_mark(part)
                if part.citations:
                    self._losses.add(LossCode.CITATIONS, part.at)
                if part.text:
                    texts.append(part.text)
        return "\n\n".join(texts)

    def _texts(self, turn: Turn) -> list[Text]:
        """Return the turn's texts. Raises `Unsupported` for anything but text (mapping §3)."""
        texts = []
        for part in turn.parts:
            if type(part) is Text:
                texts.append(part)
            elif type(part) is Native:
                self._losses.add(LossCode(part.code), part.at)
            else:
                raise Unsupported(part.at, "instructions can hold text only")
        return texts

    def _instruction(self, turn: Turn) -> None:
        """Write a system or developer message in its place."""
        parts: list[Json] = []
        for part in self._texts(turn):
            self.content.add(part, parts)
        if not parts:
            return
        role = self._profile.instruction_role
        if role == "developer" and self._request.origin != "messages" and turn.original == "system":
            role = "system"  # the upstream accepts both roles, so the client's is kept
        self.items.append(self.content.message(role, turn, parts))

    # --- user turns ---------------------------------------------------------------------------------------------------

    def _user(self, turn: Turn) -> None:
        """Write the turn's results and the parts between them, in order."""
        item: Json
        if isinstance(text := turn.compact, str):
            if text:
                item = {"type": "message", "role": "user"}
                self.content.fill(item, "content", text, bare=turn.plain)
                self.items.append(item)
            return
        parts: list[Json] = []
        for part in turn.parts:
            if type(part) is ToolResult:
                if part.search:
                    item = self._search_result(part)
                elif part.built_in and isinstance(part.content, str):
                    call_id = self.content.upstream_call_id(part.call_id)
                    item = write_output(part.built_in, call_id, part.content, is_error=part.is_error)
                else:
                    item = self.content.result(part)
            elif type(part) is not Native:
                self.content.add(part, parts)
                continue
            elif part.origin == DIALECT:
                item = part.payload
            else:
                self._losses.add(LossCode(part.code), part.at)
                continue
            if parts:
                self.items.append(self.content.message("user", turn, parts))
                parts = []
            self.items.append(item)
        if parts:
            self.items.append(self.content.message("user", turn, parts))

    def _search_result(self, result: ToolResult) -> Json:
        content = result.content if isinstance(result.content, list) else []
        found = [part for part in content if type(part) is ToolReference]
        if not found and result.content:
            self._losses.add(LossCode.RESULT_SHAPE, result.at, "the result of a tool search is a list of tools")
        return {
            "type": "tool_search_output",
            "call_id": self.content.upstream_call_id(result.call_id),
            "execution": "client",
            "status": "completed",
            "tools": self._tools.write_found(found),
        }

    # --- the end ------------------------------------------------------------------------------------------------------

    def count_sent(self, turns: list[Turn]) -> int:
        """Return how many turns are sent. The knob `prefill` decides about final assistant turns (mapping §4.2).

        A Messages model would continue such a turn; to this upstream it is history.
        """
        count = len(turns)
        if self._request.origin != "messages":
            return count
        while count and _is_prefill(turns[count - 1]):
            at = turns[count - 1].at
            if self._knobs.prefill == "reject":
                raise Unsupported(at, "the upstream cannot continue an assistant turn")
            if self._knobs.prefill != "drop":
                self._losses.add(LossCode.CONTINUATION, at, "sent as history")
                break
            self._losses.add(LossCode.CONTINUATION, at, "left out")
            count -= 1
        return count


def _is_prefill(turn: Turn) -> bool:
    """True if the turn is a text of the assistant without a call."""
    if turn.role != "assistant" or any(type(part) is ToolCall for part in turn.parts):
        return False
    return any(type(part) is Text and part.text for part in turn.parts)

"""Writes turns as Chat `messages` (mapping §3, §4.1, §6.4).

Chat requires tool messages directly after the assistant message with their calls. So everything else that comes before
the last result is held until the results are written: instructions, user text, and media that tool messages cannot
hold. The place of a turn depends on earlier turns and on later results of open calls only: a longer history starts with
the messages of a shorter one.
"""

from __future__ import annotations

from dragoman.canonical.parts import Document, Image, Native, Part, Recording, Text, ToolResult
from dragoman.canonical.request import Json, Request
from dragoman.canonical.turn import Turn
from dragoman.dialects.chat.request.write_assistant import AssistantWriter
from dragoman.dialects.chat.request.write_instructions import place_instructions
from dragoman.dialects.chat.request.write_texts import instruction_role, write_texts
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.openai.content_parts import text_of
from dragoman.dialects.openai.media import text_part, write_document, write_image, write_recording
from dragoman.dialects.openai.prompt_cache_fields import CacheMarks, is_marked
from dragoman.dialects.shared.placeholders import Placeholders
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable, sanitize_call_id

_FAILED = "Error: the tool call failed without a message."


def write_messages(request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable) -> list[Json]:
    """Return the request's turns as messages.

    Raises `Unsupported` for parts that this upstream does not support, `ClientRequestError` if no message is left.
    """
    turns = place_instructions(request.turns, profile, knobs, losses)
    if request.origin != DIALECT and (texts := write_texts(turns, request.origin, profile)) is not None:
        return texts
    writer = _MessagesWriter(request, profile, knobs, losses, names)
    if request.thinking is not None and request.thinking.effort == "none":
        writer.assistant_writer.fills_reasoning = False
    writer.write(turns)
    return writer.finish()


class _MessagesWriter:
    """The messages written so far, and those held until the open calls have their results."""

    def __init__(self, request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable) -> None:
        self.origin, self.profile, self.knobs, self.losses, self.names = request.origin, profile, knobs, losses, names
        self.placeholders = Placeholders(request.turns, losses)
        options = request.cache.get("prompt_cache_options")
        self.marks = CacheMarks(profile, losses, options.get("ttl") if options else None)
        self.assistant_writer = AssistantWriter(request.origin, profile, knobs, losses, names, self.marks)
        self.messages: list[Json] = []
        self.open_calls: dict[str, str] = {}
        """Ids of the calls without a result → the ids sent for them."""
        self.held: list[Json] = []
        """Messages to be written after the results."""
        self.overtaken: list[tuple[LossCode, Path]] = []
        """Loss code and path of the held messages, until a later result is written before them."""
        self.moved_media: list[Json] = []
        """Media of the results, to be written in a user message after them."""
        self.attachments = 0
        """Number of media moved so far, for their labels."""
        self.assistant_paths: list[Path] = []
        """Paths of the turns that were written as assistant messages."""

    def write(self, turns: list[Turn]) -> None:
        """Write the turns."""
        foreign = self.origin != DIALECT
        opened, held, moved = self.open_calls, self.held, self.moved_media
        append, append_path = self.messages.append, self.assistant_paths.append
        write_assistant, longest = self.assistant_writer.write, self.profile.call_id_max
        for turn in turns:
            compact = turn.compact
            if turn.role == "assistant":
                # Only here may a call be open: the turn before is an assistant's too.
                joins = bool(opened) and foreign and "tool_calls" in self.messages[-1]
                if (opened or held or moved) and not joins:
                    self._before_assistant()
                message = write_assistant(turn, opened)
                if message is None:
                    continue
                if joins:
                    self._join(message, turn.at)
                else:
                    append(message)
                    append_path(turn.at)
            elif type(compact) is list:
                for call_id, content, at, failed in compact:
                    if failed or held:
                        self._write_text_result(call_id, content, at, failed)
                    else:
                        sent_id = opened.pop(call_id, None) or sanitize_call_id(call_id, longest)
                        append({"role": "tool", "tool_call_id": sent_id, "content": content})
                if not opened and (held or moved):
                    self._flush()
            elif turn.role == "user":
                self._write_user(turn)
            else:
                self._write_instruction(turn)

    def _join(self, message: Json, at: Path) -> None:
        """Add an assistant message to the one before it, as the results of all their calls must follow together."""
        last = self.messages[-1]
        self.losses.add(LossCode.TURNS_MERGED, at, "joined the message before it, whose calls had no results yet")
        for key, value in message.items():
            if not (before := last.get(key)):
                last[key] = value
            elif type(before) is str and type(value) is str:
                last[key] = before if key == "role" else f"{before}\n\n{value}"
            elif value:
                last[key] = _parts_of(before) + _parts_of(value)

    def _before_assistant(self) -> None:
        """Prepare for an assistant message: calls that are still open will get no result."""
        if self.held or self.moved_media:
            self._flush()
        if self.open_calls:
            self.open_calls.clear()

    def finish(self) -> list[Json]:
        """Return all messages. Raises `ClientRequestError` for an empty list."""
        self._flush()
        if self.origin != DIALECT:
            self._prefill()
            if self.marks.any:
                self.marks.unify_texts(self.messages, arrays=self.profile.text_parts and self.marks.accepted)
        self.marks.keep_last(self.messages)
        if not self.messages:
            at = ("input",) if self.origin == "responses" else ("messages",)
            raise ClientRequestError(at, "nothing is left to send: all content is empty or results without a call")
        return self.messages

    def _flush(self, message: Json | None = None) -> None:
        """Write the moved media, then the held messages in order, then `message`."""
        if self.moved_media:
            if message is not None and not self.held:
                content = message["content"]
                message["content"] = self.moved_media + ([text_part(content)] if type(content) is str else content)
            else:
                self.messages.append({"role": "user", "content": self.moved_media.copy()})
            self.moved_media.clear()
            self.attachments = 0
        if self.held:
            self.messages += self.held
            self.held.clear()
            self.overtaken.clear()
        if message is not None:
            self.messages.append(message)

    def _prefill(self) -> None:
        """Apply the knob `prefill` to a final assistant text: only Messages models continue it (mapping §4.2)."""
        knob, messages = self.knobs.prefill, self.messages
        while messages and messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]:
            at = self.assistant_paths.pop()
            if knob == "reject":
                raise Unsupported(at, "the upstream cannot continue an assistant turn")
            if knob != "drop":
                self.losses.add(LossCode.CONTINUATION, at, "sent as history")
                return
            self.losses.add(LossCode.CONTINUATION, at, "left out")
            content = messages.pop()["content"]
            if type(content) is list:
                self.marks.forget(content)

    # --- instructions and user turns ----------------------------------------------------------------------------------

    def _write_instruction(self, turn: Turn) -> None:
        """Write a system or developer message."""
        profile = self.profile
        parts: list[Json] = []
        for part in turn.parts:
            if type(part) is Text:
                if part.text:
                    parts.append(text_part(part.text))
                if part.citations:
                    self.losses.add(LossCode.CITATIONS, part.at)
                if part.cache is not None:
                    self.marks.put(parts[-1] if part.text and profile.text_parts else None, part.cache, part.at)
            elif type(part) is Native:
                self.losses.add(LossCode(part.code), part.at)
            else:
                raise Unsupported(part.at, "instructions can hold text only")
        if not parts:
            return
        message: Json = {"role": instruction_role(turn, self.origin, profile)}
        if profile.text_parts:
            message["content"] = _string_or_parts(turn, parts)
        else:
            message["content"] = "\n\n".join(part["text"] for part in parts)
        if turn.name is not None:
            message["name"] = turn.name
        if self.open_calls:
            self.held.append(message)
            self.overtaken.append((LossCode.SYSTEM_REORDERED, turn.at))
        else:
            self.messages.append(message)

    def _write_user(self, turn: Turn) -> None:
        """Write the turn's results as tool messages, then its other parts as a user message."""
        parts: list[Json] = []
        if turn.plain and isinstance(text := turn.compact, str) and text and not self.open_calls:
            self._flush({"role": "user", "content": text})
            return
        for part in turn.parts:
            if type(part) is ToolResult:
                self._write_result(part)
            elif type(part) is Text:
                if part.text:
                    parts.append(text_part(part.text))
                if part.citations:
                    self.losses.add(LossCode.CITATIONS, part.at)
                if part.cache is not None:
                    self.marks.put(parts[-1] if part.text else None, part.cache, part.at)
            else:
                try:
                    written = self._write_part(part)
                except ClientRequestError as error:
                    written = [text_part(self.placeholders.text(part, error))]
                parts += written
                cache = getattr(part, "cache", None)
                if cache is not None:
                    self.marks.put(written[-1] if written else None, cache, part.at)
        message: Json | None = None
        if parts:
            message = {"role": "user", "content": _string_or_parts(turn, parts)}
            if turn.name is not None:
                message["name"] = turn.name
        if not self.open_calls:
            if message is not None or self.held or self.moved_media:
                self._flush(message)
        elif message is not None:
            self.held.append(message)
            self.overtaken.append((LossCode.BLOCK_ORDER, turn.at))

    def _write_part(self, part: Part, *, result: bool = False) -> list[Json]:
        """Return a part other than text and results; as several for a document with children.

        `result` is true for a part of a tool result.
        """
        if type(part) is Image:
            return [write_image(part, self.profile)]
        if type(part) is Document:
            return write_document(part, self.profile, self.losses, self.origin, self.placeholders, result=result)
        if type(part) is Recording:
            return [write_recording(part)]
        if type(part) is Native:
            self.losses.add(LossCode(part.code), part.at)
            return []
        return [text_part(text_of(part, self.losses, self.names))]

    # --- results ------------------------------------------------------------------------------------------------------

    def _write_text_result(self, call_id: str, content: str, at: Path, failed: bool, cache: Json | None = None) -> None:
        """Write a result that is a string as a tool message."""
        sent_id = self._close_call(call_id, at, failed)
        if not content and failed:
            content = _FAILED
        written: str | list[Json] = content
        if cache is not None:
            part = text_part(content) if content and self.profile.text_parts else None
            self.marks.put(part, cache, at)
            if part is not None and is_marked(part):
                written = [part]
        self.messages.append({"role": "tool", "tool_call_id": sent_id, "content": written})

    def _write_result(self, result: ToolResult) -> None:
        """Write a result as a tool message."""
        if result.search:
            raise Unsupported(result.at, "the result of a tool search cannot be sent to this upstream")
        if type(result.content) is str:
            self._write_text_result(result.call_id, result.content, result.at, result.is_error, result.cache)
            return
        sent_id = self._close_call(result.call_id, result.at, result.is_error)
        self.messages.append({"role": "tool", "tool_call_id": sent_id, "content": self._result_content(result)})

    def _close_call(self, call_id: str, at: Path, failed: bool) -> str:
        """Close the call whose result is written next. Returns the id to send."""
        if self.overtaken:
            for code, place in self.overtaken:
                self.losses.add(code, place, "moved after the tool results")
            self.overtaken.clear()
        if failed:  # only the content shows it: OpenAI has no such field
            self.losses.add(LossCode.IS_ERROR, (*at, "is_error"))
        return self.open_calls.pop(call_id, None) or sanitize_call_id(call_id, self.profile.call_id_max)

    def _result_content(self, result: ToolResult) -> str | list[Json]:
        """Return a result's content as text, which is all that a tool message can hold."""
        pieces: list[Json] = []
        for part in result.content:
            assert not isinstance(part, str)
            before = len(pieces)
            if type(part) is Text:
                if part.text:
                    pieces.append({"type": "text", "text": part.text})
                if part.citations:
                    self.losses.add(LossCode.CITATIONS, part.at)
            else:
                try:
                    written = self._write_part(part, result=True)
                except ClientRequestError as error:
                    written = [text_part(self.placeholders.text(part, error, result=True))]
                for piece in written:  # media moves to the user message after the results
                    if piece["type"] != "text":
                        assert isinstance(part, (Image, Document, Recording))
                        piece = text_part(self._move_media(piece, part))
                    pieces.append(piece)
            cache = getattr(part, "cache", None)
            if cache is not None:
                can_mark = self.profile.text_parts and len(pieces) > before
                self.marks.put(pieces[-1] if can_mark else None, cache, part.at)
        if not pieces and result.is_error:
            pieces.append(text_part(_FAILED))
        if result.cache is not None:
            self.marks.put(pieces[-1] if pieces and self.profile.text_parts else None, result.cache, result.at)
        if not pieces:
            return ""
        array = len(pieces) > 1 or is_marked(pieces[0]) or self.origin == DIALECT
        if array and self.profile.text_parts:
            return pieces
        return "\n".join(piece["text"] for piece in pieces)

    def _move_media(self, written: Json, part: Image | Document | Recording) -> str:
        """Move a media part after the results. Returns the text that replaces it."""
        self.losses.add(LossCode.RESULT_MEDIA_MOVED, part.at, "moved after the tool results")
        self.attachments = number = self.attachments + 1
        name = part.name if type(part) is Document else None
        kind = part.kind if type(part) is Recording else "image" if written["type"] == "image_url" else "file"
        label = name or kind
        self.moved_media += ({"type": "text", "text": f"Attachment {number} of the tool results ({label}):"}, written)
        return f"[{label}: attachment {number} in the following user message]"


def _parts_of(content: str | list[Json]) -> list[Json]:
    return [text_part(content)] if isinstance(content, str) else content


def _string_or_parts(turn: Turn, parts: list[Json]) -> str | list[Json]:
    """Return the content in the client's form, string or array, so that text boundaries stay (mapping §4.1)."""
    if turn.plain and len(parts) == 1 and parts[0]["type"] == "text" and not is_marked(parts[0]):
        text: str = parts[0]["text"]
        return text
    return parts

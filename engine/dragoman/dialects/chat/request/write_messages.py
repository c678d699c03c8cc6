"""Turns → Chat `messages` (mapping §3, §4.1, §6.4).

Chat wants every tool message right behind the assistant message whose calls it answers. So after calls, whatever else
comes before the last result (instructions, user text, media that tool messages cannot hold) is held back and follows
the results. A turn's place depends on the turns before it and on results that follow, never on what is appended after
an answer: a longer history is an extension of a shorter one.
"""

from __future__ import annotations

from dragoman.canonical.request import (
    Document,
    Image,
    Json,
    Native,
    Part,
    Request,
    Role,
    SearchResult,
    Text,
    ToolReference,
    ToolResult,
    Turn,
)
from dragoman.dialects.chat.request.write_assistant import AssistantWriter
from dragoman.dialects.chat.request.write_instructions import placed
from dragoman.dialects.chat.wire import DIALECT
from dragoman.dialects.openai.cache_marks import Marks, is_marked
from dragoman.dialects.openai.media import search_text, text_part, write_document, write_image
from dragoman.errors import ClientRequestError, Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable, sanitize_call_id

_FAILED = "Error: the tool call failed without a message."

# Member access on an enum class costs more than a global.
_USER = Role.USER
_ASSISTANT = Role.ASSISTANT
_IS_ERROR = LossCode.IS_ERROR
_MOVED = LossCode.RESULT_MEDIA_MOVED


def write_messages(request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable) -> list[Json]:
    """The request's turns as messages.

    Raises `Unsupported` for parts that this upstream cannot be given, `ClientRequestError` if no message is left.
    """
    conversation = _Conversation(request.origin, profile, knobs, losses, names)
    if request.thinking is not None and request.thinking.effort == "none":
        conversation.writer.fills = False
    conversation.write(placed(request.turns, profile, knobs, losses))
    return conversation.finish()


class _Conversation:
    """The messages so far, and what waits for the open calls to be answered."""

    __slots__ = (
        "assistants",
        "attachments",
        "held",
        "knobs",
        "losses",
        "marks",
        "messages",
        "moved",
        "names",
        "open",
        "origin",
        "overtaken",
        "profile",
        "writer",
    )

    def __init__(self, origin: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable) -> None:
        self.origin, self.profile, self.knobs, self.losses, self.names = origin, profile, knobs, losses, names
        self.marks = Marks(profile, losses)
        self.writer = AssistantWriter(origin, profile, knobs, losses, names, self.marks)
        self.messages: list[Json] = []
        self.open: dict[str, str] = {}
        """Calls that no result has answered yet, and the ids sent for them."""
        self.held: list[Json] = []
        self.overtaken: list[tuple[LossCode, Path]] = []
        """The held messages that no later result has overtaken yet."""
        self.moved: list[Json] = []
        """Media of the results since the calls."""
        self.attachments = 0
        self.assistants: list[Path] = []

    def write(self, turns: list[Turn]) -> None:
        """Write the turns."""
        foreign = self.origin != DIALECT
        opened, held, moved, say, spoke = self.open, self.held, self.moved, self.messages.append, self.assistants.append
        write_short, longest = self.writer.write_short, self.profile.call_id_max
        for turn in turns:
            if (results := turn.compact_results()) is not None:
                for call_id, content, at, failed in results:
                    if failed or held:
                        self._answer(call_id, content, at, failed)
                    else:
                        sent_id = opened.pop(call_id, None) or sanitize_call_id(call_id, longest)
                        say({"role": "tool", "tool_call_id": sent_id, "content": content})
                if not opened and (held or moved):
                    self._flush()
            elif foreign and (assistant := turn.compact_assistant()) is not None:
                if opened or held or moved:
                    self._begin()
                message = write_short(assistant, opened)
                if message is not None:
                    say(message)
                    spoke(turn.at)
            elif turn.role is _USER:
                self._user(turn)
            elif turn.role is _ASSISTANT:
                self._begin()
                message = self.writer.write(turn, opened)
                if message is not None:
                    say(message)
                    spoke(turn.at)
            else:
                self._instruction(turn)

    def _begin(self) -> None:
        """The assistant speaks: what calls are still open will not be answered."""
        if self.held or self.moved:
            self._flush()
        if self.open:
            self.open.clear()

    def finish(self) -> list[Json]:
        """The whole list."""
        self._flush()
        if self.origin != DIALECT:
            self._prefill()
            if self.marks.seen:
                self._settle()
        self.marks.thin()
        if not self.messages:
            at = ("input",) if self.origin == "responses" else ("messages",)
            raise ClientRequestError(at, "nothing is left to send: all content is empty or results without a call")
        return self.messages

    def _settle(self) -> None:
        """Give lonely texts one shape throughout. A mark needs a part to stand on, and clients move their marks with
        each request: what was an array for the sake of its mark is a bare string the next time, and the prefix that
        caches live on would not be the same bytes."""
        if self.profile.text_parts and self.marks.taken:
            said = self.marks.said
            for message in self.messages:
                content = message["content"]
                if type(content) is str and content and (said or message["role"] != "assistant"):
                    message["content"] = [{"type": "text", "text": content}]
            return
        for message in self.messages:
            content = message["content"]
            if type(content) is list and len(content) == 1 and content[0]["type"] == "text":
                message["content"] = content[0]["text"]

    def _flush(self, message: Json | None = None) -> None:
        """Let go of what was held: the moved media, then the rest in its order, then `message`."""
        if self.moved:
            if message is not None and not self.held:
                content = message["content"]
                message["content"] = self.moved + ([text_part(content)] if type(content) is str else content)
            else:
                self.messages.append({"role": "user", "content": self.moved.copy()})
            self.moved.clear()
            self.attachments = 0
        if self.held:
            self.messages += self.held
            self.held.clear()
            self.overtaken.clear()
        if message is not None:
            self.messages.append(message)

    def _prefill(self) -> None:
        """A conversation that ends on assistant text is continued by Messages models only (mapping §4.2)."""
        knob, messages = self.knobs.prefill, self.messages
        while messages and messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]:
            at = self.assistants.pop()
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

    def _instruction(self, turn: Turn) -> None:
        """A system or developer message, in its place."""
        profile = self.profile
        parts: list[Json] = []
        for part in turn.parts:
            if type(part) is Text:
                if part.text:
                    parts.append(text_part(part.text))
                if part.cache is not None:
                    self.marks.put(parts[-1] if part.text and profile.text_parts else None, part.cache, part.at)
            elif type(part) is Native:
                self.losses.add(LossCode(part.code), part.at)
            else:
                raise Unsupported(part.at, "instructions can hold text only")
        if not parts:
            return
        role = profile.instruction_role
        if role == "developer" and self.origin != "messages" and turn.original == "system":
            role = "system"  # such an upstream takes both words, and the client said which one it meant
        message: Json = {"role": role}
        if profile.text_parts:
            message["content"] = _string_or_parts(turn, parts)
        else:
            message["content"] = "\n\n".join(part["text"] for part in parts)
        if turn.name is not None:
            message["name"] = turn.name
        if self.open:
            self.held.append(message)
            self.overtaken.append((LossCode.SYSTEM_REORDERED, turn.at))
        else:
            self.messages.append(message)

    def _user(self, turn: Turn) -> None:
        """The turn's results as tool messages, then the rest as a user message."""
        parts: list[Json] = []
        if turn.plain and len(turn.parts) == 1 and not self.open:
            said = turn.parts[0]
            if type(said) is Text and said.text and said.cache is None and turn.name is None:
                self._flush({"role": "user", "content": said.text})
                return
        for part in turn.parts:
            if type(part) is ToolResult:
                self._result(part)
            elif type(part) is Text:
                if part.text:
                    parts.append(text_part(part.text))
                if part.cache is not None:
                    self.marks.put(parts[-1] if part.text else None, part.cache, part.at)
            else:
                written = self._part(part)
                parts += written
                cache = getattr(part, "cache", None)
                if cache is not None:
                    self.marks.put(written[-1] if written else None, cache, part.at)
        message: Json | None = None
        if parts:
            message = {"role": "user", "content": _string_or_parts(turn, parts)}
            if turn.name is not None:
                message["name"] = turn.name
        if not self.open:
            if message is not None or self.held or self.moved:
                self._flush(message)
        elif message is not None:
            self.held.append(message)
            self.overtaken.append((LossCode.BLOCK_ORDER, turn.at))

    def _part(self, part: Part) -> list[Json]:
        """A part other than text and results; several for a document with children."""
        if type(part) is Image:
            return [write_image(part, self.profile)]
        if type(part) is Document:
            return write_document(part, self.profile, self.losses, self.origin)
        if type(part) is SearchResult:
            return [text_part(search_text(part, self.losses))]
        if type(part) is ToolReference:  # a result of nothing else must not become an empty one
            self.losses.add(LossCode.RESULT_SHAPE, part.at, "named as text")
            return [text_part(f"Tool loaded: {self.names.fit(part.name, part.at)}")]
        if type(part) is Native:
            self.losses.add(LossCode(part.code), part.at)
            return []
        raise Unsupported(part.at, f"{type(part).__name__} cannot stand in a user message")

    # --- results ------------------------------------------------------------------------------------------------------

    def _answer(self, call_id: str, content: str, at: Path, failed: bool, cache: Json | None = None) -> None:
        """A result that is a string as a tool message."""
        sent_id = self._close(call_id, at, failed)
        if not content and failed:
            content = _FAILED
        written: str | list[Json] = content
        if cache is not None:
            part = text_part(content) if content and self.profile.text_parts else None
            self.marks.put(part, cache, at)
            if part is not None and is_marked(part):
                written = [part]
        self.messages.append({"role": "tool", "tool_call_id": sent_id, "content": written})

    def _result(self, result: ToolResult) -> None:
        """A tool message, right behind the calls or the result before it."""
        if result.search:
            raise Unsupported(result.at, "the result of a tool search cannot be carried to this upstream")
        if type(result.content) is str:
            self._answer(result.call_id, result.content, result.at, result.is_error, result.cache)
            return
        sent_id = self._close(result.call_id, result.at, result.is_error)
        self.messages.append({"role": "tool", "tool_call_id": sent_id, "content": self._result_content(result)})

    def _close(self, call_id: str, at: Path, failed: bool) -> str:
        """The call is answered by the message that comes now. Gives the id to send."""
        if self.overtaken:
            for code, place in self.overtaken:
                self.losses.add(code, place, "moved behind the tool results")
            self.overtaken.clear()
        if failed:  # its content says so; OpenAI has no flag
            self.losses.add(_IS_ERROR, (*at, "is_error"))
        return self.open.pop(call_id, None) or sanitize_call_id(call_id, self.profile.call_id_max)

    def _result_content(self, result: ToolResult) -> str | list[Json]:
        """What a tool message can hold of a result: text."""
        pieces: list[Json] = []
        for part in result.content:
            assert not isinstance(part, str)
            before = len(pieces)
            if type(part) is Text:
                if part.text:
                    pieces.append({"type": "text", "text": part.text})
            elif type(part) is Image:  # media goes to the user message behind the results
                pieces.append({"type": "text", "text": self._move(write_image(part, self.profile), part)})
            elif type(part) is Document:
                pieces += [
                    written if written["type"] == "text" else text_part(self._move(written, part))
                    for written in write_document(part, self.profile, self.losses, self.origin)
                ]
            else:
                pieces += self._part(part)
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

    def _move(self, written: Json, part: Image | Document) -> str:
        """Move a media part behind the results; gives the text that stands in its place."""
        self.losses.add(_MOVED, part.at, "moved behind the tool results")
        self.attachments = number = self.attachments + 1
        name = part.name if type(part) is Document else None
        what = name or ("image" if written["type"] == "image_url" else "file")
        self.moved += ({"type": "text", "text": f"Attachment {number} of the tool results ({what}):"}, written)
        return f"[{what}: attachment {number} in the following user message]"


def _string_or_parts(turn: Turn, parts: list[Json]) -> str | list[Json]:
    """A bare string stays one and an array stays one, so that marks and boundaries survive (mapping §4.1)."""
    if turn.plain and len(parts) == 1 and parts[0]["type"] == "text" and not is_marked(parts[0]):
        text: str = parts[0]["text"]
        return text
    return parts

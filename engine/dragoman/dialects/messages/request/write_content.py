"""Writes canonical parts as content blocks of a Messages request (mapping §4, §5.3, §5.4, §6.3, §6.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.canonical.parts import (
    Document,
    FileRef,
    Image,
    Inline,
    Native,
    Part,
    Reasoning,
    Recording,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Unread,
    Url,
)
from dragoman.canonical.request import Json, Request
from dragoman.canonical.turn import Turn, reasoning_fields
from dragoman.dialects.messages.block_types import IMAGE_TYPES
from dragoman.dialects.messages.citations import write_citations
from dragoman.dialects.messages.request.write_cache_marks import CacheMarks
from dragoman.dialects.messages.request.write_calls import CallWriter
from dragoman.dialects.messages.request.write_reasoning import ReasoningWriter, is_blank
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.dialects.shared.inline_data import decoded_text
from dragoman.dialects.shared.placeholders import Placeholders, no_recording
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_TEXT_TYPES: Final = frozenset({"application/json", "application/xml", "application/yaml", "application/x-ndjson"})
"""Media types of text files besides `text/*`."""

_IN_RESULTS: Final = frozenset({Image, SearchResult})
"""Parts besides text, documents and tool references that a tool result may hold."""


class ContentWriter:
    """Writes the parts of one request. Its `reasoning` writes reasoning, its `calls` writes calls and results.

    Args:
        request: the canonical request.
        profile: the upstream's abilities.
        knobs: the operator's choices.
        losses: where dropped and changed parts are recorded.
        names: receives the upstream names of tools.
        marks: receives the cache marks.
    """

    def __init__(
        self, request: Request, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable, marks: CacheMarks
    ) -> None:
        self._profile, self._losses = profile, losses
        self._names, self._marks = names, marks
        self._placeholders = Placeholders(request.turns, losses)
        self.calls = CallWriter(request.origin, profile, names, losses)
        self.reasoning = ReasoningWriter(profile, knobs, losses)

    # --- turns ----------------------------------------------------------------------------------------------------

    def user(self, turn: Turn, results: list[Json], rest: list[Json]) -> None:
        """Append the blocks of a user turn: tool results to `results`, since they must come first, others to `rest`."""
        for part in turn.parts:
            if type(part) is ToolResult:
                results.append(self._result(part, rest))
                continue
            if type(part) is Text and not part.citations:
                block = self._text(part)
            else:
                try:
                    block = self._other(part)
                except ClientRequestError as error:
                    block = {"type": "text", "text": self._placeholders.text(part, error)}
            if block is not None:
                rest.append(block)

    def _other(self, part: Part, result: bool = False) -> Json | None:
        """Return the block of a part of a user's turn, or of a tool result. Raises `ClientRequestError` for others."""
        if type(part) is Unread:
            raise part.error
        if type(part) is Recording:
            raise no_recording(part)
        if type(part) is Document:
            return self._document(part, result)
        writer = _USER_PARTS.get(type(part))
        if writer is None or (result and type(part) not in _IN_RESULTS):
            where = "tool result" if result else "user message"
            raise Unsupported(part.at, f"this content cannot stand in a {where} of a Messages upstream")
        return writer(self, part)

    def assistant(self, turn: Turn) -> str | list[Json]:
        """Return the content of an assistant turn. Blocks keep their order: thinking must directly precede its call."""
        compact = turn.compact
        blocks: list[Json] = []
        if type(compact) is tuple:
            reasoning, text, _, _, calls = compact
            for fields in reasoning:
                block = self.reasoning.write(fields)
                if block is not None:
                    blocks.append(block)
            if text and not text.isspace():
                if turn.plain and not reasoning and not calls:
                    return text
                blocks.append({"type": "text", "text": text})
            if calls:
                self.calls.write_calls(calls, blocks)
            return blocks
        for part in turn.parts:
            writer = _ASSISTANT_PARTS.get(type(part))
            if writer is None:
                raise Unsupported(part.at, "this content cannot stand in an assistant message of a Messages upstream")
            block = writer(self, part)
            if block is not None:
                blocks.append(block)
        return collapse_single_text(blocks, turn.plain)

    def instruction(self, turn: Turn) -> list[Json]:
        """Return the text blocks of an instruction. Raises `Unsupported` for anything but text (mapping §3)."""
        blocks: list[Json] = []
        for part in turn.parts:
            if type(part) is not Text:
                raise Unsupported(part.at, "instructions can only be text for a Messages upstream")
            block = self._text(part)
            if block is not None:
                blocks.append(block)
        return blocks

    # --- text -----------------------------------------------------------------------------------------------------

    def _text(self, part: Text) -> Json | None:
        text = part.text
        if not text or text.isspace():
            if part.cache is not None:
                self._losses.add(LossCode.CACHE_HINT, part.at, "the marked text is empty and was removed")
            return None
        block: Json = {"type": "text", "text": text}
        if part.citations:
            self._cite(block, part)
        if part.cache is not None:
            self._marks.put(block, part.cache, part.at)
        return block

    def _cite(self, block: Json, part: Text) -> None:
        own = write_citations(part.citations)
        if own:
            block["citations"] = own
        if len(own) < len(part.citations):
            self._losses.add(LossCode.CITATIONS, part.at)

    def _user_text(self, part: Text) -> Json | None:
        block = self._text(part)
        if block is not None and "citations" in block and self._profile.anthropic_version == "2026-10-21":
            # That version rejects citations on text of the user.
            del block["citations"]
            self._losses.add(LossCode.CITATIONS, part.at)
        return block

    def _refusal(self, part: Refusal) -> Json | None:
        return None if is_blank(part.text) else {"type": "text", "text": part.text}

    # --- media ----------------------------------------------------------------------------------------------------

    def _image(self, part: Image) -> Json:
        if not self._profile.images:
            raise Unsupported(part.at, "this upstream takes no images")
        if part.detail is not None and part.detail != "auto":
            self._losses.add(LossCode.IMAGE_DETAIL, part.at)
        source = part.source
        if isinstance(source, Inline):
            media_type = source.media_type
            if media_type not in IMAGE_TYPES:
                raise Unsupported(
                    part.at, f"a Messages upstream takes JPEG, PNG, GIF and WebP images; got {media_type!r}"
                )
            block: Json = {
                "type": "image",
                "source": {"type": "base64", "media_type": media_type, "data": source.data},
            }
        else:
            block = {"type": "image", "source": self._reference(source, part)}
        self._marks.put(block, part.cache, part.at)
        return block

    def _reference(self, source: Url | FileRef, part: Image | Document) -> Json:
        if isinstance(source, Url):
            if not self._profile.url_sources:
                raise Unsupported(part.at, "this upstream does not fetch URLs; send the data inline")
            return {"type": "url", "url": source.url}
        if source.origin == DIALECT:
            return {"type": "file", "file_id": source.id}
        raise Unsupported(part.at, "a file id belongs to one provider and means nothing to this upstream")

    def _document(self, part: Document, result: bool) -> Json:
        source = part.source
        if isinstance(source, Inline) and source.media_type in IMAGE_TYPES:
            return self._image(Image(source, part.at, None, part.cache))
        block: Json = {"type": "document", "source": self._document_source(part, result)}
        if part.name:
            block["title"] = part.name
        if part.context:
            block["context"] = part.context
        if part.cite:
            block["citations"] = {"enabled": True}
        self._marks.put(block, part.cache, part.at)
        return block

    def _document_source(self, part: Document, result: bool) -> Json:
        source = part.source
        if isinstance(source, Text):
            return {"type": "text", "media_type": "text/plain", "data": source.text}
        if isinstance(source, list):
            inside = [self._inner(item, result) if isinstance(item, Image) else self._text(item) for item in source]
            return {"type": "content", "content": [block for block in inside if block is not None]}
        if isinstance(source, Inline) and (media_type := source.media_type) != "application/pdf":
            if not media_type.startswith("text/") and media_type not in _TEXT_TYPES:
                raise Unsupported(part.at, f"a Messages upstream takes PDF and text files; got {media_type!r}")
            text = decoded_text(source.data, part.at)
            if media_type != "text/plain":
                self._losses.add(LossCode.DOCUMENT_SHAPE, part.at, f"{media_type} was sent as text/plain")
            return {"type": "text", "media_type": "text/plain", "data": text}
        if not self._profile.pdf:
            raise Unsupported(part.at, "this upstream takes no PDF files")
        if isinstance(source, Inline):
            return {"type": "base64", "media_type": "application/pdf", "data": source.data}
        return self._reference(source, part)

    def _inner(self, image: Image, result: bool) -> Json:
        """Return an image of a document."""
        try:
            return self._image(image)
        except Unsupported as error:
            return {"type": "text", "text": self._placeholders.text(image, error, result=result)}

    def _search_result(self, part: SearchResult) -> Json:
        body = [block for block in map(self._user_text, part.body) if block is not None]
        block: Json = {"type": "search_result", "source": part.source, "title": part.title, "content": body}
        if part.cite:
            block["citations"] = {"enabled": True}
        self._marks.put(block, part.cache, part.at)
        return block

    # --- calls and results ----------------------------------------------------------------------------------------

    def _call(self, part: ToolCall) -> Json:
        if part.custom:
            raise Unsupported(part.at, "a call of a free-text (custom) tool cannot be sent to a Messages upstream")
        if part.search or part.namespace is not None:
            raise Unsupported(part.at, "a call into a namespace or tool search cannot be sent to a Messages upstream")
        written: list[Json] = []
        self.calls.write_calls([(part.id, part.name, part.arguments, part.at)], written)
        block = written[0]
        if part.cache is not None:
            self._marks.put(block, part.cache, part.at)
        return block

    def _result(self, part: ToolResult, rest: list[Json]) -> Json:
        if part.custom or part.search:
            what = "free-text (custom) tool" if part.custom else "tool search"
            raise Unsupported(part.at, f"the result of a {what} cannot be sent to a Messages upstream")
        content = part.content
        written = content if isinstance(content, str) else self._result_content(content, rest)
        block = self.calls.write_results([(part.call_id, written, part.at, part.is_error)])[0]
        if part.cache is not None:
            self._marks.put(block, part.cache, part.at)
        return block

    def _result_content(self, parts: list[Part], rest: list[Json]) -> str | list[Json]:
        blocks: list[Json] = []
        for part in parts:
            written: Json | None
            if type(part) is Text:
                if not part.text:
                    continue
                written = {"type": "text", "text": part.text}
                if part.citations:
                    self._cite(written, part)
                self._marks.put(written, part.cache, part.at)
            elif type(part) is ToolReference and self._profile.rewrite:
                self._losses.add(LossCode.RESULT_SHAPE, part.at, "named as text")
                written = {"type": "text", "text": f"Tool loaded: {self._names.fit(part.name, part.at)}"}
            elif type(part) is ToolReference:
                written = {"type": "tool_reference", "tool_name": self._names.fit(part.name, part.at)}
            else:
                try:
                    written = self._other(part, result=True)
                except ClientRequestError as error:
                    written = {"type": "text", "text": self._placeholders.text(part, error, result=True)}
                if written is not None and written["type"] == "image" and not self._profile.images_in_tool_results:
                    self._losses.add(LossCode.RESULT_MEDIA_MOVED, part.at, "moved after the tool results")
                    rest.append(written)
                    written = {"type": "text", "text": "[The image follows the tool results.]"}
            if written is not None:
                blocks.append(written)
        return blocks or ""

    # --- reasoning and opaque blocks ------------------------------------------------------------------------------

    def _reasoning(self, part: Reasoning) -> Json | None:
        return self.reasoning.write(reasoning_fields(part))

    def _native(self, part: Native) -> Json | None:
        if part.origin == DIALECT and not self._profile.rewrite:
            return part.payload
        self._losses.add(LossCode(part.code), part.at)
        return None


# Plain functions: a table of bound methods in each writer would be a reference cycle, freed by the garbage collector.
_PartWriter = Callable[[ContentWriter, Any], Json | None]
_USER_PARTS: Final[dict[type, _PartWriter]] = {
    Text: ContentWriter._user_text,
    Image: ContentWriter._image,
    SearchResult: ContentWriter._search_result,
    Native: ContentWriter._native,
}
_ASSISTANT_PARTS: Final[dict[type, _PartWriter]] = {
    Text: ContentWriter._text,
    ToolCall: ContentWriter._call,
    Reasoning: ContentWriter._reasoning,
    Refusal: ContentWriter._refusal,
    Native: ContentWriter._native,
}


def collapse_single_text(blocks: list[Json], plain: bool) -> str | list[Json]:
    """Return the string of a single text block without a cache mark if `plain`, else the blocks.

    So content that the client sent as a string stays one.
    """
    if plain and len(blocks) == 1:
        block = blocks[0]
        if len(block) == 2 and block["type"] == "text":
            text: str = block["text"]
            return text
    return blocks

"""Reads the prompt of a request that `write.py` wrote, so that its tokens can be estimated (`TokenCounter`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dragoman.canonical.parts import Document, Image, Inline, Part, Reasoning, Text, ToolCall, ToolResult, Url
from dragoman.canonical.request import Json, OutputFormat, Request, Tool
from dragoman.canonical.turn import Role, Turn
from dragoman.dialects.generate.signatures import SKIP, signature_of
from dragoman.dialects.generate.stop_and_usage import DIALECT
from dragoman.wire.json_codec import dumps

_SCHEMAS: Final = ("parametersJsonSchema", "parameters")
_FORMATS: Final = ("responseJsonSchema", "responseSchema")


def read_prompt(body: Json, *_: Any) -> Request:
    """Return the turns, the tools and the schema of a request. What a provider's settings added to it is left out."""
    turns = [
        Turn("instruction", [*_parts(body.get("systemInstruction"))]),
        *(Turn(_role(content), [*_parts(content)]) for content in _objects(body.get("contents"))),
    ]
    functions = [each for tool in _objects(body.get("tools")) for each in _objects(tool.get("functionDeclarations"))]
    tools = [
        Tool("function", str(each.get("name")), description=each.get("description"), schema=_first(each, _SCHEMAS))
        for each in functions
    ]
    request = Request(DIALECT, "", turns, tools=tools)
    config = body.get("generationConfig")
    if type(config) is dict and (schema := _first(config, _FORMATS)) is not None:
        request.format = OutputFormat("json_schema", schema=schema)
    return request


def _objects(value: Any) -> list[Json]:
    return [each for each in value if type(each) is dict] if type(value) is list else []


def _first(holder: Json, keys: tuple[str, ...]) -> Json | None:
    return next((holder[key] for key in keys if type(holder.get(key)) is dict), None)


def _role(content: Json) -> Role:
    return "assistant" if content.get("role") == "model" else "user"


def _parts(content: Any) -> Iterator[Part]:
    """Yield the parts of a content, and its signatures as reasoning."""
    for part in _objects(content.get("parts")) if type(content) is dict else ():
        if (signature := signature_of(part)) and signature != SKIP:
            yield Reasoning("", proof=signature)
        call, result = part.get("functionCall"), part.get("functionResponse")
        if type(call) is dict:
            yield ToolCall("", str(call.get("name")), dumps(call.get("args")).decode())
        elif type(result) is dict:
            held: list[Part] = [Text(_output(result.get("response"))), *_parts(result)]
            yield ToolResult("", held)
        elif type(text := part.get("text")) is str:
            yield Text(text)
        elif type(data := part.get("inlineData")) is dict:
            source = Inline(str(data.get("mimeType")), str(data.get("data")))
            yield Image(source) if source.media_type.startswith("image/") else Document(source)
        elif type(data := part.get("fileData")) is dict:
            url = Url(str(data.get("fileUri")))
            yield Image(url) if str(data.get("mimeType")).startswith("image/") else Document(url)


def _output(response: Any) -> str:
    """Return the text of a result."""
    values = [*response.values()] if type(response) is dict else []
    return "\n".join(value if type(value) is str else dumps(value).decode() for value in values)

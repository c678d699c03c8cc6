"""Translation of the floor: puts each frame's text into a template of the client's dialect, without checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import orjson

_dumps = orjson.dumps
_INSTRUCTING = ("system", "developer")


class Writer(Protocol):
    """A stream or a whole reply of one client dialect."""

    used: tuple[int, int]
    """Input and output tokens."""

    def open(self, model: str) -> bytes:
        """Return the bytes before the first text."""
        ...

    def text(self, text: str) -> bytes:
        """Return one delta."""
        ...

    def close(self) -> bytes:
        """Return the bytes after the last text."""
        ...

    def whole(self, model: str, text: str) -> Any:
        """Return a whole reply."""
        ...


class ChatWriter:
    """Chat Completions."""

    __slots__ = ("delta", "used")

    def __init__(self) -> None:
        self.used = (0, 0)
        self.delta = b""

    def open(self, model: str) -> bytes:
        """The chunk with the role."""
        head = b'data: {"id":"chatcmpl-floor","object":"chat.completion.chunk","created":1,"model":%b,' % _dumps(model)
        self.delta = head.replace(b"%", b"%%") + b'"choices":[{"index":0,"delta":%b,"finish_reason":%b}]}\n\n'
        return self.delta % (b'{"role":"assistant","content":""}', b"null")

    def text(self, text: str) -> bytes:
        """One chunk."""
        return self.delta % (b'{"content":%b}' % _dumps(text), b"null")

    def close(self) -> bytes:
        """The finish, the usage, the end."""
        usage = (
            b'data: {"id":"chatcmpl-floor","object":"chat.completion.chunk","created":1,"model":"","choices":[],'
            b'"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}\n\n' % (*self.used, sum(self.used))
        )
        return self.delta % (b"{}", b'"stop"') + usage + b"data: [DONE]\n\n"

    def whole(self, model: str, text: str) -> Any:
        """One choice."""
        return {
            "id": "chatcmpl-floor",
            "object": "chat.completion",
            "created": 1,
            "model": model,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": self.used[0],
                "completion_tokens": self.used[1],
                "total_tokens": sum(self.used),
            },
        }


class MessagesWriter:
    """Messages."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = (0, 0)

    def open(self, model: str) -> bytes:
        """The message and its one text block."""
        return (
            b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_floor","type":"message",'
            b'"role":"assistant","model":%b,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{'
            b'"input_tokens":0,"output_tokens":0}}}\n\nevent: content_block_start\ndata: {"type":'
            b'"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n' % _dumps(model)
        )

    def text(self, text: str) -> bytes:
        """One delta of it."""
        return (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
            b'"text":%b}}\n\n' % _dumps(text)
        )

    def close(self) -> bytes:
        """The block's end, the usage, the end."""
        return (
            b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
            b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":'
            b'null},"usage":{"input_tokens":%d,"output_tokens":%d}}\n\n'
            b'event: message_stop\ndata: {"type":"message_stop"}\n\n' % self.used
        )

    def whole(self, model: str, text: str) -> Any:
        """One text block."""
        return {
            "id": "msg_floor",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": self.used[0], "output_tokens": self.used[1]},
        }


_WHERE = b'"item_id":"msg_floor","output_index":0,"content_index":0'


class ResponsesWriter:
    """Responses: events are numbered, and the last ones repeat the whole text."""

    __slots__ = ("model", "number", "texts", "used")

    def __init__(self) -> None:
        self.used = (0, 0)
        self.model = ""
        self.number = 3
        self.texts: list[str] = []

    def open(self, model: str) -> bytes:
        """The response, its one item and that one's part."""
        self.model = model
        response = _dumps(self._response("in_progress", []))
        return (
            _numbered(b"response.created", 0, b'"response":' + response)
            + _numbered(b"response.in_progress", 1, b'"response":' + response)
            + _numbered(
                b"response.output_item.added", 2, b'"output_index":0,"item":' + _dumps(_item("in_progress", []))
            )
            + _numbered(b"response.content_part.added", 3, _WHERE + b',"part":' + _dumps(_part("")))
        )

    def text(self, text: str) -> bytes:
        """Return one delta."""
        self.number = number = self.number + 1
        self.texts.append(text)
        return (
            b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":%d,'
            b'"item_id":"msg_floor","output_index":0,"content_index":0,"delta":%b,"logprobs":[]}\n\n'
            % (number, _dumps(text))
        )

    def close(self) -> bytes:
        """The ends of part, item and response."""
        number, text = self.number, "".join(self.texts)
        part = _part(text)
        item = _item("completed", [part])
        response = self._response("completed", [item])
        return (
            _numbered(b"response.output_text.done", number + 1, _WHERE + b',"logprobs":[],"text":' + _dumps(text))
            + _numbered(b"response.content_part.done", number + 2, _WHERE + b',"part":' + _dumps(part))
            + _numbered(b"response.output_item.done", number + 3, b'"output_index":0,"item":' + _dumps(item))
            + _numbered(b"response.completed", number + 4, b'"response":' + _dumps(response))
        )

    def whole(self, model: str, text: str) -> Any:
        """One message item."""
        self.model = model
        return self._response("completed", [_item("completed", [_part(text)])])

    def _response(self, status: str, output: list[Any]) -> dict[str, Any]:
        used = {"input_tokens": self.used[0], "output_tokens": self.used[1], "total_tokens": sum(self.used)}
        return {
            "id": "resp_floor",
            "object": "response",
            "created_at": 1,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": used if output else None,
        }


def _numbered(kind: bytes, number: int, rest: bytes) -> bytes:
    return b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n' % (kind, kind, number, rest)


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(status: str, content: list[Any]) -> dict[str, Any]:
    return {"id": "msg_floor", "type": "message", "status": status, "role": "assistant", "content": content}


WRITERS: dict[str, Callable[[], Writer]] = {
    "chat": ChatWriter,
    "messages": MessagesWriter,
    "responses": ResponsesWriter,
}


def read_chat(frames: list[bytes], to: Writer) -> list[bytes]:
    """The frames of a Chat stream, rewritten."""
    out = []
    for frame in frames:
        data = frame[6:]
        if data == b"[DONE]":
            out.append(to.close())
            continue
        chunk = orjson.loads(data)
        if choices := chunk["choices"]:
            if text := choices[0]["delta"].get("content"):
                out.append(to.text(text))
        elif usage := chunk.get("usage"):
            to.used = usage["prompt_tokens"], usage["completion_tokens"]
    return out


def read_messages(frames: list[bytes], to: Writer) -> list[bytes]:
    """The frames of a Messages stream, rewritten."""
    out = []
    for frame in frames:
        event = orjson.loads(frame[frame.index(b"data: ") + 6 :])
        kind = event["type"]
        if kind == "content_block_delta":
            out.append(to.text(event["delta"]["text"]))
        elif kind == "message_start":
            to.used = event["message"]["usage"]["input_tokens"], 0
        elif kind == "message_delta":
            to.used = to.used[0], event["usage"]["output_tokens"]
        elif kind == "message_stop":
            out.append(to.close())
    return out


def read_responses(frames: list[bytes], to: Writer) -> list[bytes]:
    """The frames of a Responses stream, rewritten."""
    out = []
    for frame in frames:
        event = orjson.loads(frame[frame.index(b"data: ") + 6 :])
        kind = event["type"]
        if kind == "response.output_text.delta":
            out.append(to.text(event["delta"]))
        elif kind == "response.completed":
            usage = event["response"]["usage"]
            to.used = usage["input_tokens"], usage["output_tokens"]
            out.append(to.close())
    return out


READERS: dict[str, Callable[[list[bytes], Writer], list[bytes]]] = {
    "chat": read_chat,
    "messages": read_messages,
    "responses": read_responses,
}


def read_whole(dialect: str, reply: Any) -> tuple[str, tuple[int, int]]:
    """Text and usage of a whole reply."""
    usage = reply["usage"]
    if dialect == "chat":
        return reply["choices"][0]["message"]["content"], (usage["prompt_tokens"], usage["completion_tokens"])
    blocks = reply["content"] if dialect == "messages" else reply["output"][0]["content"]
    return blocks[0]["text"], (usage["input_tokens"], usage["output_tokens"])


def rewrite_request(client: str, upstream: str, body: Any) -> bytes:
    """The model and the texts of a request, in another dialect."""
    system, turns = _texts(client, body)
    messages = [{"role": role, "content": text} for role, text in turns]
    out: dict[str, Any] = {"model": body["model"], "stream": bool(body.get("stream"))}
    if upstream == "messages":
        out |= {"max_tokens": 8192, "messages": messages, **({"system": system} if system else {})}
    elif upstream == "responses":
        out |= {"input": messages, **({"instructions": system} if system else {})}
    else:
        out["messages"] = ([{"role": "system", "content": system}] if system else []) + messages
        if out["stream"]:
            out["stream_options"] = {"include_usage": True}
    return _dumps(out)


def _texts(client: str, body: Any) -> tuple[str, list[tuple[str, str]]]:
    if client == "responses":
        given, system = body["input"], _text(body.get("instructions"))
        turns = [("user", given)] if isinstance(given, str) else [(m["role"], _text(m["content"])) for m in given]
    else:
        turns = [(m["role"], _text(m["content"])) for m in body["messages"]]
        system = _text(body.get("system"))
    instructions = [text for role, text in turns if role in _INSTRUCTING]
    other_turns = [turn for turn in turns if turn[0] not in _INSTRUCTING]
    return "\n\n".join(filter(None, [system, *instructions])), other_turns


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())
